//! Where knobs and their opponents are found on shipping devices. Data: one line per place.
//!
//! Sources: mainline cpufreq and devfreq; Pixel (gs101, gs201, zuma), Qualcomm kgsl and bus_dcvs, MediaTek
//! gpufreq and Samsung gpex driver sources; AOSP performance scripts.

use crate::profile::{CompanionAction, DriverSpec, Role};
use crate::sysfs::{Nodes, find_all};

/// A knob that may be there.
pub(super) struct Candidate {
    /// Suggested name.
    pub id: String,
    /// What it drives.
    pub role: Role,
    /// Family and nodes.
    pub driver: DriverSpec,
}

type Driver = fn(String) -> DriverSpec;

/// Role, name, glob of the knob's directory, a node that must be inside, and the family.
const PLACES: &[(Role, &str, &str, &str, Driver)] =
    &[
        (Role::Gpu, "gpu", "/sys/devices/platform/*.mali", "scaling_min_freq", |node| {
            DriverSpec::PixelMali { node }
        }),
        (Role::Gpu, "gpu", "/sys/class/kgsl/kgsl-3d0", "max_pwrlevel", |node| DriverSpec::Kgsl { node }),
        (Role::Gpu, "gpu", "/proc/gpufreqv2", "fix_target_opp_index", |node| DriverSpec::GpufreqV2 { node }),
        (Role::Gpu, "gpu", "/proc/gpufreq", "gpufreq_opp_freq", |node| DriverSpec::GpufreqV1 { node }),
        (Role::Gpu, "gpu", "/sys/kernel/gpu", "gpu_freq_table", |node| DriverSpec::Gpex { node }),
        (Role::Gpu, "gpu", "/sys/class/devfreq/*.sgpu", "min_freq", |node| DriverSpec::Devfreq {
            node,
            unit: None,
        }),
        (Role::Gpu, "gpu", "/sys/class/devfreq/*gpu*", "min_freq", |node| DriverSpec::Devfreq {
            node,
            unit: None,
        }),
        (Role::Memory, "mem", "/sys/class/devfreq/*devfreq_mif", "scaling_devfreq_min", |node| {
            DriverSpec::Mif { node }
        }),
        (Role::Memory, "ddr", "/sys/devices/system/cpu/bus_dcvs/DDR", "available_frequencies", |node| {
            DriverSpec::BusDcvs { node }
        }),
        (Role::Memory, "llcc", "/sys/devices/system/cpu/bus_dcvs/LLCC", "available_frequencies", |node| {
            DriverSpec::BusDcvs { node }
        }),
        (Role::Memory, "mem", "/sys/class/devfreq/mtk-dvfsrc-devfreq", "min_freq", |node| {
            DriverSpec::Devfreq { node, unit: None }
        }),
        (Role::Memory, "cpubw", "/sys/class/devfreq/soc:qcom,cpubw", "min_freq", |node| {
            DriverSpec::Devfreq { node, unit: None }
        }),
        (Role::Memory, "dmc", "/sys/class/devfreq/dmc", "min_freq", |node| DriverSpec::Devfreq {
            node,
            unit: None,
        }),
    ];

/// Something that may be there and fights pins.
pub(super) struct Opponent {
    /// Its name, as profiles use it.
    pub id: &'static str,
    /// Glob of its nodes.
    pub pattern: &'static str,
    /// What a profile declares against it; `None`: shown to people only.
    pub action: Option<fn(&str) -> CompanionAction>,
}

fn zero(path: &str) -> CompanionAction {
    CompanionAction::Node { path: path.into(), value: "0".into(), restore: None, bracketed: false }
}

fn one(path: &str) -> CompanionAction {
    CompanionAction::Node { path: path.into(), value: "1".into(), restore: None, bracketed: false }
}

fn no_minimum(path: &str) -> CompanionAction {
    CompanionAction::MsmPerformance { path: path.into(), vote: 0 }
}

fn no_maximum(path: &str) -> CompanionAction {
    CompanionAction::MsmPerformance { path: path.into(), vote: u64::from(u32::MAX) }
}

const fn against(id: &'static str, pattern: &'static str, action: fn(&str) -> CompanionAction) -> Opponent {
    Opponent { id, pattern, action: Some(action) }
}

const fn known(id: &'static str, pattern: &'static str) -> Opponent {
    Opponent { id, pattern, action: None }
}

/// Nodes whose owners fight pins.
pub(super) const OPPONENTS: &[Opponent] = &[
    // First, as in the profile that is drafted of them: a policy whose CPUs are offline cannot be written.
    against("cpus-online", "/sys/devices/system/cpu/online", |_| CompanionAction::CpusOnline {}),
    against("boost", "/sys/devices/system/cpu/cpufreq/boost", |_| CompanionAction::Boost {}),
    against("wakelock", "/sys/power/wake_lock", |_| CompanionAction::Wakelock {}),
    against("pmu-limit", "/sys/devices/system/cpu/cpufreq/policy*/sched_pixel/pmu_limit_enable", zero),
    against("msm-performance-min", "/sys/module/msm_performance/parameters/cpu_min_freq", no_minimum),
    against("msm-performance-max", "/sys/module/msm_performance/parameters/cpu_max_freq", no_maximum),
    against("core-ctl", "/sys/devices/system/cpu/cpu*/core_ctl/enable", zero),
    against("kgsl-clock-on", "/sys/class/kgsl/kgsl-3d0/force_clk_on", one),
    against("kgsl-no-nap", "/sys/class/kgsl/kgsl-3d0/force_no_nap", one),
    known("pmu-poll", "/proc/vendor_sched/pmu_poll_enable"),
    known("ppm", "/proc/ppm/enabled"),
    known("ged-boost", "/sys/kernel/ged/hal/custom_boost_gpu_freq"),
    known("siop-min", "/sys/power/cpufreq_min_limit"),
    known("siop-max", "/sys/power/cpufreq_max_limit"),
];

/// Every knob that is there.
pub(super) fn knobs(nodes: &dyn Nodes) -> Vec<Candidate> {
    let mut found = policies(nodes);
    for (role, id, pattern, inside, driver) in PLACES {
        for dir in find_all(nodes, pattern)
            .unwrap_or_default()
            .into_iter()
            .filter(|dir| nodes.exists(&dir.join(inside)))
        {
            if !found.iter().any(|c| same_node(&c.driver, dir.as_str())) {
                found.push(Candidate { id: (*id).into(), role: *role, driver: driver(dir.to_string()) });
            }
        }
    }
    found
}

fn policies(nodes: &dyn Nodes) -> Vec<Candidate> {
    let mut numbers: Vec<usize> = find_all(nodes, "/sys/devices/system/cpu/cpufreq/policy*")
        .unwrap_or_default()
        .iter()
        .filter_map(|dir| dir.name().strip_prefix("policy")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    let cpu = |policy| Candidate {
        id: format!("cpu{policy}"),
        role: Role::Cpu,
        driver: DriverSpec::Cpufreq { policy },
    };
    numbers.into_iter().map(cpu).collect()
}

fn same_node(driver: &DriverSpec, dir: &str) -> bool {
    matches!(driver, DriverSpec::Devfreq { node, .. } if node == dir)
}
