//! A cgroup of the CPU controller, v1 or v2. Groups are made and removed as directories. Source: Linux
//! Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/cpusets.rst, kernel/sched/core.c.

use super::{Driver, Shown, Stored, line, whole};
use crate::twin::domain::UNLIMITED;
use crate::twin::soc::Soc;
use crate::twin::spec::CgroupVersion;

/// Shortest quota the kernel takes, microseconds.
const LEAST_US: u64 = 1_000;
/// Longest period, microseconds.
const MOST_PERIOD_US: u64 = 1_000_000;
/// The id of a hierarchy's root group.
pub const ROOT: usize = 0;

/// A group.
pub struct Cgroup {
    version: CgroupVersion,
    root: bool,
    /// The domain whose throughput the group's quota bounds.
    domain: Option<usize>,
    quota_us: Option<u64>,
    period_us: u64,
    /// Tells groups apart in the SoC's list of tasks.
    id: usize,
}

impl Cgroup {
    /// A group without a quota and without tasks.
    pub fn new(version: CgroupVersion, id: usize, domain: Option<usize>) -> Self {
        Cgroup { version, root: id == ROOT, domain, quota_us: None, period_us: 100_000, id }
    }

    /// Its tasks. Those that have exited leave by themselves.
    fn tasks<'a>(&self, soc: &'a Soc) -> impl Iterator<Item = &'a u32> {
        let id = self.id;
        let alive = |task: u32| std::path::Path::new(&format!("/proc/{task}")).exists();
        soc.cgroup_of.iter().filter(move |(task, group)| **group == id && alive(**task)).map(|(task, _)| task)
    }

    fn names(&self) -> Vec<&'static str> {
        match (self.version, self.root) {
            (CgroupVersion::V1, _) => vec!["cpu.cfs_quota_us", "cpu.cfs_period_us", "cgroup.procs", "tasks"],
            (CgroupVersion::V2, true) => vec!["cgroup.controllers", "cgroup.subtree_control", "cgroup.procs"],
            (CgroupVersion::V2, false) => vec!["cpu.max", "cpu.stat", "cgroup.procs", "cgroup.controllers"],
        }
    }

    /// `cpu.max`: `max` or a quota, and optionally a period.
    fn store_max(&mut self, text: &str) -> Stored {
        let mut words = text.split_whitespace();
        let quota = match words.next().ok_or(libc::EINVAL)? {
            "max" => None,
            number => Some(whole(number)?),
        };
        let period = words.next().map_or(Ok(self.period_us), whole)?;
        self.set(quota, period)
    }

    fn set(&mut self, quota: Option<u64>, period: u64) -> Stored {
        let fine = quota.is_none_or(|q| q >= LEAST_US) && (LEAST_US..=MOST_PERIOD_US).contains(&period);
        if !fine {
            return Err(libc::EINVAL);
        }
        (self.quota_us, self.period_us) = (quota, period);
        Ok(())
    }
}

impl Driver for Cgroup {
    fn attrs(&self) -> Vec<(String, u16)> {
        let mode = |name: &str| if matches!(name, "cpu.stat" | "cgroup.controllers") { 0o444 } else { 0o644 };
        self.names().into_iter().map(|name| (name.to_owned(), mode(name))).collect()
    }

    fn show(&self, attr: usize, soc: &Soc) -> Shown {
        match self.names().get(attr).copied().unwrap_or("") {
            "cpu.cfs_quota_us" => line(self.quota_us.map_or(-1, |quota| quota as i64)),
            "cpu.cfs_period_us" => line(self.period_us),
            "cpu.max" => match self.quota_us {
                Some(quota) => line(format_args!("{quota} {}", self.period_us)),
                None => line(format_args!("max {}", self.period_us)),
            },
            "cpu.stat" => line("usage_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0"),
            "cgroup.controllers" | "cgroup.subtree_control" => line("cpu"),
            _ => Ok(self.tasks(soc).map(|task| format!("{task}\n")).collect()),
        }
    }

    fn store(&mut self, attr: usize, soc: &mut Soc, text: &str) -> Stored {
        match self.names().get(attr).copied().unwrap_or("") {
            "cpu.cfs_quota_us" => {
                let quota: i64 = whole(text)?;
                self.set(u64::try_from(quota).ok(), self.period_us)
            }
            "cpu.cfs_period_us" => self.set(self.quota_us, whole(text)?),
            "cpu.max" => self.store_max(text),
            "cgroup.subtree_control" => Ok(()),
            "cgroup.procs" | "tasks" => {
                soc.cgroup_of.insert(whole(text)?, self.id);
                Ok(())
            }
            _ => Err(libc::EACCES),
        }
    }

    fn range(&self, _soc: &Soc) -> Option<(usize, (u64, u64))> {
        let permille = self.quota_us.map(|quota| quota * 1000 / self.period_us);
        Some((self.domain.filter(|_| !self.root)?, (0, permille.unwrap_or(UNLIMITED))))
    }

    fn busy(&self, soc: &Soc) -> bool {
        self.tasks(soc).next().is_some()
    }
}
