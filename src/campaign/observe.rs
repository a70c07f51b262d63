//! What a run tells those who watch it. The campaign prints nothing.

use super::ledger::Decision;
use crate::protocol::{Failure, Opened, Progress, RestoreReport};
use crate::search::{Goal, Point, Value};
use crate::trial::{Measurement, Setting, TrialId};
use std::time::Duration;

/// Somebody who watches a run.
pub trait Observer: Send {
    /// Takes news. Must return soon: the heartbeat waits for it.
    fn update(&mut self, news: Update<'_>);
}

/// Nobody watches.
impl Observer for () {
    fn update(&mut self, _: Update<'_>) {}
}

/// News of a run.
#[derive(Debug)]
pub enum Update<'a> {
    /// The journal held something to be told: a torn line was dropped.
    Warning(&'a str),
    /// The run goes on where it was.
    Resumed {
        /// Trials that are not run again.
        settled: u32,
    },
    /// The device was taken.
    Opened {
        /// The device, and what was found.
        opened: &'a Opened,
    },
    /// The default governors are measured now.
    Baseline,
    /// The search of a setting begins.
    Searching {
        /// Which.
        setting: Setting,
        /// The goal with its bound.
        goal: Goal,
        /// The default governors on it, where they could be measured.
        baseline: Option<Value>,
    },
    /// A trial begins.
    Started {
        /// Which.
        id: &'a TrialId,
        /// Counts from 1 within the trial.
        attempt: u32,
        /// Trials done before it.
        done: u32,
        /// About how many there are in all.
        about: u32,
    },
    /// The trial changes phase.
    Phase(&'a Progress),
    /// The trial came back.
    Finished {
        /// The answer.
        measurement: &'a Measurement,
        /// Trials done.
        done: u32,
        /// About how many there are in all.
        about: u32,
    },
    /// An attempt failed.
    Failed {
        /// Which trial.
        id: &'a TrialId,
        /// Why.
        failure: &'a Failure,
        /// No further attempt will be made.
        given_up: bool,
    },
    /// A point was measured; this is the best of its setting so far that meets the goal.
    Best {
        /// Which setting.
        setting: Setting,
        /// The point.
        point: Point,
        /// Its numbers.
        value: Value,
    },
    /// The search of a setting is over.
    Decided {
        /// Which.
        setting: Setting,
        /// The answer.
        decision: &'a Decision,
        /// Why no trial of the search could be used, where that is why there is no answer.
        unusable: Option<String>,
    },
    /// A setting is left out: its bound is the baseline's, and the baseline could not be measured.
    Skipped {
        /// Which.
        setting: Setting,
    },
    /// The link was lost.
    LinkLost {
        /// What happened.
        why: &'a str,
    },
    /// The device was found rebooted.
    Rebooted,
    /// Nothing can be done now.
    Waiting {
        /// For what.
        why: &'a str,
        /// How long until the next try.
        wait: Duration,
    },
    /// The device was put back.
    Restored {
        /// How that went.
        report: &'a RestoreReport,
    },
}
