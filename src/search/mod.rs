//! Search strategies as ask/tell state machines. Pure: no device, no I/O, no clock, no randomness.
//!
//! A strategy sees two axes of operating points and the latency and energy of points it asked for. Which
//! knobs an axis moves, how often a point is repeated and in which order a batch runs is the campaign's.

mod bounded;
mod exhaustive;
mod two_step;

pub use bounded::Bounded;
pub use exhaustive::Exhaustive;
pub use two_step::TwoStep;

use crate::units::{MilliJoule, Millis, Opp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A point of the search space. `None` on an axis that the device does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Point {
    /// Operating point of the GPU axis.
    pub gpu: Option<Opp>,
    /// Operating point of the CPU axis.
    pub cpu: Option<Opp>,
}

/// The axes, each slowest first. An axis the device does not have is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// GPU operating points.
    pub gpu: Vec<Opp>,
    /// CPU operating points.
    pub cpu: Vec<Opp>,
}

/// What is tuned for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// G1: lowest latency with energy per token within the bound.
    LowestLatency {
        /// Energy budget per token.
        within: MilliJoule,
    },
    /// G2: lowest energy per token with latency within the bound.
    LowestEnergy {
        /// Latency target (TTFT or TPOT).
        within: Millis,
    },
}

impl Space {
    /// Every point, fastest GPU first and within it fastest CPU first.
    pub fn points(&self) -> Vec<Point> {
        let across = |gpu| descending(&self.cpu).into_iter().map(move |cpu| Point { gpu, cpu });
        descending(&self.gpu).into_iter().flat_map(across).collect()
    }
}

/// The operating points of an axis, fastest first; of an axis the device does not have, the one `None`.
fn descending(axis: &[Opp]) -> Vec<Option<Opp>> {
    match axis {
        [] => vec![None],
        opps => opps.iter().rev().copied().map(Some).collect(),
    }
}

impl Goal {
    /// Whether a point with this value stays within the bound.
    pub fn admits(&self, value: &Value) -> bool {
        match self {
            Goal::LowestLatency { within } => value.energy <= *within,
            Goal::LowestEnergy { within } => value.latency <= *within,
        }
    }

    /// What is minimised, in the unit of the goal: ms, or mJ per token.
    pub fn cost(&self, value: &Value) -> f64 {
        match self {
            Goal::LowestLatency { .. } => value.latency.0,
            Goal::LowestEnergy { .. } => value.energy.0,
        }
    }

    /// The cheapest of the points that the goal admits; the first of equals.
    pub fn best(&self, points: impl IntoIterator<Item = (Point, Value)>) -> Option<(Point, Value)> {
        points
            .into_iter()
            .filter(|(_, value)| self.admits(value))
            .min_by(|(_, a), (_, b)| self.cost(a).total_cmp(&self.cost(b)))
    }
}

/// What a strategy was told, by point.
#[derive(Clone, Debug, Default)]
struct Seen(BTreeMap<Point, Option<Value>>);

impl Seen {
    fn take(&mut self, told: Told) {
        self.0.insert(told.point, told.value);
    }

    /// The answer to `point`; `None` while it was not told, `Some(None)` when it could not be measured.
    fn get(&self, point: &Point) -> Option<Option<Value>> {
        self.0.get(point).copied()
    }

    /// The best of everything told.
    fn best(&self, goal: &Goal) -> Option<(Point, Value)> {
        goal.best(self.0.iter().filter_map(|(&point, value)| value.map(|v| (point, v))))
    }
}

/// The answer for one point: medians over the usable repeats.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// The point.
    pub point: Point,
    /// The numbers; `None` when the point could not be measured (rejected, never held): it is skipped.
    pub value: Option<Value>,
}

/// Latency and energy of a point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// TTFT or TPOT.
    pub latency: Millis,
    /// Energy per token of the stage.
    pub energy: MilliJoule,
}

/// Where a baseline ran on average, as the strategies need it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Effective {
    /// Time-weighted mean of the GPU axis under the default governors.
    pub gpu: Option<f64>,
    /// Time-weighted mean of the CPU axis.
    pub cpu: Option<f64>,
}

/// A strategy for one setting.
///
/// `ask` returns the points wanted next, in any order measurable; all of them are told before it is asked
/// again. An empty answer means the search is over and `best` is final.
pub trait Strategy: Send {
    /// The points wanted next; empty when done.
    fn ask(&mut self) -> Vec<Point>;

    /// Takes the answer to a point that was asked for.
    fn tell(&mut self, told: Told);

    /// The best point so far that meets the goal, with its numbers.
    fn best(&self) -> Option<(Point, Value)>;
}

#[cfg(test)]
mod tests;
