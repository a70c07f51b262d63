//! The journal: append-only, one JSON event a line, written before an event is acted on.

mod file;

pub use file::{History, Journal, JournalError, read};

use crate::protocol::{Failure, Opened, RestoreReport};
use crate::search::{Goal, Point, Value};
use crate::trial::{Measurement, Setting, TrialId};
use serde::{Deserialize, Serialize};

/// The version of the journal format.
pub const VERSION: u32 = 1;

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Counts from 0 without gaps.
    pub seq: u64,
    /// Host time, RFC 3339; for people only.
    pub at: String,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum Event {
    /// First line of every journal.
    Created {
        /// [`VERSION`].
        version: u32,
        /// Version of the tool.
        build: String,
    },
    /// A device was taken (once per connection).
    Opened {
        /// The device, and what was found.
        opened: Box<Opened>,
    },
    /// A trial was given to the agent.
    Started {
        /// Which.
        id: TrialId,
        /// Counts from 1 within the trial.
        attempt: u32,
    },
    /// A trial came back.
    Finished {
        /// The answer.
        measurement: Box<Measurement>,
    },
    /// An attempt of a trial failed.
    Failed {
        /// Which.
        id: TrialId,
        /// Why.
        failure: Failure,
        /// No further attempt will be made.
        given_up: bool,
    },
    /// The link to the agent was lost.
    LinkLost {
        /// The trial that was in flight, if any. It is repeated once.
        during: Option<TrialId>,
        /// What happened.
        why: String,
    },
    /// The device was found rebooted.
    Rebooted {
        /// Its boot id now.
        boot_id: String,
    },
    /// The search of a setting ended.
    Decided {
        /// Which setting.
        setting: Setting,
        /// The goal with its bound.
        goal: Goal,
        /// The answer; `None`: no point met the goal.
        best: Option<(Point, Value)>,
        /// Trials spent, baseline not counted.
        inferences: u32,
    },
    /// The device was put back.
    Restored {
        /// How that went.
        report: RestoreReport,
    },
    /// The run was cut short; it can be resumed.
    Interrupted {
        /// Why.
        why: String,
    },
    /// The run is complete.
    Completed {},
}
