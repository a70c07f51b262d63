//! Puts the drivers that a profile and its `[twin]` table name behind their paths.

use super::Driver;
use super::bus_dcvs::BusDcvs;
use super::cgroup::{Cgroup, ROOT};
use super::cooling::Cooling;
use super::core_ctl::CoreCtl;
use super::cpufreq::Cpufreq;
use super::devfreq::Devfreq;
use super::ged::Ged;
use super::gpex::Gpex;
use super::gpufreq_v1::GpufreqV1;
use super::gpufreq_v2::GpufreqV2;
use super::kgsl::Kgsl;
use super::mif::Mif;
use super::msm_performance::MsmPerformance;
use super::pixel_mali::PixelMali;
use super::plain::Plain;
use super::platform::{Boost, CpuOnline, Cpusets, Machine, Meter, Wakelocks};
use super::power_supply::{Supply, Usb};
use super::thermal::Zone;
use super::tree::{File, Tree};
use crate::profile::{DriverSpec, KnobSpec, Profile, Role};
use crate::trial::KnobId;
use crate::twin::domain::UNLIMITED;
use crate::twin::soc::Soc;
use crate::twin::spec::{CgroupVersion, DomainSpec};
use std::collections::BTreeMap;

const CPU: &str = "/sys/devices/system/cpu";
const GED: &str = "/sys/kernel/ged/hal";

/// Drivers and the tree of their nodes.
#[derive(Default)]
pub struct Board {
    /// The drivers; a removed one leaves a gap.
    pub drivers: Vec<Option<Box<dyn Driver>>>,
    /// The paths of their attributes.
    pub tree: Tree,
    /// The driver behind each knob.
    pub of_knob: BTreeMap<KnobId, usize>,
    /// The cgroup directories.
    pub cgroups: BTreeMap<String, usize>,
    /// Drivers that write their own range again at intervals.
    pub reasserting: Vec<usize>,
    /// The domain that the quota of a cgroup bounds.
    bounded: Option<usize>,
}

impl Board {
    /// The board of a checked profile.
    pub fn new(profile: &Profile, soc: &mut Soc) -> Self {
        let mut board = Board { tree: Tree::new(), ..Board::default() };
        for knob in &profile.knobs {
            if let Some(domain) = soc.domain(&knob.id) {
                board.knob(knob, domain, soc);
            }
        }
        board.cpus(soc);
        board.sensors(soc);
        board.companions(soc);
        let spec = &soc.spec;
        board.mount("", Plain::new(spec.files.iter()));
        board.range_all(soc);
        board
    }

    /// Puts a driver's attributes below `dir`.
    pub fn mount(&mut self, dir: &str, driver: impl Driver + 'static) -> usize {
        let index = self.drivers.len();
        self.drivers.push(Some(Box::new(driver)));
        self.serve(dir, index);
        index
    }

    /// Serves a driver's attributes below (another) `dir`.
    fn serve(&mut self, dir: &str, driver: usize) {
        let attrs = self.drivers[driver].as_ref().map(|d| d.attrs()).unwrap_or_default();
        for (attr, (name, mode)) in attrs.into_iter().enumerate().filter(|(_, (_, mode))| *mode != 0) {
            self.tree.add_file(&format!("{dir}/{name}"), File { driver, attr, mode });
        }
    }

    /// Lets every domain know what its driver's requests amount to.
    pub fn range_all(&self, soc: &mut Soc) {
        let mut ranges = vec![(0, UNLIMITED); soc.domains.len()];
        for (domain, (min, max)) in self.drivers.iter().flatten().filter_map(|driver| driver.range(soc)) {
            let range: &mut (u64, u64) = &mut ranges[domain];
            *range = (range.0.max(min), range.1.min(max));
        }
        for (domain, range) in soc.domains.iter_mut().zip(ranges) {
            domain.range = range;
        }
        soc.settle();
    }

