//! A cgroup CPU quota as a knob: it pins the compute throughput of this process on machines without cpufreq.
//!
//! Sources: `Documentation/scheduler/sched-bwc.rst`, `Documentation/admin-guide/cgroup-v2.rst`. The process is
//! moved into a cgroup of ours at the root of the cpu hierarchy, so that no other cgroup's quota mixes in. An
//! operating point is a share of one CPU in thousandths; all threads of the process share it.

use super::table::{Steps, describe, must_list};
use super::{Access, Glimpse, Knob, KnobError, KnobInfo, Residency};
use crate::guard::{Check, RestoreStep, Target};
use crate::profile::KnobSpec;
use crate::sysfs::cgroup::{Hierarchy, with_controller};
use crate::sysfs::{NodePath, Nodes};
use crate::units::{Opp, OppUnit};
use std::time::Duration;

/// Name of our cgroup.
const GROUP: &str = "opptune";
/// The kernel takes no quota below this many microseconds per period.
const SMALLEST_QUOTA_US: u64 = 1000;

/// USER_HZ is 100 on every architecture that runs an agent.
const USER_TICK: Duration = Duration::from_millis(10);

/// The quota.
pub(super) struct CpuQuota {
    info: KnobInfo,
    hierarchy: Hierarchy,
    group: NodePath,
    period_us: u64,
}

/// Finds the cpu controller.
///
/// # Errors
/// [`KnobError::Unavailable`] when no mounted cgroup hierarchy has it, [`KnobError::Rejected`] for a level that
/// is too small for the period.
pub(super) fn open(
    spec: &KnobSpec,
    levels: &[Opp],
    period_us: u64,
    nodes: &dyn Nodes,
) -> Result<CpuQuota, KnobError> {
    let access = Access::new(&spec.id, nodes);
    let hierarchy = with_controller(nodes, "cpu").map_err(|e| access.gone(e.to_string()))?;
    let hierarchy = hierarchy.ok_or_else(|| {
        access.gone("no mounted cgroup hierarchy has the cpu controller; mount one as root, or run elsewhere")
    })?;
    let steps = Steps::new(levels.iter().map(|level| level.0), 1);
    let info = describe(spec, "cpu-quota", OppUnit::CpuPermille, steps.opps());
    let group = hierarchy.mount.join(GROUP);
    let knob = CpuQuota { info, hierarchy, group, period_us };
    match knob.quota_us(Opp(steps.lowest())) {
        quota if quota < SMALLEST_QUOTA_US => Err(access.rejected(
            &Opp(steps.lowest()).show(OppUnit::CpuPermille),
            format!("that is {quota} us per period of {period_us} us and the kernel takes no less than 1000"),
        )),
        _ => Ok(knob),
    }
}

impl CpuQuota {
    fn quota_us(&self, opp: Opp) -> u64 {
        opp.0.saturating_mul(self.period_us) / 1000
    }

    /// Writes that set the quota, in order. On v1 the quota is lifted before the period changes, because
    /// the kernel checks each write against the pair.
    fn writes(&self, quota_us: u64) -> Vec<(NodePath, String)> {
        let node = |name| self.group.join(name);
        match self.hierarchy.unified {
            true => vec![(node("cpu.max"), format!("{quota_us} {}", self.period_us))],
            false => vec![
                (node("cpu.cfs_quota_us"), "-1".into()),
                (node("cpu.cfs_period_us"), self.period_us.to_string()),
                (node("cpu.cfs_quota_us"), quota_us.to_string()),
            ],
        }
    }

    /// Quota and period in force.
    fn in_force(&self, access: &Access) -> Option<(u64, u64)> {
        let words = match self.hierarchy.unified {
            true => access.optional(&self.group.join("cpu.max")),
            false => {
                let read = |name| access.optional(&self.group.join(name));
                format!("{} {}", read("cpu.cfs_quota_us"), read("cpu.cfs_period_us"))
            }
        };
        let (quota, period) = words.split_once(' ')?;
        Some((quota.parse().ok()?, period.parse().ok().filter(|&period: &u64| period > 0)?))
    }

