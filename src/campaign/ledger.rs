//! What a journal says, folded into what the next decision needs. The only memory a campaign has: it is built
//! from the events alone, so an interrupted run and an uninterrupted one know the same.

use super::journal::{Event, Line};
use crate::protocol::{Failure, FailureClass, Opened};
use crate::search::{Goal, Point, Value};
use crate::stats::Sample;
use crate::trial::{Combination, Measurement, Purpose, Setting, TrialId};
use crate::units::{MilliJoule, Millis};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The answer of one search.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The goal with its bound.
    pub goal: Goal,
    /// The answer; `None`: no point met the goal.
    pub best: Option<(Point, Value)>,
    /// Trials spent, baseline not counted.
    pub inferences: u32,
}

/// What a journal says.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// The device as it was first taken; every later time must agree.
    first: Option<Opened>,
    boot_id: Option<String>,
    finished: BTreeMap<TrialId, Measurement>,
    given_up: HashMap<TrialId, Failure>,
    /// Combinations that were rejected for a setting: their other repeats would be, too.
    rejected: HashSet<(Setting, Combination)>,
    started: HashMap<TrialId, u32>,
    /// Failures per trial since the run was last taken up.
    trouble: HashMap<TrialId, Vec<FailureClass>>,
    /// Losses of the link per trial since then.
    lost: HashMap<TrialId, u32>,
    /// Losses of the link under trials since one last finished.
    losses_in_a_row: u32,
    in_flight: Option<TrialId>,
    /// Trials that were in flight when link or host were lost.
    cut: HashSet<TrialId>,
    decided: BTreeMap<Setting, Decision>,
    completed: bool,
}

impl Ledger {
    /// The ledger of a journal.
    pub fn of(lines: &[Line]) -> Self {
        let mut ledger = Ledger::default();
        lines.iter().for_each(|line| ledger.take(&line.event));
        ledger
    }

    /// Takes one more event.
    pub fn take(&mut self, event: &Event) {
        match event {
            Event::Opened { opened } => {
                self.cut_flight();
                self.boot_id = Some(opened.device.boot_id.clone());
                self.first.get_or_insert_with(|| (**opened).clone());
            }
            Event::Started { id, attempt } => {
                self.started.insert(id.clone(), *attempt);
                self.in_flight = Some(id.clone());
            }
            Event::Finished { measurement } => {
                self.in_flight = None;
                self.losses_in_a_row = 0;
                self.finished.insert(measurement.id.clone(), (**measurement).clone());
            }
            Event::Failed { id, failure, given_up } => self.fail(id, failure, *given_up),
            Event::LinkLost { during, .. } => {
                self.cut_flight();
                if let Some(id) = during {
                    *self.lost.entry(id.clone()).or_default() += 1;
                    self.losses_in_a_row += 1;
                }
            }
            Event::Rebooted { boot_id } => self.boot_id = Some(boot_id.clone()),
            Event::Decided { setting, goal, best, inferences } => {
                let decision = Decision { goal: *goal, best: *best, inferences: *inferences };
                self.decided.insert(*setting, decision);
            }
            Event::Interrupted { .. } => self.pause(),
            Event::Completed {} => self.completed = true,
            Event::Created { .. } | Event::Restored { .. } => (),
        }
    }

    fn fail(&mut self, id: &TrialId, failure: &Failure, given_up: bool) {
        self.in_flight = None;
        self.trouble.entry(id.clone()).or_default().push(failure.class);
        if failure.class == FailureClass::Rejected {
            self.rejected.insert((id.setting, id.combination.clone()));
        }
        if given_up {
            self.given_up.insert(id.clone(), failure.clone());
        }
    }

    fn cut_flight(&mut self) {
        self.cut.extend(self.in_flight.take());
    }

    /// The run was put down on purpose: what failed before may be tried again with fresh patience.
    fn pause(&mut self) {
        self.in_flight = None;
        self.trouble.clear();
        self.lost.clear();
        self.losses_in_a_row = 0;
    }

    /// The device as it was first taken.
    pub fn first(&self) -> Option<&Opened> {
        self.first.as_ref()
    }

    /// The boot the device was last seen in.
    pub fn boot_id(&self) -> Option<&str> {
        self.boot_id.as_deref()
    }

    /// Whether nothing more is to be done for a trial: it finished, was given up, or the same combination was
    /// rejected before.
    pub fn settled(&self, id: &TrialId) -> bool {
        self.finished.contains_key(id)
            || self.given_up.contains_key(id)
            || self.rejected.contains(&(id.setting, id.combination.clone()))
    }