    fn knob(&mut self, knob: &KnobSpec, domain: usize, soc: &mut Soc) {
        let spec = soc.spec.domains.get(&knob.id).cloned().unwrap_or_default();
        let driver = match &knob.driver {
            DriverSpec::Cpufreq { policy } => self.policy(*policy, domain, &spec, soc),
            DriverSpec::CpuQuota { .. } => return self.quota(domain, soc),
            other => self.device(other, domain, &spec, soc),
        };
        self.of_knob.insert(knob.id.clone(), driver);
    }

    fn policy(&mut self, number: usize, domain: usize, spec: &DomainSpec, soc: &mut Soc) -> usize {
        soc.domains[domain].pmu_limit = spec.quirks.pmu_limit.unwrap_or(UNLIMITED);
        let policy = Cpufreq::new(domain, spec.quirks.clone(), soc);
        let driver = self.mount(&format!("{CPU}/cpufreq/policy{number}"), policy);
        for cpu in &spec.cpus {
            self.serve(&format!("{CPU}/cpu{cpu}/cpufreq"), driver);
        }
        driver
    }

    fn device(&mut self, driver: &DriverSpec, domain: usize, spec: &DomainSpec, soc: &Soc) -> usize {
        let quirks = &spec.quirks;
        let at = node_of(driver, spec);
        match driver {
            DriverSpec::PixelMali { .. } => {
                let gpu = self.mount(at, PixelMali::new(domain, quirks));
                self.serve("/sys/class/misc/mali0/device", gpu);
                gpu
            }
            DriverSpec::Kgsl { .. } => self.mount(at, Kgsl::new(domain, soc)),
            DriverSpec::GpufreqV1 { .. } => {
                self.mount(GED, Ged::new(domain, soc));
                self.mount(at, GpufreqV1::new(domain))
            }
            DriverSpec::GpufreqV2 { .. } => {
                self.mount(GED, Ged::new(domain, soc));
                self.mount(at, GpufreqV2::new(domain, &quirks.duplicates, soc))
            }
            DriverSpec::Gpex { .. } => self.mount(at, Gpex::new(domain)),
            DriverSpec::Mif { .. } => self.mount(at, Mif::new(domain, soc)),
            DriverSpec::BusDcvs { .. } => {
                let bus = BusDcvs::new(domain, &quirks.monitors, quirks.reasserts.as_ref(), soc);
                let bus = self.mount(at, bus);
                self.reasserting.extend(quirks.reasserts.as_ref().map(|_| bus));
                bus
            }
            DriverSpec::Devfreq { unit, .. } => self.mount(at, Devfreq::new(domain, *unit, quirks.clone())),
            DriverSpec::Cpufreq { .. } | DriverSpec::CpuQuota { .. } => 0,
        }
    }

    fn quota(&mut self, domain: usize, soc: &Soc) {
        self.bounded = Some(domain);
        if let Some(version) = soc.spec.companions.cgroup {
            let dir = cgroup_root(version);
            let root = self.mount(dir, Cgroup::new(version, ROOT, Some(domain)));
            self.cgroups.insert(dir.into(), root);
        }
    }

    fn cpus(&mut self, soc: &Soc) {
        self.mount("", Machine);
        for cpu in 0..soc.online.len() {
            self.tree.add_dir(&format!("{CPU}/cpu{cpu}"));
            if cpu > 0 {
                self.mount(&format!("{CPU}/cpu{cpu}"), CpuOnline { cpu });
            }
        }
        if soc.domains.iter().any(|domain| domain.plain < domain.table.len()) {
            self.mount(&format!("{CPU}/cpufreq"), Boost);
        }
    }

