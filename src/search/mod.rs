//! Search strategies as ask/tell state machines. Pure: no device, no I/O, no clock, no randomness.
//!
//! A strategy sees two axes of operating points and the latency and energy of points it asked for. Which
//! knobs an axis moves, how often a point is repeated and in which order a batch runs is the campaign's.

use crate::units::{MilliJoule, Millis, Opp};
use serde::{Deserialize, Serialize};

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
