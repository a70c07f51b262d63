//! Device profiles: one TOML file per device or SoC family. Data, never code.
//!
//! A profile says which nodes make up which knob, which sources measure energy, which zones measure heat and
//! which companions must be put out of the way. Tables of operating points in it are priors: what the device
//! lists wins and a difference is reported.

mod companion;
mod draft;
mod load;
mod validate;

pub use companion::{CompanionAction, CompanionSpec};
pub use draft::draft;
pub use load::{ProfileError, builtin_names, load, matching, parse};

use crate::trial::KnobId;
use crate::twin::spec::TwinSpec;
use crate::units::Opp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the profile format this build reads.
pub const SCHEMA: u32 = 1;

/// A device profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Profile {
    /// Format version; must be [`SCHEMA`].
    pub schema: u32,
    /// Short name, as a configuration refers to it.
    pub name: String,
    /// Device name for people.
    pub title: String,
    /// How far the contents can be trusted.
    pub accuracy: Accuracy,
    /// Where the contents come from: public sources, one per line.
    pub provenance: Vec<String>,
    /// Set by a profile whose companions alter thermal control. Without it such companions are refused; with
    /// it every result carries the fact.
    #[serde(default)]
    pub accept_thermal_risk: bool,
    /// Which connected devices this profile is for.
    #[serde(default, rename = "match")]
    pub matching: Matching,
    /// The knobs.
    #[serde(default, rename = "knob")]
    pub knobs: Vec<KnobSpec>,
    /// How the search's two axes map to knobs.
    pub axes: Axes,
    /// Energy sources, best first.
    #[serde(default, rename = "energy")]
    pub energy: Vec<EnergySpec>,
    /// Thermal zones and the gate's zone.
    #[serde(default)]
    pub thermal: ThermalSpec,
    /// What must be put out of the way before a pin can hold.
    #[serde(default, rename = "companion")]
    pub companions: Vec<CompanionSpec>,
    /// Present in profiles of simulated devices only.
    #[serde(default)]
    pub twin: Option<TwinSpec>,
}

/// How far a profile can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accuracy {
    /// Every node was seen to behave as written, on the device.
    DeviceVerified,
    /// Written from driver sources and device trees; not tried on the device.
    FromSources,
    /// Written from public reports; verify before trusting.
    FromReports,
    /// A simulated device.
    Twin,
}

/// How a connected device is recognised. All lists that are not empty must match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Matching {
    /// Values of `ro.product.model`, or of the device tree's `model` on boards.
    pub model: Vec<String>,
    /// Values of `ro.soc.model`, or of the device tree's `compatible`.
    pub soc: Vec<String>,
}

/// What a knob drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A CPU cluster (or, with cpu-quota, the CPU time of the engine).
    Cpu,
    /// The GPU.
    Gpu,
    /// DRAM or a bus.
    Memory,
}

/// What is done with a knob that is on no search axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Use {
    /// Moved by the search, alone or as a follower of an axis.
    #[default]
    Search,
    /// Left to its governor; its clock is recorded.
    Record,
    /// Pinned at one operating point during the whole run.
    Pin(Opp),
}

/// One knob of a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct KnobSpec {
    /// Its name.
    pub id: KnobId,
    /// What it drives.
    pub role: Role,
    /// What is done with it.
    #[serde(default, rename = "use")]
    pub usage: Use,
    /// Operating points expected, in the knob's unit; the device's own list wins.
    #[serde(default)]
    pub prior: Vec<Opp>,
    /// The driver family and where its nodes are: `driver = { cpufreq = { policy = 0 } }`.
    pub driver: DriverSpec,
}

