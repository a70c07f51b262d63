//! What is measured and in which order: a pure function of configuration, device tables and seed.

use super::axes::DeviceAxes;
use super::config::{Budget, GoalKind, StrategyKind, SweepConfig};
use super::ledger::Ledger;
use crate::search::{Bounded, Effective, Exhaustive, Goal, Point, Space, Strategy, TwoStep, Value};
use crate::trial::{Combination, GateSpec, Purpose, Setting, Stage, TrialId, TrialSpec};
use crate::units::{Celsius, MilliJoule, Millis};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The plan of a run on a device.
pub struct Plan<'a> {
    config: &'a SweepConfig,
    /// Temperature of the gate's zone when the run began.
    start: Option<Celsius>,
    /// The axes.
    pub axes: DeviceAxes,
}

/// What the search of a setting starts from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Footing {
    /// The default governors on the setting; `None` when they could not be measured.
    pub baseline: Option<Value>,
    /// Where the axes ran under them.
    pub effective: Effective,
}

impl<'a> Plan<'a> {
    /// The plan of `config` on a device with these axes.
    pub fn new(config: &'a SweepConfig, axes: DeviceAxes) -> Self {
        Plan { config, axes, start: None }
    }

    /// Trials start from `start`, unless the configuration says from where.
    #[must_use]
    pub fn starting_from(self, start: Option<Celsius>) -> Self {
        Plan { start, ..self }
    }

    /// The baseline trials of all settings, in the order they are run.
    pub fn baseline_trials(&self) -> Vec<TrialId> {
        let baseline = self.axes.baseline();
        let repeats = self.config.measure.baseline_repeats;
        let of = |setting| repeated(setting, &baseline, Purpose::Baseline, repeats);
        self.shuffled(self.config.settings.list().into_iter().flat_map(of).collect())
    }

    /// The trials of a batch of points, in the order they are run.
    pub fn search_trials(&self, setting: Setting, points: &[Point]) -> Vec<TrialId> {
        let of = |&point: &Point| {
            let combination = self.axes.combination(point);
            repeated(setting, &combination, Purpose::Search, self.config.measure.repeats)
        };
        self.shuffled(points.iter().flat_map(of).collect())
    }

    /// The drift control that is due, if one is: the first setting under the default governors, once after
    /// every so many trials.
    pub fn drift_due(&self, ledger: &Ledger) -> Option<TrialId> {
        let (regular, repeat) = ledger.settled_counts();
        let due = regular.checked_div(self.config.measure.drift_every)?;
        let setting = *self.config.settings.list().first()?;
        let combination = self.axes.baseline();
        (due > repeat).then_some(TrialId { setting, combination, purpose: Purpose::Drift, repeat })
    }

    /// What the agent is told of a trial.
    pub fn spec(&self, id: &TrialId) -> TrialSpec {
        let measure = &self.config.measure;
        TrialSpec {
            id: id.clone(),
            prompt_tokens: match id.setting.stage {
                Stage::Prefill => id.setting.tokens,
                Stage::Decode => self.config.settings.decode_prompt,
            },
            seed: seed_of(self.config.search.seed, id),
            gate: GateSpec {
                start_celsius: self.config.gate.start_celsius.or(self.start),
                ..self.config.gate.clone()
            },
            min_window_ms: measure.min_window_ms,
            min_updates: measure.min_updates,
            max_passes: measure.max_passes,
        }
    }

    /// What the search of `setting` starts from, once its baseline is settled.
    pub fn footing(&self, setting: Setting, ledger: &Ledger) -> Footing {
        let baseline = self.axes.baseline();
        let trials = ledger.repeats(setting, &baseline, Purpose::Baseline);
        Footing {
            baseline: ledger.value(setting, &baseline, Purpose::Baseline),
            effective: self.axes.effective(trials),
        }
    }

    /// The value of a point, once its trials are settled.
    pub fn value(&self, setting: Setting, point: Point, ledger: &Ledger) -> Option<Value> {
        ledger.value(setting, &self.axes.combination(point), Purpose::Search)
    }

