//! One trial, as data: what is asked of a device, and in [`measurement`] what comes back. Every layer speaks these
//! words.

mod measurement;

pub use measurement::{
    Energy, EnergyKind, Flag, Heat, ItlSummary, KnobSeen, Latency, Measurement, Origin, SourceInfo, Verdict,
    WarmUp,
};

use crate::units::{Celsius, Opp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The two stages of one inference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Reading the prompt. Latency is TTFT, energy is per prompt token.
    Prefill,
    /// Writing the answer. Latency is TPOT, energy is per output token.
    Decode,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Stage::Prefill => "prefill",
            Stage::Decode => "decode",
        })
    }
}

/// What is tuned for: a stage at a representative length (prompt tokens for prefill, output tokens for decode).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Setting {
    /// The stage.
    pub stage: Stage,
    /// Prompt tokens (prefill) or output tokens (decode).
    pub tokens: u32,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}-{}", self.stage, self.tokens))
    }
}

/// The name of a knob within a profile, for example `cpu-big` or `gpu`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KnobId(pub String);

impl fmt::Display for KnobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What a combination says of one knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// Left to the device's own governor.
    Governor,
    /// Pinned (min = max) at this operating point.
    Pin(Opp),
}

/// A choice for every knob of the device. Knobs that are not named are left to their governor.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Combination(pub BTreeMap<KnobId, Choice>);

impl Combination {
    /// What this combination says of `knob`.
    pub fn of(&self, knob: &KnobId) -> Choice {
        self.0.get(knob).copied().unwrap_or(Choice::Governor)
    }
}

/// Identifies a trial within a run. Two trials of a run with equal ids are the same trial, so a resumed run
/// recognises what it has already measured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TrialId {
    /// What is measured.
    pub setting: Setting,
    /// At which operating points.
    pub combination: Combination,
    /// Why: `baseline`, `search`, `drift`, ... Trials of different purpose are never averaged together.
    pub purpose: Purpose,
    /// Counts from 0.
    pub repeat: u32,
}

/// Why a trial is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// Under the default governors, before the search.
    Baseline,
    /// Asked for by the strategy.
    Search,
    /// Re-measured at intervals to see whether the device drifted.
    Drift,
}

/// Everything the agent needs to run one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialSpec {
    /// Which trial.
    pub id: TrialId,
    /// Prompt tokens that come before a decode stage; equal to the setting's tokens for prefill.
    pub prompt_tokens: u32,
    /// Seeds the token ids of the workload and, on a twin, the measurement noise.
    pub seed: u64,
    /// When the trial may start.
    pub gate: GateSpec,
    /// The stage is repeated until it lasted at least this long (milliseconds) and the energy source ticked
    /// `min_updates` times: a window under ten updates is too short.
    pub min_window_ms: u64,
    /// Smallest number of energy-source updates in the window.
    pub min_updates: u32,
    /// Upper bound on repetitions of the stage within the trial.
    pub max_passes: u32,
}

/// The thermal gate: a trial starts only from a known temperature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct GateSpec {
    /// Temperature the zone of the gate must be at; `None`: in a configuration the temperature
    /// found when the run began, in a trial any.
    pub start_celsius: Option<Celsius>,
    /// Half-width of the accepted band, in degrees.
    pub tolerance_celsius: f64,
    /// How long to wait for the band before the trial is given back.
    pub timeout_s: u64,
    /// Any SoC zone above this aborts.
    pub soc_limit_celsius: Celsius,
    /// Any skin zone above this aborts.
    pub skin_limit_celsius: Celsius,
    /// Battery above this aborts.
    pub battery_limit_celsius: Celsius,
}

impl Default for GateSpec {
    /// Band of +/- 1 degree; limits from the trip points of shipping phones (skin 43-45, SoC 95, battery 45).
    fn default() -> Self {
        GateSpec {
            start_celsius: None,
            tolerance_celsius: 1.0,
            timeout_s: 600,
            soc_limit_celsius: Celsius(95.0),
            skin_limit_celsius: Celsius(45.0),
            battery_limit_celsius: Celsius(45.0),
        }
    }
}
