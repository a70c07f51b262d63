//! How a run ends, and what that is to a script.

use super::axes::AxesError;
use super::journal::JournalError;
use super::rundir::RunDirError;
use crate::protocol::{Failure, FailureClass, RestoreReport};
use crate::table::{Table, TableError};
use crate::trial::Setting;

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Why it ended.
    pub end: End,
    /// How the device was put back; `None` when that could not be confirmed.
    pub restored: Option<RestoreReport>,
    /// The table of what was decided; `None` when nothing was.
    pub table: Option<Table>,
}

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Every setting has its answer.
    Done,
    /// Every setting was searched, but for these no combination that was tried meets the budget.
    Unreachable {
        /// The settings.
        settings: Vec<Setting>,
    },
    /// The device is gone; resumable.
    Unavailable {
        /// Why.
        why: String,
    },
    /// A gate refused; resumable.
    Refused {
        /// Why.
        why: String,
    },
    /// Cut short; resumable.
    Interrupted {
        /// Why.
        why: String,
    },
}

impl End {
    /// Why the run did not reach its end; empty where it did.
    pub fn why(&self) -> &str {
        match self {
            End::Done | End::Unreachable { .. } => "",
            End::Unavailable { why } | End::Refused { why } | End::Interrupted { why } => why,
        }
    }
}

impl Outcome {
    /// The exit code: 0 done, 3 device unavailable, 4 refused by a gate, 5 budget unreachable, 6 interrupted,
    /// 7 not put back (which counts before all others).
    pub fn exit_code(&self) -> u8 {
        let confirmed = self.restored.as_ref();
        match self.end {
            _ if confirmed.is_some_and(|report| !report.complete()) => 7,
            End::Unavailable { .. } => 3,
            // The device was there, so that it is back as it was should be known.
            End::Done | End::Unreachable { .. } if confirmed.is_none() => 7,
            End::Done => 0,
            End::Refused { .. } => 4,
            End::Unreachable { .. } => 5,
            End::Interrupted { .. } => 6,
        }
    }

    /// Whether `opptune resume` goes on with the run.
    pub fn resumable(&self) -> bool {
        matches!(self.end, End::Unavailable { .. } | End::Refused { .. } | End::Interrupted { .. })
    }
}

/// Why a run cannot be done at all, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// The run directory.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The profile does not fit the device.
    #[error(transparent)]
    Axes(#[from] AxesError),
    /// The agent refused to take the device.
    #[error("{device}: {failure}")]
    Refused {
        /// The device.
        device: String,
        /// What the agent said.
        failure: Failure,
    },
    /// The link refused for good.
    #[error(transparent)]
    Link(crate::transport::TransportError),
    /// The other end does not speak this protocol.
    #[error(
        "{device}: {why}. The device restores itself when its agent's link ends; install the agent of this build and resume the run"
    )]
    Protocol {
        /// The device.
        device: String,
        /// What is wrong.
        why: String,
    },
    /// Every goal needs energy, and there is none.
    #[error(
        "{device} has no energy source that can be read, and the goals `latency` and `energy` both need energy \
         per token ({notes}). Nothing was measured and the device is unchanged. Add an [[energy]] source to the \
         profile (a gauge, rapl, a meter, or `modelled`), or see `opptune doctor`"
    )]
    NoEnergy {
        /// The device.
        device: String,
        /// What the agent noted.
        notes: String,
    },
    /// Another device, model or engine answers than the run began with.
    #[error(
        "{device} is not as it was when the run began: {}. Results with different conditions are not put \
         together; bring the device back to that state and resume, or begin a new run",
        differences.join("; ")
    )]
    Changed {
        /// The device.
        device: String,
        /// What differs.
        differences: Vec<String>,
    },
    /// The journal holds no device yet, or not what is asked of it.
    #[error("the run {run} {lacks}")]
    Incomplete {
        /// The run.
        run: String,
        /// What it lacks and what to do.
        lacks: String,
    },
    /// Runs that cannot be joined.
    #[error("these runs cannot be merged: {}", differences.join("; "))]
    Unlike {
        /// What differs.
        differences: Vec<String>,
    },
}

impl CampaignError {
    /// The exit code, as for [`Outcome::exit_code`]; 2 where a file has to be changed, 1 for the rest.
    pub fn exit_code(&self) -> u8 {
        match self {
            CampaignError::Link(_) => 3,
            CampaignError::Refused { failure, .. } => match failure.class {
                FailureClass::Rejected => 2,
                FailureClass::Unavailable => 3,
                FailureClass::Gate => 4,
                FailureClass::Transient | FailureClass::Permanent => 1,
            },
            CampaignError::Protocol { .. } => 1,
            _ => 2,
        }
    }
}