    /// The strategy of the configuration for one setting.
    pub fn strategy(&self, goal: Goal, effective: Effective) -> Box<dyn Strategy> {
        let search = &self.config.search;
        let strategy = strategy(search.strategy, self.axes.space(), goal, effective);
        match search.max_inferences {
            None => strategy,
            Some(most) => {
                Box::new(Bounded::new(strategy, (most / self.config.measure.repeats.max(1)) as usize))
            }
        }
    }

    /// About how many trials the whole run takes: exact for what is decided and for exhaustive searches. A search
    /// that is not over is expected to take as many as those that are.
    pub fn about(&self, ledger: &Ledger) -> u32 {
        let settings = self.config.settings.list();
        let baseline = settings.len() as u32 * self.config.measure.baseline_repeats;
        let known: Vec<u32> = settings.iter().filter_map(|s| Some(ledger.decision(*s)?.inferences)).collect();
        let guess = known.iter().sum::<u32>().checked_div(known.len() as u32).unwrap_or_else(|| self.guess());
        let spent = |s: &Setting| {
            ledger.decision(*s).map_or(guess.max(ledger.inferences(*s)), |decided| decided.inferences)
        };
        let regular = baseline + settings.iter().map(spent).sum::<u32>();
        regular + regular.checked_div(self.config.measure.drift_every).unwrap_or(0)
    }

    /// Trials expected of the first search. Two-step: a quarter of the GPU axis and a sixth of the CPU axis
    /// for two candidates, by the averages that were published.
    fn guess(&self) -> u32 {
        let (space, search) = (self.axes.space(), &self.config.search);
        let (gpu, cpu) = (space.gpu.len().max(1), space.cpu.len().max(1));
        let points = match search.strategy {
            StrategyKind::Exhaustive => gpu * cpu,
            StrategyKind::TwoStep => gpu.div_ceil(4) + 2 * cpu.div_ceil(6),
        };
        let trials = points as u32 * self.config.measure.repeats;
        search.max_inferences.map_or(trials, |most| trials.min(most))
    }

    /// In seeded random order, so that heat does not line up with frequency. The order depends on nothing but
    /// the seed and the trials themselves.
    fn shuffled(&self, mut trials: Vec<TrialId>) -> Vec<TrialId> {
        let mut dice = ChaCha8Rng::seed_from_u64(seed_of(self.config.search.seed, &trials));
        trials.shuffle(&mut dice);
        trials
    }
}

fn repeated(
    setting: Setting,
    combination: &Combination,
    purpose: Purpose,
    repeats: u32,
) -> impl Iterator<Item = TrialId> + use<> {
    let combination = combination.clone();
    (0..repeats).map(move |repeat| TrialId { setting, combination: combination.clone(), purpose, repeat })
}

/// A strategy by its name.
pub fn strategy(kind: StrategyKind, space: Space, goal: Goal, effective: Effective) -> Box<dyn Strategy> {
    match kind {
        StrategyKind::TwoStep => Box::new(TwoStep::new(&space, goal, effective)),
        StrategyKind::Exhaustive => Box::new(Exhaustive::new(space, goal)),
    }
}

/// The goal with its bound; `None` when the bound is the baseline's and there is no baseline.
pub fn goal(kind: GoalKind, budget: Budget, baseline: Option<Value>) -> Option<Goal> {
    let reached = baseline.map(|value| match kind {
        GoalKind::Latency => value.energy.0,
        GoalKind::Energy => value.latency.0,
    });
    let bound = match budget {
        Budget::Baseline => reached?,
        Budget::Factor(factor) => reached? * factor,
        Budget::Absolute(bound) => bound,
    };
    Some(match kind {
        GoalKind::Latency => Goal::LowestLatency { within: MilliJoule(bound) },
        GoalKind::Energy => Goal::LowestEnergy { within: Millis(bound) },
    })
}

/// A seed that depends on the run's seed and on `what`, and on nothing else: not on order, attempt or time.
fn seed_of(seed: u64, what: &impl Serialize) -> u64 {
    // Trial ids are made of strings and whole numbers, which JSON always takes.
    let text = serde_json::to_vec(what).unwrap_or_default();
    let digest = Sha256::new().chain_update(seed.to_le_bytes()).chain_update(text).finalize();
    digest.iter().take(8).fold(0, |seed, &byte| seed << 8 | u64::from(byte))
}
