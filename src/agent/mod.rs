//! The device side: one session with one host, over any byte stream.
//!
//! A session says hello, takes a device, runs trials on it and puts everything back, whatever ends it. The host
//! is answered by [`session`] on an async task; [`worker`] does everything that blocks.

mod args;
mod check_pins;
mod conditions;
mod failure;
mod gate;
mod heat;
mod machine;
mod metrics;
mod pins;
mod series;
mod session;
mod signals;
mod taken;
#[cfg(test)]
mod tests;
mod trial;
mod watch;
mod worker;

pub use args::{default_state_dir, main_as};
pub use conditions::fingerprint;
pub use machine::this_machine;
pub use session::serve;

use crate::guard::Launch;
use crate::protocol::{FrameError, RestoreReport};
use std::path::PathBuf;
use std::time::Duration;

/// How a session is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the restorer is started, and the prefix of node files: `/`, or a directory that stands in for it
    /// in tests.
    pub launch: Launch,
    /// Where the lock and the restore file are kept.
    pub state_dir: PathBuf,
    /// End the session on SIGINT, SIGTERM and SIGHUP. Off where the process is not the agent's own.
    pub signals: bool,
}

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExitReason {
    /// The host said bye.
    #[error("the host said bye")]
    Bye,
    /// The host closed the stream.
    #[error("the host closed the stream")]
    HostGone,
    /// Nothing was heard from the host for this long.
    #[error("nothing was heard from the host for {0:?}")]
    LeaseLapsed(Duration),
    /// No restorer stands by any more and none can be started.
    #[error("{0}")]
    NoRestorer(String),
    /// This signal came.
    #[error("{0}")]
    Signal(&'static str),
}

/// A session that ended, and how putting the device back went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Why.
    pub reason: ExitReason,
    /// What was put back.
    pub restored: RestoreReport,
}

/// Why a session could not be held, or broke.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The two sides are of different versions.
    #[error("the host speaks protocol {host}, this agent speaks {agent}")]
    Mismatch {
        /// The host's version.
        host: u32,
        /// Ours.
        agent: u32,
    },
    /// No first frame in time.
    #[error("no host said hello within {0:?}")]
    Silent(Duration),
    /// The first frame was none, or another one.
    #[error("the first frame from the host is not a hello; is an opptune host at the other end?")]
    NoHello,
    /// The link broke before anything was touched.
    #[error("{0}. Nothing on the device was changed")]
    Greeting(#[from] FrameError),
    /// The link broke; the device was put back.
    #[error("{error}. {} value(s) of the device are back", restored.restored)]
    Link {
        /// What broke.
        error: FrameError,
        /// How putting the device back went.
        restored: RestoreReport,
    },
    /// Signals cannot be listened for.
    #[error("cannot listen for signals: {0}")]
    Signals(#[from] std::io::Error),
}
