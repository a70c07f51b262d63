//! Runs without a host: the agent's program runs the same campaign itself, over the in-memory link, to the
//! agent beside it.
//!
//! For meters that sit on the USB port, and for nights on which the host is off. `detach` (host) puts a run
//! directory with a [`Plan`] on the device and has it started; the [`worker`] outlives adbd, waits for the
//! cable to go, runs, and keeps [`Status`]; `collect` (host) brings the directory home. It is then what a
//! tethered run would have left.

#[cfg(feature = "host")]
mod host;
mod wait;
mod worker;

#[cfg(feature = "host")]
pub use host::{Collected, Detached, collect, detach, status};

use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const PLAN: &str = "plan.json";
const STATUS: &str = "status.json";
const LOG: &str = "worker.log";
const LOCK: &str = "lock";

/// What the device is told besides configuration and profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// Where the model is on the device, if not where the configuration says.
    pub model: Option<String>,
    /// Takes the device although this holder has it.
    pub steal_from: Option<String>,
    /// How long the cable may take to go, seconds; 0: its going is not waited for.
    pub unplug_s: u64,
    /// Time between that and the first load, seconds: to start an external meter.
    pub settle_s: u64,
    /// Bursts of load by which an external meter's trace is aligned with the device's clock.
    pub pulses: u32,
}

/// How far a run on the device is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// What it is doing.
    pub phase: Phase,
    /// Whether its process is there. Told by whoever asks, not kept in the file.
    #[serde(default)]
    pub running: bool,
    /// Trials done.
    pub done: u32,
    /// About how many there are in all.
    pub about: u32,
    /// The last news, for people.
    pub news: String,
    /// When the bursts of load began and ended, nanoseconds of the device's boot clock.
    pub pulses: Vec<(u64, u64)>,
    /// The exit code a tethered run would have ended with; `None` until then.
    pub exit_code: Option<u8>,
}

/// What a run on the device is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Not begun.
    #[default]
    Starting,
    /// Waiting for the cable to go.
    WaitingForUnplug,
    /// Waiting for the meter, and giving it the bursts.
    Settling,
    /// Running the campaign.
    Running,
    /// It has ended.
    Ended,
}

/// Why a run on the device cannot be started, seen or brought home.
#[derive(Debug, thiserror::Error)]
pub enum UntetheredError {
    /// A file of the run.
    #[error("cannot {doing} {}: {error}. Check the path and the free space", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// A file of the run is damaged.
    #[error("{}: {why}. Is it of another version of opptune?", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The campaign.
    #[error(transparent)]
    Campaign(#[from] crate::campaign::CampaignError),
    /// The cable is still there.
    #[error(
        "the cable was still there after {0} s, so nothing was measured and the device is unchanged. Collect \
         the run, then detach it again"
    )]
    StillPlugged(u64),
    /// The run's process on the device did not come up.
    #[error("the run did not start on the device: {0}. Nothing was changed")]
    NotStarted(String),
    /// The link.
    #[error(transparent)]
    Link(#[from] crate::transport::TransportError),
    /// The run is not over.
    #[error("the run is not over: {done} of about {about} trials are done. See `opptune status`")]
    NotOver {
        /// Trials done.
        done: u32,
        /// About how many there are.
        about: u32,
    },
    /// The directory was not detached from.
    #[error("{} was not detached, so there is nothing to bring home to it", .0.display())]
    NotDetached(PathBuf),
    /// The device offers a file that is no part of a run.
    #[error("the device has `{0}` among the files of the run, which is no part of one; it was not taken")]
    Foreign(String),
}

impl UntetheredError {
    fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| UntetheredError::Io { doing, path, error }
    }
}

/// The agent's program: runs plans itself, and is the agent for everything else. `prefix` as for
/// [`crate::agent::main_as`].
pub fn main_as(prefix: &[&str], args: impl Iterator<Item = String>) -> ExitCode {
    let args: Vec<String> = args.collect();
    match args.first().map(String::as_str) {
        Some("run-plan") => worker::main(prefix, &args[1..]),
        Some("plan-status") => worker::print_status(&args[1..]),
        _ => crate::agent::main_as(prefix, args.into_iter()),
    }
}

/// Reads a JSON file of a run.
fn load<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, UntetheredError> {
    let text = std::fs::read_to_string(path).map_err(UntetheredError::io("read", path))?;
    serde_json::from_str(&text)
        .map_err(|e| UntetheredError::Damaged { path: path.to_owned(), why: e.to_string() })
}

/// Writes a JSON file of a run, so that it is whole whenever it is read.
fn save(value: &impl Serialize, path: &Path) -> Result<(), UntetheredError> {
    let beside = path.with_extension("new");
    serde_json::to_vec_pretty(value)
        .map_err(io::Error::other)
        .and_then(|text| std::fs::write(&beside, text))
        .and_then(|()| std::fs::rename(&beside, path))
        .map_err(UntetheredError::io("write", path))
}