    fn sensors(&mut self, soc: &Soc) {
        for (number, zone) in soc.spec.zones.iter().enumerate() {
            self.mount(&format!("/sys/class/thermal/thermal_zone{number}"), Zone::new(zone.clone()));
        }
        if let Some(battery) = &soc.battery {
            let dir = format!("/sys/class/power_supply/{}", battery.spec.name);
            self.mount(&dir, Supply::new(battery));
            self.mount("/sys/class/power_supply/usb", Usb);
        }
        if let Some(meter) = &soc.spec.meter {
            self.mount("", Meter { path: meter.trim_start_matches('/').into() });
        }
    }

    fn companions(&mut self, soc: &mut Soc) {
        let nodes = soc.spec.companions.clone();
        if nodes.wakelock {
            self.mount("/sys/power", Wakelocks::default());
        }
        if nodes.cpuset {
            self.mount("/dev/cpuset", Cpusets::new());
        }
        if let Some(maxima) = &nodes.msm_performance {
            let module = MsmPerformance::new(maxima, soc);
            self.mount("/sys/module/msm_performance/parameters", module);
        }
        for first in nodes.core_ctl {
            self.mount(&format!("{CPU}/cpu{first}/core_ctl"), CoreCtl::new(first, soc));
        }
        if nodes.cooling {
            self.cooling(soc);
        }
    }

    fn cooling(&mut self, soc: &Soc) {
        let cooled = (0..soc.domains.len()).filter(|&d| soc.domains[d].role != Role::Memory);
        for (number, domain) in cooled.enumerate() {
            let dir = format!("/sys/class/thermal/cooling_device{number}");
            self.mount(&dir, Cooling::new(domain, number));
        }
    }

    /// Makes a cgroup below an existing one.
    pub fn make_cgroup(&mut self, dir: &str, soc: &Soc) -> Result<(), i32> {
        let parent = dir.rsplit_once('/').map_or("", |(parent, _)| parent);
        let version = soc.spec.companions.cgroup.filter(|_| self.cgroups.contains_key(parent));
        let version = version.ok_or(libc::EPERM)?;
        let group = Cgroup::new(version, self.drivers.len(), self.bounded);
        let driver = self.mount(dir, group);
        self.cgroups.insert(dir.into(), driver);
        Ok(())
    }

    /// Removes a cgroup without tasks and without children.
    pub fn remove_cgroup(&mut self, dir: &str, soc: &Soc) -> Result<(), i32> {
        let parent = dir.rsplit_once('/').map_or("", |(parent, _)| parent);
        let removable = self.cgroups.get(dir).filter(|_| self.cgroups.contains_key(parent));
        let driver = *removable.ok_or(libc::EPERM)?;
        let below = format!("{dir}/");
        let has_children = self.cgroups.keys().any(|other| other.starts_with(&below));
        if has_children || self.drivers[driver].as_ref().is_some_and(|d| d.busy(soc)) {
            return Err(libc::EBUSY);
        }
        self.drivers[driver] = None;
        self.cgroups.remove(dir);
        self.tree.remove_dir(dir);
        Ok(())
    }
}

fn cgroup_root(version: CgroupVersion) -> &'static str {
    match version {
        CgroupVersion::V1 => "/sys/fs/cgroup/cpu",
        CgroupVersion::V2 => "/sys/fs/cgroup",
    }
}

/// The directory of a driver's nodes: the profile's path, or the twin's own where that is a pattern.
pub fn node_of<'a>(driver: &'a DriverSpec, spec: &'a DomainSpec) -> &'a str {
    let path = match driver {
        DriverSpec::PixelMali { node }
        | DriverSpec::Kgsl { node }
        | DriverSpec::GpufreqV1 { node }
        | DriverSpec::GpufreqV2 { node }
        | DriverSpec::Gpex { node }
        | DriverSpec::Devfreq { node, .. }
        | DriverSpec::Mif { node }
        | DriverSpec::BusDcvs { node } => node,
        DriverSpec::Cpufreq { .. } | DriverSpec::CpuQuota { .. } => "",
    };
    spec.node.as_deref().unwrap_or(path)
}
