//! Why a command failed, and the exit code that goes with it.

use super::Exit;
use crate::campaign::config::ConfigError;
use crate::campaign::{CampaignError, RunDirError};
use crate::profile::ProfileError;
use crate::protocol::{Failure, FailureClass, FrameError, RestoreReport};
use crate::table::TableError;
use crate::transport::{LinkError, TransportError};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The sweep configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The run.
    #[error(transparent)]
    Campaign(#[from] CampaignError),
    /// The name of a link.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The frequency table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The link to the device.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The agent said no.
    #[error(transparent)]
    Agent(#[from] Failure),
    /// The conversation with the agent broke.
    #[error(
        "{device}: {error}.{log} The agent restores the device when its link is gone; `opptune restore` makes sure"
    )]
    Frame {
        /// The device.
        device: String,
        /// What broke.
        error: FrameError,
        /// What the agent said last.
        log: String,
    },
    /// What is at the other end speaks no frames.
    #[error("{device}: {error}.{log} What answers is no opptune agent; give one of this build with --agent")]
    NoAgent {
        /// The device.
        device: String,
        /// What it said.
        error: FrameError,
        /// What it said beside that.
        log: String,
    },
    /// The agent's answer makes no sense.
    #[error(
        "{device}: {what}. The device is restored by its agent; give an agent of this build with --agent"
    )]
    Peer {
        /// The device.
        device: String,
        /// What it said.
        what: String,
    },
    /// A file or the system.
    #[error("cannot {doing}: {error}")]
    Io {
        /// What was going on.
        doing: String,
        /// The system's answer.
        error: std::io::Error,
    },
    /// The device was not put back.
    #[error("the device was not put back completely:\n  {}\nTry `opptune restore` again; a reboot puts back what is not persistent", .0.join("\n  "))]
    NotRestored(Vec<String>),
    /// The command line contradicts itself.
    #[error("{0}")]
    Usage(String),
}

impl From<RunDirError> for CliError {
    fn from(error: RunDirError) -> Self {
        CliError::Campaign(error.into())
    }
}

impl CliError {
    /// The exit code.
    pub fn exit(&self) -> Exit {
        match self {
            CliError::NoAgent { .. } | CliError::Peer { .. } => Exit::Usage,
            CliError::Campaign(CampaignError::Protocol { .. }) => Exit::Usage,
            CliError::Campaign(error) => Exit::of(error.exit_code()),
            CliError::Link(_)
            | CliError::Config(_)
            | CliError::Profile(_)
            | CliError::Table(_)
            | CliError::Usage(_) => Exit::Usage,
            CliError::Transport(TransportError::Refused { .. }) => Exit::Other,
            CliError::Transport(_) | CliError::Frame { .. } => Exit::Unavailable,
            CliError::Agent(failure) => of_class(failure.class),
            CliError::NotRestored(_) => Exit::Restore,
            CliError::Io { .. } => Exit::Other,
        }
    }
}

fn of_class(class: FailureClass) -> Exit {
    match class {
        FailureClass::Gate => Exit::Gate,
        FailureClass::Unavailable => Exit::Unavailable,
        FailureClass::Rejected | FailureClass::Transient | FailureClass::Permanent => Exit::Other,
    }
}

/// Says how putting a device back went, and what that means for the exit code.
pub(super) fn say_restored(report: &RestoreReport) -> Result<Exit, CliError> {
    if report.complete() {
        println!("device restored: {} values verified in {} ms", report.restored, report.took_ms);
        return Ok(Exit::Done);
    }
    Err(CliError::NotRestored(report.differs.clone()))
}
