//! The `[twin]` table of a profile: what a simulated device is made of. Data; the formulas are in
//! [`super::physics`].

use crate::trial::KnobId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A simulated device: domains, models, governors, heat, noise, and the nodes it serves beside its knobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TwinSpec {
    /// Longest step of the simulation, milliseconds.
    #[serde(default = "ten")]
    pub step_ms: u64,
    /// Every trial begins from the same rested state, so that it depends on the specification, the seed and
    /// itself alone. Without it heat and governors carry over.
    #[serde(default = "yes")]
    pub rest_between_trials: bool,
    /// Power of the device beside its frequency domains, mW.
    pub idle_mw: f64,
    /// Which domains the engine runs on.
    pub engine: EngineRoles,
    /// The frequency domains, by knob.
    pub domains: BTreeMap<KnobId, DomainSpec>,
    /// The models the twin can run.
    #[serde(default)]
    pub models: BTreeMap<String, ModelSpec>,
    /// Heat.
    #[serde(default)]
    pub heat: HeatSpec,
    /// Thermal zones, by type, in the order of their numbers.
    #[serde(default)]
    pub zones: Vec<ZoneSpec>,
    /// Measurement noise.
    #[serde(default)]
    pub noise: NoiseSpec,
    /// The battery and its gauge; absent on a board.
    #[serde(default)]
    pub battery: Option<BatterySpec>,
    /// Path of the cumulative counter of an external meter, microjoules.
    #[serde(default)]
    pub meter: Option<String>,
    /// Nodes of companions.
    #[serde(default)]
    pub companions: CompanionNodes,
    /// Android properties.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// Node files that hold the text written to them and do nothing.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

fn ten() -> u64 {
    10
}

fn yes() -> bool {
    true
}

/// Which domains the engine runs on, and how its parts overlap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct EngineRoles {
    /// Clock of the serial part.
    pub cpu: KnobId,
    /// Clock of the kernels; absent where inference runs on the CPU alone.
    #[serde(default)]
    pub gpu: Option<KnobId>,
    /// Clock of the memory; absent where memory never bounds.
    #[serde(default)]
    pub memory: Option<KnobId>,
    /// Exponent of the smooth maximum of GPU and memory time; large: a sharp roofline.
    pub overlap: f64,
    /// Share of the synchronisation time during which the CPU counts as busy.
    pub sync_busy: f64,
}

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

/// A model, as work per token. A part of `w` megacycles takes `w / f` seconds at `f` MHz.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ModelSpec {
    /// Work per output token.
    pub decode: Work,
    /// Work per prompt token.
    pub prefill: Work,
    /// Prompt tokens' worth of work that any prefill costs beside its own tokens.
    #[serde(default)]
    pub prefill_fixed_tokens: f64,
    /// Growth of a prompt token's work with the prompt's length (attention), per token.
    #[serde(default)]
    pub prefill_growth: f64,
    /// Size of the model file.
    #[serde(default)]
    pub bytes: u64,
    /// Quantisation.
    #[serde(default)]
    pub quantisation: String,
    /// KV cache at the usual context, bytes.
    #[serde(default)]
    pub kv_cache_bytes: u64,
    /// Time to load, milliseconds.
    #[serde(default)]
    pub load_ms: f64,
}

/// Work of one token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Work {
    /// Serial part on the CPU, megacycles.
    pub cpu: f64,
    /// Kernels on the GPU, megacycles.
    #[serde(default)]
    pub gpu: f64,
    /// Memory traffic, megacycles of the memory clock.
    #[serde(default)]
    pub memory: f64,
    /// Time that no clock shortens (driver, synchronisation), milliseconds.
    #[serde(default)]
    pub sync_ms: f64,
}

/// Heat: two nodes, die and skin, to the ambient; the battery follows the skin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct HeatSpec {
    /// Ambient temperature, °C.
    pub ambient: f64,
    /// Temperature of everything in the rested state, °C.
    pub rest: f64,
    /// Heat capacity of the die, J/K.
    pub die_capacity: f64,
    /// Thermal resistance from die to skin, K/W.
    pub die_to_skin: f64,
    /// Heat capacity of the housing, J/K.
    pub skin_capacity: f64,
    /// Thermal resistance from skin to ambient, K/W.
    pub skin_to_ambient: f64,
    /// Time constant of the battery's temperature, s.
    pub battery_lag_s: f64,
    /// Growth of leakage per kelvin above 25 °C.
    pub leak_per_kelvin: f64,
    /// Kernel throttling: CPU and GPU are stepped down while the die is above this, °C.
    pub throttle: Option<f64>,
}

impl Default for HeatSpec {
    /// A phone in a room: the die settles within seconds, the housing within minutes.
    fn default() -> Self {
        HeatSpec {
            ambient: 25.0,
            rest: 30.0,
            die_capacity: 3.0,
            die_to_skin: 5.0,
            skin_capacity: 80.0,
            skin_to_ambient: 6.0,
            battery_lag_s: 240.0,
            leak_per_kelvin: 0.012,
            throttle: Some(90.0),
        }
    }
}

/// A thermal zone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ZoneSpec {
    /// Its `type`.
    pub kind: String,
    /// 0: the skin, 1: the die; between: in between.
    #[serde(default)]
    pub die: f64,
    /// It follows the battery instead.
    #[serde(default)]
    pub battery: bool,
    /// Number the temperature is multiplied by (1000: millidegrees).
    #[serde(default = "milli")]
    pub scale: f64,
}

fn milli() -> f64 {
    1000.0
}

/// Measurement noise: standard deviations of multiplicative factors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct NoiseSpec {
    /// Of a trial's speed.
    pub latency: f64,
    /// Of a trial's power.
    pub power: f64,
    /// Of a single token's time.
    pub token: f64,
}

/// The battery and its fuel gauge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct BatterySpec {
    /// Name below /sys/class/power_supply.
    #[serde(default = "battery_name")]
    pub name: String,
    /// Capacity, mWh.
    pub capacity_mwh: f64,
    /// Charge in the rested state, 0..=1.
    pub charge: f64,
    /// Internal resistance, ohm.
    pub resistance: f64,
    /// Update period of the gauge, milliseconds.
    pub period_ms: u64,
    /// `current_now` is positive while discharging.
    #[serde(default)]
    pub discharge_positive: bool,
    /// `current_now` is in mA instead of uA.
    #[serde(default)]
    pub milli_amp: bool,
    /// External power is attached: the gauge shows the charging current unless charging is suspended.
    #[serde(default)]
    pub plugged: bool,
    /// Name of the node, below the battery's directory, that suspends charging (1 suspends).
    #[serde(default)]
    pub suspend_node: Option<String>,
}

fn battery_name() -> String {
    "battery".into()
}

/// Nodes of companions that the twin serves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct CompanionNodes {
    /// `/sys/power/wake_lock` and `wake_unlock`.
    pub wakelock: bool,
    /// `/dev/cpuset`.
    pub cpuset: bool,
    /// msm_performance's pairs; the votes in force at boot, `cpu:kHz` for each maximum.
    pub msm_performance: Option<String>,
    /// `core_ctl` of the policies of these CPUs.
    pub core_ctl: Vec<usize>,
    /// cgroup CPU controller: `v1` or `v2`.
    pub cgroup: Option<CgroupVersion>,
    /// `/sys/class/thermal/cooling_deviceN` for every CPU and GPU domain.
    pub cooling: bool,
}

/// Versions of the cgroup interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CgroupVersion {
    /// `cpu.cfs_quota_us`, `cpu.cfs_period_us`.
    V1,
    /// `cpu.max`.
    V2,
}