/// The driver families. Node paths may hold `*`, which must match exactly one entry on the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum DriverSpec {
    /// cpufreq policy. `policy` is the number in `policyN`.
    #[serde(rename_all = "kebab-case")]
    Cpufreq {
        /// N of policyN: the first CPU of the policy when it was created.
        policy: usize,
    },
    /// Pixel / Tensor Mali: kHz, exact table values, crossing writes reset the other lock.
    #[serde(rename_all = "kebab-case")]
    PixelMali {
        /// The `<addr>.mali` directory.
        node: String,
    },
    /// Qualcomm Adreno: power levels, 0 is the fastest.
    #[serde(rename_all = "kebab-case")]
    Kgsl {
        /// The `kgsl-3d0` directory.
        node: String,
    },
    /// MediaTek gpufreq v1: `/proc/gpufreq`, kHz, 0 frees.
    #[serde(rename_all = "kebab-case")]
    GpufreqV1 {
        /// The directory.
        node: String,
    },
    /// MediaTek gpufreqv2: table index, -1 frees, the read is a sentence.
    #[serde(rename_all = "kebab-case")]
    GpufreqV2 {
        /// The directory.
        node: String,
    },
    /// Samsung Exynos gpex: kHz, 0 frees, unusable values are ENOENT.
    #[serde(rename_all = "kebab-case")]
    Gpex {
        /// The `/sys/kernel/gpu` directory.
        node: String,
    },
    /// Generic devfreq (also Exynos sgpu, MediaTek dvfsrc, old Qualcomm bus devices).
    #[serde(rename_all = "kebab-case")]
    Devfreq {
        /// The device directory below /sys/class/devfreq.
        node: String,
        /// The unit its nodes speak; when given, the unit learned from the table must agree.
        #[serde(default)]
        unit: Option<DevfreqUnit>,
    },
    /// Pixel / Exynos MIF devfreq with `scaling_devfreq_min` and `exynos_data/debug_scaling_devfreq_*`.
    #[serde(rename_all = "kebab-case")]
    Mif {
        /// The device directory.
        node: String,
    },
    /// Qualcomm bus_dcvs: one min/max pair in every monitor of the bus.
    #[serde(rename_all = "kebab-case")]
    BusDcvs {
        /// The bus directory, for example `/sys/devices/system/cpu/bus_dcvs/DDR`.
        node: String,
    },
    /// A cgroup CPU quota that bounds the engine's compute throughput.
    #[serde(rename_all = "kebab-case")]
    CpuQuota {
        /// Levels in thousandths of one CPU.
        levels: Vec<Opp>,
        /// Enforcement period in microseconds.
        #[serde(default = "ten_ms")]
        period_us: u64,
    },
}

fn ten_ms() -> u64 {
    10_000
}

/// Units that devfreq nodes are found to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DevfreqUnit {
    /// Mainline and most GPUs.
    Hz,
    /// Exynos and Pixel.
    #[serde(rename = "khz")]
    KHz,
    /// Old Qualcomm bus devices.
    #[serde(rename = "mbps")]
    MBps,
}

/// How the search's axes map to knobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Axes {
    /// The GPU axis; absent where inference runs on the CPU only.
    pub gpu: Option<Axis>,
    /// The CPU axis.
    pub cpu: Option<Axis>,
}

/// One axis: a leading knob whose operating points are searched, and knobs that follow it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Axis {
    /// The knob whose operating points are the axis.
    pub lead: KnobId,
    /// Knobs pinned along with it. No policy may be left free while another is pinned, because clusters are
    /// coupled in hardware.
    #[serde(default)]
    pub follow: BTreeMap<KnobId, Follow>,
}

/// Where a follower is pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Follow {
    /// At the operating point nearest to the same fraction of its own maximum.
    Proportional,
    /// At its highest operating point.
    Max,
    /// At its lowest.
    Min,
    /// At this one.
    At(Opp),
}

/// An energy source of a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum EnergySpec {
    /// A power_supply of type Battery: voltage_now x current_now.
    #[serde(rename_all = "kebab-case")]
    Gauge {
        /// Name below /sys/class/power_supply; empty: the first of type Battery and system scope.
        #[serde(default)]
        supply: String,
        /// Unit of current_now, where known; else learned from its magnitude.
        #[serde(default)]
        unit: Option<CurrentUnit>,
        /// Sign of current_now while discharging, where known; else learned.
        #[serde(default)]
        discharge_sign: Option<Sign>,
        /// Update period of the gauge in milliseconds, where known; else learned.
        #[serde(default)]
        period_ms: Option<f64>,
    },
    /// Pixel ODPM rails summed: names of the rails, empty for all.
    #[serde(rename_all = "kebab-case")]
    Odpm {
        /// Rails to sum.
        #[serde(default)]
        rails: Vec<String>,
    },
    /// Every top-level package of /sys/class/powercap.
    #[serde(rename_all = "kebab-case")]
    Rapl {},
    /// A cumulative counter in microjoules in front of the device (hwmon `energyN_input`).
    #[serde(rename_all = "kebab-case")]
    Meter {
        /// The node.
        node: String,
    },
    /// A declared power model: idle power plus power per busy CPU of the engine's process. Not a measurement;
    /// every number from it says `modelled`.
    #[serde(rename_all = "kebab-case")]
    Modelled {
        /// Power of the idle machine, mW.
        idle_mw: f64,
        /// Additional power per busy CPU, mW.
        active_mw_per_cpu: f64,
    },
}

/// Units of `current_now`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CurrentUnit {
    /// Microampere (the ABI).
    MicroAmp,
    /// Milliampere (many Samsung and Huawei devices).
    MilliAmp,
}

/// A sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sign {
    /// Positive.
    Positive,
    /// Negative.
    Negative,
}

/// Thermal zones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ThermalSpec {
    /// The `type` of the zone that the gate watches; empty: no gate on temperature (said in the result).
    pub gate_zone: String,
    /// `type` of a zone -> what it is near to. Zones not named here are not read.
    pub zones: BTreeMap<String, ZoneRole>,
}

/// What a temperature zone is near to; decides which limit of the gate holds for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ZoneRole {
    /// On the die.
    Soc,
    /// The housing.
    Skin,
    /// The battery.
    Battery,
}