    fn level(&self, access: &Access) -> Option<Opp> {
        let (quota, period) = self.in_force(access)?;
        Some(Opp(quota.saturating_mul(1000) / period))
    }

    /// Makes the group; on v2 its parent must hand the controller down first.
    fn prepare(&self, access: &Access, asked: &str) -> Result<(), KnobError> {
        let control = self.delegation();
        if self.hierarchy.unified && !delegated(&access.optional(&control)) {
            access.write(&control, "+cpu", asked)?;
        }
        access.nodes.make_dir(&self.group).map_err(|e| access.gone(e.to_string()))
    }

    fn delegation(&self) -> NodePath {
        self.hierarchy.mount.join("cgroup.subtree_control")
    }

    fn inside(&self, nodes: &dyn Nodes) -> bool {
        self.hierarchy.home(nodes).is_ok_and(|home| home == self.group)
    }
}

fn delegated(control: &str) -> bool {
    control.split_whitespace().any(|name| name == "cpu")
}

impl Knob for CpuQuota {
    fn info(&self) -> &KnobInfo {
        &self.info
    }

    fn snapshot(&self, nodes: &dyn Nodes) -> Result<Vec<RestoreStep>, KnobError> {
        let access = Access::new(&self.info.id, nodes);
        let home = self.hierarchy.home(nodes).map_err(|e| access.gone(e.to_string()))?;
        // A group left behind by a crash is no home to return to.
        let home = if home == self.group { self.hierarchy.mount.clone() } else { home };
        let remove = RestoreStep {
            owner: self.info.id.0.clone(),
            target: Target::Cgroup { dir: self.group.clone(), home },
            write: String::new(),
            check: Check::Nothing,
            survives_reboot: false,
        };
        let control = self.delegation();
        // Only what was read may be called an original: an unread list is no empty one.
        let before = self.hierarchy.unified.then(|| access.text(&control)).transpose()?;
        let ours = before.filter(|list| !delegated(list));
        let withdraw = ours.map(|list| access.step(&control, "-cpu", Check::Text(list)));
        Ok([remove].into_iter().chain(withdraw).collect())
    }

    fn pin(&mut self, nodes: &dyn Nodes, opp: Opp) -> Result<Opp, KnobError> {
        let access = Access::new(&self.info.id, nodes);
        let asked = must_list(&access, &self.info, opp)?;
        self.prepare(&access, &asked)?;
        let wanted = self.quota_us(opp);
        for (node, value) in self.writes(wanted) {
            access.write(&node, &value, &asked)?;
        }
        if !self.inside(nodes) {
            access.write(&self.group.join("cgroup.procs"), &std::process::id().to_string(), &asked)?;
        }
        match self.in_force(&access) {
            Some(found) if found == (wanted, self.period_us) => Ok(opp),
            found => Err(access.did_not_stick(&asked, format!("quota and period {found:?}"))),
        }
    }

    /// The kernel enforces the quota exactly, so the level in force is the clock, as long as the process is
    /// in the group.
    fn glimpse(&self, nodes: &dyn Nodes) -> Glimpse {
        let level = self.level(&Access::new(&self.info.id, nodes));
        Glimpse {
            clock: level.filter(|_| self.inside(nodes)),
            range: level.map(|level| (level, level)),
            limits: Vec::new(),
        }
    }

    /// Of this process, which is what the quota bounds; all its threads.
    fn cpu_time(&self, nodes: &dyn Nodes) -> Option<Duration> {
        let stat = nodes.read(&NodePath::fixed("/proc/self/stat")).ok()?;
        // The name, in parentheses, may hold blanks. proc(5): utime and stime are fields 14 and 15.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let mut ticks = || fields.next()?.parse::<u64>().ok();
        Some(USER_TICK * (ticks()? + ticks()?).try_into().ok()?)
    }

    fn residency(&self, _nodes: &dyn Nodes) -> Option<Residency> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knob::fake::{Fake, spec};
    use crate::profile::DriverSpec;

    fn quota(fake: &Fake, levels: &[u64]) -> Result<CpuQuota, KnobError> {
        let levels: Vec<Opp> = levels.iter().copied().map(Opp).collect();
        let driver = DriverSpec::CpuQuota { levels: levels.clone(), period_us: 10_000 };
        open(&spec("cpu", driver), &levels, 10_000, fake)
    }

