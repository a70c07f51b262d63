//! Links to a device: a byte stream to an agent, and files there and back.
//!
//! The campaign sees a [`Connector`]: it asks for a fresh stream to an agent, as often as it needs one. Below
//! that, a [`Transport`] is one kind of link to one device. The in-memory connector is the real thing for
//! untethered runs, not a test double.

#[cfg(feature = "host")]
pub mod adb;
#[cfg(feature = "host")]
mod agent_file;
#[cfg(feature = "host")]
mod dial;
mod link;
#[cfg(feature = "host")]
pub mod local;
mod log;
pub mod memory;
#[cfg(feature = "host")]
pub mod push;
#[cfg(feature = "host")]
mod root;
#[cfg(feature = "host")]
pub(crate) mod sha256;
#[cfg(feature = "ssh")]
pub mod ssh;
#[cfg(feature = "host")]
pub(crate) mod words;

#[cfg(feature = "host")]
pub use dial::{Dial, DialOptions};
pub use link::{LinkError, LinkSpec, parse_link};
pub use log::AgentLog;
#[cfg(feature = "host")]
use log::printable;

use crate::protocol::Duplex;
use async_trait::async_trait;
use std::path::Path;
use std::time::Duration;

/// What a command on the device answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Its standard output.
    pub stdout: String,
    /// Its standard error, where the link keeps it apart.
    pub stderr: String,
    /// Its exit status, where the link can be trusted to tell it (old adb daemons always say 0).
    pub status: Option<i32>,
}

#[cfg(feature = "host")]
impl Output {
    /// Itself, if the command succeeded.
    ///
    /// # Errors
    /// [`TransportError::Refused`] with what the command said.
    pub(crate) fn succeeded(self, device: &str, doing: &str) -> Result<Self, TransportError> {
        if self.status == Some(0) {
            return Ok(self);
        }
        let why = printable(format!("{} {}", self.stdout, self.stderr).trim().as_bytes());
        let next = format!("Look at the device with: opptune doctor --device {device}");
        Err(TransportError::refused(device, doing, why, next))
    }
}

/// Why a link failed, by what the caller can do about it.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The device is not there, not authorised, or offline. Waiting may help.
    #[error("{device} is unavailable: {why}. {next}")]
    Unavailable {
        /// Name of the device.
        device: String,
        /// Why.
        why: String,
        /// What to do.
        next: String,
    },
    /// The link broke or a call ran past its deadline. Trying again may help.
    #[error("the link to {device} failed while {doing}: {why}")]
    Lost {
        /// Name of the device.
        device: String,
        /// What was going on.
        doing: String,
        /// Why.
        why: String,
    },
    /// The same call fails again: unknown host key, no root, wrong architecture, no space.
    #[error("{device} refused while {doing}: {why}. {next}")]
    Refused {
        /// Name of the device.
        device: String,
        /// What was going on.
        doing: String,
        /// Why.
        why: String,
        /// What to do.
        next: String,
    },
}

impl TransportError {
    /// See [`TransportError::Unavailable`].
    pub fn unavailable(device: &str, why: impl ToString, next: impl Into<String>) -> Self {
        TransportError::Unavailable { device: device.into(), why: why.to_string(), next: next.into() }
    }

    /// See [`TransportError::Lost`].
    pub fn lost(device: &str, doing: impl Into<String>, why: impl ToString) -> Self {
        TransportError::Lost { device: device.into(), doing: doing.into(), why: why.to_string() }
    }

    /// See [`TransportError::Refused`].
    pub fn refused(
        device: &str,
        doing: impl Into<String>,
        why: impl ToString,
        next: impl Into<String>,
    ) -> Self {
        TransportError::Refused {
            device: device.into(),
            doing: doing.into(),
            why: why.to_string(),
            next: next.into(),
        }
    }

    /// Whether trying again may help.
    pub fn may_pass(&self) -> bool {
        !matches!(self, TransportError::Refused { .. })
    }
}

/// A running agent at the other end of a link. Dropping it closes the stream; the agent then restores.
pub struct AgentStream {
    /// The frames go here.
    pub stream: Box<dyn Duplex>,
    /// What the agent says besides: quote it when the stream breaks.
    pub log: AgentLog,
    /// Kept alive as long as the stream is used (child process, session).
    pub keep: Box<dyn Send>,
}

/// Starts agents: the only thing the campaign knows of a link.
#[async_trait]
pub trait Connector: Send + Sync {
    /// The device, as a person would name it to the tool.
    fn device(&self) -> String;

    /// Starts an agent on the device and connects to it. Called again after every loss of the link.
    ///
    /// # Errors
    /// [`TransportError`]; every call has a deadline.
    async fn connect(&self) -> Result<AgentStream, TransportError>;
}

/// One device reachable over one kind of link.
#[async_trait]
pub trait Transport: Send + Sync {
    /// The device, as a person would name it to the tool: `adb:SERIAL`, `ssh:HOST`, `local`.
    fn device(&self) -> String;

    /// Starts the agent (`argv[0]` is its program) and connects to its standard input and output.
    ///
    /// # Errors
    /// [`TransportError`]; every call has a deadline.
    async fn open_agent(&self, argv: &[String]) -> Result<AgentStream, TransportError>;

    /// Runs a command on the device. `argv` is passed as words, never through a host shell.
    ///
    /// # Errors
    /// [`TransportError`], also when `deadline` passes.
    async fn run(&self, argv: &[&str], deadline: Duration) -> Result<Output, TransportError>;

    /// As [`Transport::run`], with the rights the agent is started with.
    ///
    /// # Errors
    /// As there; also when the device gives no such rights.
    async fn run_as_agent(&self, argv: &[&str], deadline: Duration) -> Result<Output, TransportError> {
        self.run(argv, deadline).await
    }

    /// Copies bytes `offset..` of a local file to the end of a remote one (`offset` = 0 creates it anew),
    /// telling `sent` the bytes sent so far.
    ///
    /// # Errors
    /// [`TransportError`]; what arrived is kept.
    async fn push(
        &self,
        local: &Path,
        offset: u64,
        remote: &str,
        sent: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), TransportError>;

    /// Copies a remote file to a local one.
    ///
    /// # Errors
    /// [`TransportError`].
    async fn pull(&self, remote: &str, local: &Path) -> Result<(), TransportError>;
}