    /// Attempts of a trial so far.
    pub fn attempts(&self, id: &TrialId) -> u32 {
        self.started.get(id).copied().unwrap_or(0)
    }

    /// Failures of one class of a trial since the run was last taken up.
    pub fn failures(&self, id: &TrialId, class: FailureClass) -> u32 {
        self.trouble.get(id).map_or(0, |all| all.iter().filter(|&&c| c == class).count() as u32)
    }

    /// How often the link was lost under a trial since the run was last taken up.
    pub fn link_losses(&self, id: &TrialId) -> u32 {
        self.lost.get(id).copied().unwrap_or(0)
    }

    /// How often the link was lost under trials without one finishing in between.
    pub fn losses_in_a_row(&self) -> u32 {
        self.losses_in_a_row
    }

    /// Whether a trial was in flight when the link or the host was lost.
    pub fn was_cut(&self, id: &TrialId) -> bool {
        self.cut.contains(id)
    }

    /// The measurements of a run, by trial.
    pub fn finished(&self) -> impl Iterator<Item = &Measurement> + Clone {
        self.finished.values()
    }

    /// Trials that were given up, and why.
    pub fn given_up(&self) -> impl Iterator<Item = (&TrialId, &Failure)> {
        self.given_up.iter()
    }

    /// Trials nothing more is to be done for, drift control counted apart: (regular, drift).
    pub fn settled_counts(&self) -> (u32, u32) {
        let ids = || self.finished.keys().chain(self.given_up.keys());
        let drift = ids().filter(|id| id.purpose == Purpose::Drift).count();
        ((ids().count() - drift) as u32, drift as u32)
    }

    /// The answer of a setting's search.
    pub fn decision(&self, setting: Setting) -> Option<&Decision> {
        self.decided.get(&setting)
    }

    /// Whether the run is complete.
    pub fn completed(&self) -> bool {
        self.completed
    }

    /// The finished repeats of a combination.
    pub fn repeats(
        &self,
        setting: Setting,
        combination: &Combination,
        purpose: Purpose,
    ) -> impl Iterator<Item = &Measurement> + Clone {
        let id = |repeat| TrialId { setting, combination: combination.clone(), purpose, repeat };
        self.finished.range(id(0)..=id(u32::MAX)).map(|(_, m)| m)
    }

    /// Medians of the usable repeats of a combination; `None` when none is usable.
    pub fn value(&self, setting: Setting, combination: &Combination, purpose: Purpose) -> Option<Value> {
        let (latency, energy) = samples(self.repeats(setting, combination, purpose));
        Some(Value { latency: Millis(latency.median()?), energy: MilliJoule(energy.median()?) })
    }

    /// Why none of a setting's search trials may pick a frequency; `None` when one may, or none came back.
    pub fn why_unusable(&self, setting: Setting) -> Option<String> {
        let search = |m: &&Measurement| m.id.setting == setting && m.id.purpose == Purpose::Search;
        let mut trials = self.finished().filter(search);
        match trials.clone().any(|m| usable_value(m).is_some()) {
            true => None,
            false => trials.next().map(why_unusable),
        }
    }

    /// Trials of a setting's search that came back.
    pub fn inferences(&self, setting: Setting) -> u32 {
        let spent = |id: &&TrialId| id.setting == setting && id.purpose == Purpose::Search;
        self.finished.keys().filter(spent).count() as u32
    }
}

/// The numbers of a trial that may pick a frequency: every pin held, the energy window was long enough.
pub fn usable_value(m: &Measurement) -> Option<Value> {
    let energy = m.energy.as_ref().filter(|e| m.usable() && !e.too_short)?;
    Some(Value { latency: m.stage_latency()?, energy: energy.per_token })
}

fn why_unusable(m: &Measurement) -> String {
    let knob = m.knobs.iter().find_map(|(id, seen)| Some(format!("{id}: {}", seen.verdict.problem()?)));
    knob.unwrap_or_else(|| match m.energy {
        Some(_) => "the window was too short for the energy source".into(),
        None => "there is no energy".into(),
    })
}

/// Latencies (ms) and energies per token (mJ) of the usable ones among `trials`.
pub fn samples<'m>(trials: impl Iterator<Item = &'m Measurement> + Clone) -> (Sample, Sample) {
    let values = trials.filter_map(usable_value);
    (values.clone().map(|v| v.latency.0).collect(), values.map(|v| v.energy.0).collect())
}
