//! The frequency table: what a sweep is for. Schema, load and save, look-up by stage and token count, exporters.

#[cfg(feature = "host")]
mod csv;
mod file;
mod lookup;

pub use file::TableError;
pub use lookup::{Fit, Lookup};

use crate::engine::EngineInfo;
use crate::protocol::Fingerprint;
use crate::search::Goal;
use crate::stats::{Sample, significant};
use crate::trial::{Combination, EnergyKind, KnobId, Origin, Stage};
use crate::units::OppUnit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the table format.
pub const SCHEMA: u32 = 1;

/// A per-stage frequency table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Table {
    /// Format version.
    pub schema: u32,
    /// Name of the run.
    pub run: String,
    /// Measured or simulated; printed with every export.
    pub origin: Origin,
    /// What kind of energy the numbers are.
    pub energy: EnergyKind,
    /// The device.
    pub device: Fingerprint,
    /// The engine and model.
    pub engine: EngineInfo,
    /// Strategy and seed.
    pub method: Method,
    /// Conditions of the run.
    pub conditions: BTreeMap<String, String>,
    /// Units of the knobs.
    pub units: BTreeMap<KnobId, OppUnit>,
    /// The entries, decode first, then by token range.
    #[serde(rename = "entry")]
    pub entries: Vec<Entry>,
}

/// How a table was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Method {
    /// Strategy.
    pub strategy: String,
    /// Seed of the run.
    pub seed: u64,
    /// Version of the tool.
    pub build: String,
}

/// One entry: a stage and a range of token counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Entry {
    /// The stage.
    pub stage: Stage,
    /// Smallest token count this entry is for.
    pub from_tokens: u32,
    /// Largest token count; `None`: no upper bound.
    pub to_tokens: Option<u32>,
    /// The length that was measured.
    pub measured_tokens: u32,
    /// What to pin.
    pub pins: Combination,
    /// The goal and its bound.
    pub goal: Goal,
    /// Whether a point met the goal; if not, `pins` leaves every knob to its governor.
    pub met: bool,
    /// Expected with the pins.
    pub expected: Expected,
    /// The default governors on the same setting.
    pub baseline: Expected,
    /// Trials spent on this entry, baseline not counted.
    pub inferences: u32,
}

/// Latency and energy with their spread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Expected {
    /// TTFT or TPOT, milliseconds.
    pub latency_ms: Spread,
    /// Energy per token of the stage, millijoules; absent where no energy source was available.
    pub energy_mj: Option<Spread>,
}

/// A median with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Lower end of the interval: 95 % where n allows, else the smallest value seen.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Number of samples.
    pub n: usize,
}

impl Expected {
    /// Median and interval of latencies (ms) and energies per token (mJ), with as many digits as a measurement
    /// has; `None` without a latency.
    pub fn of(latency_ms: &Sample, energy_mj: &Sample) -> Option<Self> {
        Some(Expected { latency_ms: Spread::of(latency_ms)?, energy_mj: Spread::of(energy_mj) })
    }
}

impl Spread {
    /// Significant digits kept: sensors and clocks of phones are good for three or four.
    const DIGITS: usize = 5;

    /// Median and 95 % interval of a sample; `None` of nothing.
    pub fn of(sample: &Sample) -> Option<Self> {
        let interval = sample.median_interval(0.95)?;
        let round = |value| significant(value, Self::DIGITS);
        Some(Spread {
            median: round(sample.median()?),
            low: round(interval.low),
            high: round(interval.high),
            n: sample.n(),
        })
    }
}

/// Ranges for measured lengths of one stage: each from above the length before it up to itself. The last range
/// of prefill ends at its length, because a longer prompt is more work than was measured; the last of decode
/// does not end, because time per token hardly depends on how many follow.
pub fn ranges(stage: Stage, lengths: &[u32]) -> Vec<(u32, Option<u32>)> {
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    let froms = std::iter::once(1).chain(sorted.iter().map(|&length| length.saturating_add(1)));
    let last = sorted.last().copied().filter(|_| stage == Stage::Decode);
    froms.zip(&sorted).map(|(from, &to)| (from, Some(to).filter(|&to| Some(to) != last))).collect()
}

/// Order of the stages in a table.
fn decode_first(stage: Stage) -> u8 {
    match stage {
        Stage::Decode => 0,
        Stage::Prefill => 1,
    }
}

/// A range for people: `33..64`, `1..`.
pub fn range_text(entry: &Entry) -> String {
    let to = entry.to_tokens.map_or_else(String::new, |to| to.to_string());
    format!("{}..{to}", entry.from_tokens)
}

#[cfg(test)]
mod tests;
