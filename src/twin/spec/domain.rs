//! `[twin.domains.*]`: frequency domains, their governors and where their drivers differ.

use crate::trial::KnobId;
use serde::{Deserialize, Serialize};

/// One frequency domain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DomainSpec {
    /// Operating points in the knob's unit (kHz for a clock), slowest first, boost steps left out.
    #[serde(default)]
    pub table: Vec<u64>,
    /// Boost steps above the table.
    #[serde(default)]
    pub boost: Vec<u64>,
    /// CPUs of a cluster.
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// Where its nodes are, when the driver's path in the profile is a pattern.
    #[serde(default)]
    pub node: Option<String>,
    /// What it draws.
    #[serde(default)]
    pub power: PowerSpec,
    /// Who drives it when nobody pins it; absent: it stays at the top of its range.
    #[serde(default)]
    pub governor: Option<GovernorSpec>,
    /// Minimum that its operating points ask of other domains.
    #[serde(default)]
    pub votes: Vec<Vote>,
    /// Where the driver differs from the family's usual one.
    #[serde(default)]
    pub quirks: Quirks,
}

/// What a domain draws, relative to its highest clock and the voltage there:
/// `v(x)^2 x (active busy + clock) + leak v(x)`, with `x` the clock and `v` the voltage, both 1 at the top.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct PowerSpec {
    /// Switching power when always busy at the top, mW.
    pub active_mw: f64,
    /// Switching power that does not depend on load, at the top, mW.
    pub clock_mw: f64,
    /// Leakage at the top voltage and 25 °C, mW.
    pub leak_mw: f64,
    /// Voltage at low clocks, as a share of the top voltage.
    pub volt_min: f64,
    /// Clock (share of the top) below which the voltage is no longer lowered.
    pub volt_knee: f64,
}

/// The governors there are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum GovernorSpec {
    /// CPU: next clock = headroom x utilisation (frequency-invariant) x top clock.
    #[serde(rename_all = "kebab-case")]
    Schedutil {
        /// 1.25 in the kernel.
        headroom: f64,
        /// Ratio of the utilisation peaks the governor follows to the mean utilisation of a bursty load.
        burst: f64,
        /// Half-life of the utilisation signal (32 ms in the kernel).
        half_life_ms: f64,
        /// Time between evaluations.
        period_ms: u64,
        /// Least time from any change to a lowering.
        down_hold_ms: u64,
    },
    /// GPU: leans on both thresholds at once. Each period adds what the utilisation lies under `down` or over
    /// `up`; once that has added up, the GPU goes one level down, or jumps to the top. The lower the utilisation
    /// the faster the descent, and near the floor the jump comes ever closer: a sawtooth, as published for decode.
    #[serde(rename_all = "kebab-case")]
    Step {
        /// Utilisation over which a jump builds up.
        up: f64,
        /// How much of it makes a jump: milliseconds at one above.
        up_ms: f64,
        /// Utilisation under which a descent builds up.
        down: f64,
        /// How much of it makes a step: milliseconds at one below.
        down_ms: f64,
        /// Time between evaluations.
        period_ms: u64,
    },
    /// Memory: the slowest clock whose load stays under `target`.
    #[serde(rename_all = "kebab-case")]
    Load {
        /// Wanted load.
        target: f64,
        /// Time between evaluations.
        period_ms: u64,
        /// Least time from any change to a lowering.
        down_hold_ms: u64,
    },
}

impl GovernorSpec {
    /// Time between evaluations, milliseconds.
    pub fn period_ms(&self) -> u64 {
        match *self {
            GovernorSpec::Schedutil { period_ms, .. }
            | GovernorSpec::Step { period_ms, .. }
            | GovernorSpec::Load { period_ms, .. } => period_ms,
        }
    }
}

/// A minimum that one domain asks of another while it runs at `at` or faster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Vote {
    /// Operating point of this domain from which the vote holds.
    pub at: u64,
    /// The other domain.
    pub domain: KnobId,
    /// The minimum asked of it.
    pub floor: u64,
}

/// Where a driver differs from its family's usual one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Quirks {
    /// How limits are stored: by kernel age.
    pub limits: LimitStyle,
    /// How the list of operating points is printed.
    pub list: ListStyle,
    /// cpufreq: no `cpuinfo_cur_freq` node.
    pub no_hardware_clock: bool,
    /// cpufreq: serves `dcvsh_freq_limit` (Qualcomm).
    pub dcvsh: bool,
    /// cpufreq: serves `sched_pixel/`; the limiter caps the policy at this clock under memory stalls while
    /// `pmu_limit_enable` is 1.
    pub pmu_limit: Option<u64>,
    /// Pixel Mali: range of the device-tree lock.
    pub devicetree: Option<(u64, u64)>,
    /// gpufreqv2: clocks that are listed twice, with different voltages.
    pub duplicates: Vec<u64>,
    /// bus_dcvs: names of the monitors.
    pub monitors: Vec<String>,
    /// bus_dcvs: this monitor writes its own floor again at intervals.
    pub reasserts: Option<String>,
}

/// How a driver stores limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitStyle {
    /// Up to 5.2: a minimum above the maximum (or the reverse) is EINVAL; trailing junk is accepted.
    Legacy,
    /// 5.4 to 5.10: requests never fail; the maximum wins; numbers are kept as written.
    Qos,
    /// From 5.15: as `qos`, and effective limits are rounded to operating points.
    #[default]
    QosRounding,
}

/// How a driver prints its list of operating points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ListStyle {
    /// Slowest first.
    #[default]
    Ascending,
    /// Fastest first, with a trailing space.
    Descending,
    /// The node is there and empty.
    Empty,
    /// There is no such node.
    Missing,
}
