//! What the two-step search loses against an exhaustive one, and what it saves. A full journal holds every
//! point, so it is a simulator that any strategy can be run against (the idea of Kernel Tuner's cache).

use super::axes::DeviceAxes;
use super::config::{Budget, GoalKind, StrategyKind, SweepConfig};
use super::journal::Line;
use super::ledger::Ledger;
use super::outcome::CampaignError;
use super::plan::{self, Footing, Plan};
use crate::profile::Profile;
use crate::search::{Goal, Point, Strategy, Told, Value};
use crate::stats::relative;
use crate::trial::Setting;

/// What one strategy found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Its answer; `None`: no point met the goal.
    pub best: Option<(Point, Value)>,
    /// Points it asked for.
    pub points: u32,
    /// Inferences these take with the run's repeats.
    pub inferences: u32,
}

/// Both strategies on one setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The setting.
    pub setting: Setting,
    /// The goal with its bound.
    pub goal: Goal,
    /// The default governors.
    pub baseline: Value,
    /// Every point.
    pub exhaustive: Found,
    /// The two-step search.
    pub two_step: Found,
}

impl Comparison {
    /// How much worse the two-step answer is than the best there is, as a share of it: of latency for goal
    /// `latency`, of energy for goal `energy`. `None` when either found nothing.
    pub fn regret(&self) -> Option<f64> {
        let cost = |found: &Found| found.best.map(|(_, value)| self.goal.cost(&value));
        Some(relative(cost(&self.two_step)?, cost(&self.exhaustive)?))
    }
}

/// Compares on the journal of an exhaustive run, for a goal and its budget.
///
/// # Errors
/// [`CampaignError::Incomplete`] when the journal does not hold every point of every setting.
pub fn compare(
    lines: &[Line],
    config: &SweepConfig,
    profile: &Profile,
    (kind, budget): (GoalKind, Budget),
) -> Result<Vec<Comparison>, CampaignError> {
    let ledger = Ledger::of(lines);
    if config.search.strategy != StrategyKind::Exhaustive || !ledger.completed() {
        return Err(incomplete(config, "is no complete exhaustive run"));
    }
    let first = ledger.first().ok_or_else(|| incomplete(config, "took no device"))?;
    let plan = Plan::new(config, DeviceAxes::new(profile, &first.knobs)?);
    let one = |setting| {
        let footing = plan.footing(setting, &ledger);
        let goal = plan::goal(kind, budget, footing.baseline);
        let known = goal.zip(footing.baseline);
        let (goal, baseline) = known.ok_or_else(|| incomplete(config, "has a setting without baseline"))?;
        let found = |strategy| found(&plan, config, &ledger, setting, strategy, goal, footing);
        let (exhaustive, two_step) = (found(StrategyKind::Exhaustive), found(StrategyKind::TwoStep));
        Ok(Comparison { setting, goal, baseline, exhaustive, two_step })
    };
    config.settings.list().into_iter().map(one).collect()
}

fn incomplete(config: &SweepConfig, what: &str) -> CampaignError {
    let lacks = format!(
        "{what}; strategies are compared on a complete run with `strategy = \"exhaustive\"` and no \
         `max-inferences`"
    );
    CampaignError::Incomplete { run: config.name.clone(), lacks }
}

/// Runs a strategy against the journal.
fn found(
    plan: &Plan<'_>,
    config: &SweepConfig,
    ledger: &Ledger,
    setting: Setting,
    strategy: StrategyKind,
    goal: Goal,
    footing: Footing,
) -> Found {
    let mut strategy = plan::strategy(strategy, plan.axes.space(), goal, footing.effective);
    let mut points = 0;
    loop {
        let asked = strategy.ask();
        if asked.is_empty() {
            let inferences = points * config.measure.repeats;
            return Found { best: strategy.best(), points, inferences };
        }
        points += asked.len() as u32;
        asked.into_iter().for_each(|point| {
            strategy.tell(Told { point, value: plan.value(setting, point, ledger) });
        });
    }
}