    fn machine(fake: &Fake, mounts: &str, own: &str, files: &[(&str, &str)]) {
        fake.text("/proc/mounts", mounts);
        fake.text("/proc/self/cgroup", own);
        for (path, text) in files {
            fake.text(path, text);
        }
    }

    #[test]
    fn the_old_interface_takes_quota_and_period() {
        let fake = Fake::default();
        let group = "/sys/fs/cgroup/cpu/opptune";
        machine(&fake, "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0", "4:cpu:/lab", &[]);
        for name in ["cpu.cfs_quota_us", "cpu.cfs_period_us", "cgroup.procs"] {
            fake.text(&format!("{group}/{name}"), "-1");
        }
        let mut knob = quota(&fake, &[500, 2000]).unwrap();
        let Target::Cgroup { home, .. } = &knob.snapshot(&fake).unwrap()[0].target else { panic!() };
        assert_eq!(home.as_str(), "/sys/fs/cgroup/cpu/lab");
        assert_eq!(knob.pin(&fake, Opp(500)).unwrap(), Opp(500));
        assert_eq!(fake.last_write(&format!("{group}/cpu.cfs_quota_us")), "5000");
        assert_eq!(fake.last_write(&format!("{group}/cgroup.procs")), std::process::id().to_string());
        assert_eq!(knob.glimpse(&fake).clock, None, "not inside the group yet, as the kernel says");
        fake.text("/proc/self/cgroup", "4:cpu:/opptune");
        assert_eq!(knob.glimpse(&fake).clock, Some(Opp(500)));
    }

    #[test]
    fn the_unified_interface_hands_the_controller_down_and_takes_it_back() {
        let fake = Fake::default();
        let files = [
            ("/cg/cgroup.controllers", "cpu memory"),
            ("/cg/cgroup.subtree_control", "memory"),
            ("/cg/opptune/cpu.max", "max 100000"),
            ("/cg/opptune/cgroup.procs", ""),
        ];
        machine(&fake, "cgroup2 /cg cgroup2 rw 0 0", "0::/user", &files);
        let mut knob = quota(&fake, &[250]).unwrap();
        let saved = knob.snapshot(&fake).unwrap();
        assert_eq!((saved[1].write.as_str(), &saved[1].check), ("-cpu", &Check::Text("memory".into())));
        knob.pin(&fake, Opp(250)).unwrap();
        assert_eq!(fake.last_write("/cg/cgroup.subtree_control"), "+cpu");
        assert_eq!(fake.last_write("/cg/opptune/cpu.max"), "2500 10000");
    }

    #[test]
    fn a_delegation_that_cannot_be_read_is_not_taken_for_none() {
        let fake = Fake::default();
        machine(&fake, "cgroup2 /cg cgroup2 rw 0 0", "0::/user", &[("/cg/cgroup.controllers", "cpu")]);
        assert!(quota(&fake, &[250]).unwrap().snapshot(&fake).is_err());
    }

    #[test]
    fn without_a_quota_the_share_is_what_the_process_used() {
        let fake = Fake::default();
        machine(&fake, "cgroup /c cgroup rw,cpu 0 0", "", &[]);
        let stat = "42 (a (b) c) R 1 1 1 0 -1 4194304 9 0 0 0 123 77 0 0 20 0 3 0 9 9";
        fake.text("/proc/self/stat", stat);
        let knob = quota(&fake, &[500]).unwrap();
        assert_eq!(knob.cpu_time(&fake), Some(Duration::from_secs(2)));
        assert_eq!(knob.glimpse(&fake).clock, None, "nothing bounds it");
    }

    #[test]
    fn levels_below_what_the_kernel_takes_are_refused_at_once() {
        let fake = Fake::default();
        machine(&fake, "cgroup /c cgroup rw,cpu 0 0", "", &[]);
        assert!(matches!(quota(&fake, &[50]), Err(KnobError::Rejected { .. })));
        fake.text("/proc/mounts", "proc /proc proc rw 0 0");
        assert!(matches!(quota(&fake, &[500]), Err(KnobError::Unavailable { .. })));
    }
}
