//! What comes back of a trial: numbers with their origin, their source and what became of every pin.

use super::{Choice, KnobId, Stage, TrialId};
use crate::units::{BootNanos, Celsius, MilliJoule, MilliWatt, Millis, Opp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Where numbers come from. Printed wherever a number is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Read from a device.
    Measured,
    /// Computed by a twin.
    Simulated,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Origin::Measured => "measured",
            Origin::Simulated => "simulated",
        })
    }
}

/// What a quantity of energy is a quantity of. Different kinds are never compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EnergyKind {
    /// Fuel gauge: whole device, battery side.
    Gauge,
    /// On-device power rails (ODPM): named subsystems.
    Rail,
    /// Package energy counter of a PC processor (RAPL through powercap).
    Rapl,
    /// A meter in front of the device, read through a cumulative counter.
    Meter,
    /// Computed from a power model declared in the profile; not a measurement.
    Modelled,
}

impl fmt::Display for EnergyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            EnergyKind::Gauge => "gauge",
            EnergyKind::Rail => "rail",
            EnergyKind::Rapl => "rapl",
            EnergyKind::Meter => "meter",
            EnergyKind::Modelled => "modelled",
        })
    }
}

/// An energy source and the conditions of its numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceInfo {
    /// What kind of quantity it is.
    pub kind: EnergyKind,
    /// Vendor's name of the gauge, rail or counter.
    pub name: String,
    /// Time between distinct values of the source, in milliseconds (0: continuous).
    pub period_ms: f64,
    /// External power attached while it was read, where that can be known.
    pub external_power: Option<bool>,
}

/// What became of a pin during the window of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Verdict {
    /// The clock stayed where it was put.
    Held,
    /// Not pinned: the governor had it.
    Free,
    /// Something with precedence held it lower or higher.
    Clamped {
        /// The source that says so, for example `dcvsh_freq_limit`.
        by: String,
    },
    /// Somebody rewrote the nodes during the run.
    Contended {
        /// How often the pin was applied again.
        reapplied: u32,
    },
    /// No source tells whether the pin held.
    Unverifiable {
        /// What is missing.
        why: String,
    },
}

impl Verdict {
    /// Whether the sample may be used to pick a frequency.
    pub fn usable(&self) -> bool {
        matches!(self, Verdict::Held | Verdict::Free)
    }

    /// What is the matter, for a person; `None` when it is usable.
    pub fn problem(&self) -> Option<String> {
        match self {
            Verdict::Held | Verdict::Free => None,
            Verdict::Clamped { by } => Some(format!("clamped by {by}")),
            Verdict::Contended { reapplied } => {
                Some(format!("somebody rewrites it; applied again {reapplied} times"))
            }
            Verdict::Unverifiable { why } => Some(format!("unverifiable: {why}")),
        }
    }
}

/// What happened to one knob during a trial: asked, accepted and seen are three different things.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnobSeen {
    /// What the combination asked for.
    pub asked: Choice,
    /// What the node read back after the pin (`None` for governor).
    pub accepted: Option<Opp>,
    /// Time-weighted mean clock over the window, in the knob's unit.
    pub seen_mean: Option<f64>,
    /// Share of the window at the asked value, 0..=1, where residency counters or samples tell.
    pub share_on_pin: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
}

/// Latency of the stage, by the definitions of the README ("What the numbers mean").
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Prefill: time to first token, median over passes. Decode: `None`.
    pub ttft: Option<Millis>,
    /// Prefill: backend time (start to end of prefill), median over passes.
    pub prefill_time: Option<Millis>,
    /// Decode: time per output token, over all passes. `None` when fewer than two tokens were written.
    pub tpot: Option<Millis>,
    /// Decode: inter-token latencies.
    pub itl: Option<ItlSummary>,
}

impl Latency {
    /// TTFT for prefill, TPOT for decode.
    pub fn of(&self, stage: Stage) -> Option<Millis> {
        match stage {
            Stage::Prefill => self.ttft,
            Stage::Decode => self.tpot,
        }
    }
}

/// The pass before the window; never part of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    /// TTFT or TPOT.
    pub latency: Option<Millis>,
    /// It was the first run after load.
    pub cold: bool,
}

/// Inter-token latency percentiles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ItlSummary {
    /// Number of gaps.
    pub n: usize,
    /// Median.
    pub p50: Millis,
    /// 90th percentile.
    pub p90: Millis,
    /// 95th percentile.
    pub p95: Millis,
    /// 99th percentile.
    pub p99: Millis,
    /// Largest.
    pub max: Millis,
}

/// Energy of the stage over the trial's window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// The source.
    pub source: SourceInfo,
    /// Energy over the window.
    pub total: MilliJoule,
    /// Per token of the stage: input token for prefill, output token for decode.
    pub per_token: MilliJoule,
    /// Mean power over the window.
    pub mean_power: MilliWatt,
    /// Distinct values of the source inside the window.
    pub updates: u32,
    /// Fewer than the wanted updates: too short to trust.
    pub too_short: bool,
}

/// Temperatures of the trial, by zone type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Heat {
    /// At the start of the window.
    pub start: BTreeMap<String, Celsius>,
    /// At its end.
    pub end: BTreeMap<String, Celsius>,
}

/// Something about a sample that its reader must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "flag")]
pub enum Flag {
    /// ITL p99 above three times its median.
    SchedulingJitter,
    /// The wanted affinity could not be applied or verified.
    AffinityNotApplied {
        /// What was found instead.
        why: String,
    },
    /// The trial was in flight when the link was lost and was run again.
    RepeatedAfterLinkLoss,
    /// External power was attached although the energy source is on the battery side.
    ExternalPower,
    /// The profile alters thermal control (`accept-thermal-risk`).
    ThermalControlAltered,
    /// Sensor samples were lost.
    SamplesLost {
        /// How many.
        count: u32,
    },
}

/// The answer to one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Which trial.
    pub id: TrialId,
    /// Measured or simulated.
    pub origin: Origin,
    /// Start of the window on the device's boot clock.
    pub start: BootNanos,
    /// End of the window.
    pub end: BootNanos,
    /// How often the stage ran inside the window.
    pub passes: u32,
    /// The pass before the window.
    pub warm_up: WarmUp,
    /// Latency.
    pub latency: Latency,
    /// Energy; `None` when no source was available (never an estimate in its place).
    pub energy: Option<Energy>,
    /// Per knob.
    pub knobs: BTreeMap<KnobId, KnobSeen>,
    /// Temperatures.
    pub heat: Heat,
    /// Process resident set size at the end, bytes.
    pub rss_bytes: Option<u64>,
    /// What a reader must know.
    pub flags: Vec<Flag>,
}

impl Measurement {
    /// The latency a decision uses: TTFT for prefill, TPOT for decode.
    pub fn stage_latency(&self) -> Option<Millis> {
        self.latency.of(self.id.setting.stage)
    }

    /// Whether every knob held (or was free), so that the sample may pick a frequency.
    pub fn usable(&self) -> bool {
        self.knobs.values().all(|k| k.verdict.usable())
    }
}
