//! The `[twin]` table of a profile: what a simulated device is made of. Data; the formulas are in
//! [`super::physics`].

mod domain;

pub use domain::{DomainSpec, GovernorSpec, LimitStyle, ListStyle, PowerSpec, Quirks, Vote};

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
