//! cpufreq policies, in kHz.
//!
//! Sources: `drivers/cpufreq/cpufreq.c`, `Documentation/admin-guide/pm/cpufreq.rst`. Policy numbers have gaps
//! (N is the first CPU of the policy), lists come in either order, boost steps stand in a list of their own,
//! and the limits a node shows are the effective ones, merged from every holder.

use super::bounds::{Bounds, as_limit};
use super::cooling::{self, Cooling};
use super::table::{Steps, describe, must_list, numbers, prior_instead, residency_rows};
use super::{Access, Glimpse, Knob, KnobError, KnobInfo, Limit, Residency};
use crate::guard::RestoreStep;
use crate::profile::{DriverSpec, KnobSpec, Role, Use};
use crate::sysfs::{NodeError, NodeFault, NodePath, Nodes};
use crate::trial::KnobId;
use crate::units::{Opp, OppUnit};

const CPU: &str = "/sys/devices/system/cpu";

/// How far the hardware's clock may lie below the requested one before it counts as a clamp: measured clocks
/// (CPPC, `cpuinfo_cur_freq` of some drivers) jitter by about a percent.
const MEASURED_SLACK: f64 = 0.98;

/// A policy.
pub(super) struct Cpufreq {
    info: KnobInfo,
    dir: NodePath,
    /// The clock as the hardware measures it, and as it was asked for.
    clocks: [NodePath; 2],
    time_in_state: NodePath,
    steps: Steps,
    bounds: Bounds,
    cooling: Option<Cooling>,
    /// Hardware caps of the policy's CPUs (Qualcomm LMh), read-only.
    hardware_caps: Vec<NodePath>,
}

/// Finds policy `policy` and its table.
///
/// # Errors
/// [`KnobError::Unavailable`] naming the policies that are there.
pub(super) fn open(spec: &KnobSpec, policy: usize, nodes: &dyn Nodes) -> Result<Cpufreq, KnobError> {
    let access = Access::new(&spec.id, nodes);
    let root = NodePath::fixed(CPU).join("cpufreq");
    let policies = policies(nodes, &root);
    if !policies.contains(&policy) {
        return Err(access.gone(format!("there is no policy{policy}; the device has {policies:?}")));
    }
    let dir = root.join(&format!("policy{policy}"));
    let (listed, boost) = (list(&access, &dir, spec)?, numbers(&access.optional(&boost_list(&dir))));
    let steps = Steps::new(listed.into_iter().chain(boost.iter().copied()), 1);
    let floor = access.number(&dir.join("cpuinfo_min_freq"))?;
    let mut info = describe(spec, "cpufreq", OppUnit::KiloHertz, steps.opps());
    info.boost = Steps::new(boost, 1).opps();
    info.cpus = cpu_list(&access.text(&dir.join("related_cpus"))?);
    let cooling = cooling::of_policy(nodes, policy, &policies)
        .and_then(|kind| cooling::map(nodes, &kind, &info.opps, &info.boost));
    let hardware_caps = hardware_caps(nodes, &dir, &info.cpus);
    let bounds = Bounds::below(&dir, "scaling_min_freq", "scaling_max_freq", floor);
    let clocks = ["cpuinfo_cur_freq", "scaling_cur_freq"].map(|name| dir.join(name));
    let time_in_state = dir.join("stats/time_in_state");
    Ok(Cpufreq { info, dir, clocks, time_in_state, steps, bounds, cooling, hardware_caps })
}

/// Writes that put the limits of every policy back to what they are now.
///
/// # Errors
/// When a policy cannot be read; an offline one, for example.
pub fn all_limits(nodes: &dyn Nodes) -> Result<Vec<RestoreStep>, NodeError> {
    let root = NodePath::fixed(CPU).join("cpufreq");
    let of_policy = |policy: usize| {
        let spec = KnobSpec {
            id: KnobId(format!("policy{policy}")),
            role: Role::Cpu,
            usage: Use::Record,
            prior: Vec::new(),
            driver: DriverSpec::Cpufreq { policy },
        };
        open(&spec, policy, nodes)?.snapshot(nodes)
    };
    let all: Result<Vec<_>, KnobError> = policies(nodes, &root).into_iter().map(of_policy).collect();
    let unreadable = |e: KnobError| NodeError {
        op: "read".into(),
        path: root.to_string(),
        fault: NodeFault::NoData,
        detail: e.to_string(),
    };
    Ok(all.map_err(unreadable)?.concat())
}

fn boost_list(dir: &NodePath) -> NodePath {
    dir.join("scaling_boost_frequencies")
}

fn policies(nodes: &dyn Nodes, root: &NodePath) -> Vec<usize> {
    let names = nodes.list(root).unwrap_or_default();
    let mut found: Vec<usize> =
        names.iter().filter_map(|name| name.strip_prefix("policy")?.parse().ok()).collect();
    found.sort_unstable();
    found
}

fn boost_is_off(access: &Access) -> bool {
    access.optional(&NodePath::fixed(CPU).join("cpufreq/boost")) == "0"
}

/// The driver's list; where it gives none, the rows of its statistics; where it has none, the prior.
fn list(access: &Access, dir: &NodePath, spec: &KnobSpec) -> Result<Vec<u64>, KnobError> {
    let listed = numbers(&access.optional(&dir.join("scaling_available_frequencies")));
    if !listed.is_empty() {
        return Ok(listed);
    }
    let statistics = access.optional(&dir.join("stats/time_in_state"));
    match residency_rows(&statistics, &Steps::new([], 1)) {
        Some(Residency(rows)) => Ok(rows.into_iter().map(|(opp, _)| opp.0).collect()),
        None => prior_instead(access, spec, dir.as_str()),
    }
}

/// `0 1 2 3` as the kernel prints it; ranges (`0-3`) as some vendors do.
fn cpu_list(text: &str) -> Vec<usize> {
    let range = |word: &str| -> Option<std::ops::RangeInclusive<usize>> {
        let (from, to) = word.split_once('-').unwrap_or((word, word));
        Some(from.parse().ok()?..=to.parse().ok()?)
    };
    text.split([' ', ',']).filter_map(range).flatten().collect()
}

/// Older drivers put the node below each CPU, newer ones below the policy.
fn hardware_caps(nodes: &dyn Nodes, dir: &NodePath, cpus: &[usize]) -> Vec<NodePath> {
    let of_cpu = |cpu: &usize| NodePath::fixed(CPU).join(&format!("cpu{cpu}/dcvsh_freq_limit"));
    let all = cpus.iter().map(of_cpu).chain([dir.join("dcvsh_freq_limit")]);
    all.filter(|path| nodes.exists(path)).collect()
}

impl Cpufreq {
    fn access<'a>(&'a self, nodes: &'a dyn Nodes) -> Access<'a> {
        Access::new(&self.info.id, nodes)
    }

    /// Says what stands in the way where the device tells it.
    fn explain(&self, access: &Access, opp: Opp, error: KnobError) -> KnobError {
        let asked = opp.show(self.info.unit);
        if access.nodes.read(&self.dir.join("affected_cpus")).is_ok_and(|cpus| cpus.trim().is_empty()) {
            return access.gone(format!(
                "all its CPUs {:?} are offline; add a companion with `action.cpus-online`",
                self.info.cpus
            ));
        }
        match self.info.boost.contains(&opp) && boost_is_off(access) {
            true => access.rejected(
                &asked,
                format!(
                    "it is a boost step and {CPU}/cpufreq/boost is 0; add a companion with `action.boost` behind `cpus-online`"
                ),
            ),
            false => error,
        }
    }

    fn clock(&self, access: &Access) -> (Option<u64>, Option<u64>) {
        let [measured, requested] = &self.clocks;
        (access.positive(measured), access.positive(requested))
    }

    fn hardware_limit(&self, access: &Access) -> Option<Limit> {
        let cap = self.hardware_caps.iter().filter_map(|node| access.positive(node)).min()?;
        let below_top = cap < self.steps.highest();
        below_top.then(|| Limit { source: "dcvsh_freq_limit".into(), min: None, max: Some(Opp(cap)) })
    }
}

/// A clock that the driver measures below the one it was asked for: firmware clamps without telling.
fn firmware_limit(measured: Option<u64>, requested: Option<u64>) -> Option<Limit> {
    let (measured, requested) = (measured?, requested?);
    let lower = (measured as f64) < requested as f64 * MEASURED_SLACK;
    lower.then(|| Limit { source: "cpuinfo_cur_freq".into(), min: None, max: Some(Opp(measured)) })
}

impl Knob for Cpufreq {
    fn info(&self) -> &KnobInfo {
        &self.info
    }

    fn snapshot(&self, nodes: &dyn Nodes) -> Result<Vec<RestoreStep>, KnobError> {
        let capped = self.cooling.as_ref().and_then(|cooling| cooling.limit(nodes));
        let access = self.access(nodes);
        // With boost off a boost step is no maximum to go back to: some drivers take it all the same.
        let plain = self.info.opps.iter().filter(|opp| !self.info.boost.contains(opp)).map(|opp| opp.0);
        match boost_is_off(&access) {
            true => self.bounds.snapshot(&access, &Steps::new(plain, 1), capped.as_ref()),
            false => self.bounds.snapshot(&access, &self.steps, capped.as_ref()),
        }
    }

    fn pin(&mut self, nodes: &dyn Nodes, opp: Opp) -> Result<Opp, KnobError> {
        let access = self.access(nodes);
        let asked = must_list(&access, &self.info, opp)?;
        let pinned = self.bounds.pin(&access, opp.0, &self.steps, &asked);
        pinned.map_err(|error| self.explain(&access, opp, error))
    }

    fn glimpse(&self, nodes: &dyn Nodes) -> Glimpse {
        let access = self.access(nodes);
        let range = self.bounds.range(&access, &self.steps);
        let (measured, requested) = self.clock(&access);
        let limits = [
            as_limit("scaling_max_freq", range),
            self.hardware_limit(&access),
            self.cooling.as_ref().and_then(|cooling| cooling.limit(nodes)),
            firmware_limit(measured, requested),
        ];
        let clock = measured.or(requested).map(Opp);
        Glimpse { clock, range, limits: limits.into_iter().flatten().collect() }
    }

    fn residency(&self, nodes: &dyn Nodes) -> Option<Residency> {
        residency_rows(&nodes.read(&self.time_in_state).ok()?, &self.steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::Check;
    use crate::knob::fake::{Fake, cpufreq_policy, spec};

    fn knob_spec(policy: usize) -> KnobSpec {
        spec("cpu", DriverSpec::Cpufreq { policy })
    }

    #[test]
    fn the_table_is_the_union_with_boost_and_gaps_in_numbers_are_fine() {
        let fake = Fake::default();
        cpufreq_policy(&fake, 4, "600000 300000 \n", true);
        fake.text("/sys/devices/system/cpu/cpufreq/policy4/scaling_boost_frequencies", "900000 \n");
        let knob = open(&knob_spec(4), 4, &fake).unwrap();
        assert_eq!(knob.info.opps, [Opp(300_000), Opp(600_000), Opp(900_000)]);
        assert_eq!(knob.info.boost, [Opp(900_000)]);
        assert_eq!(knob.info.cpus, [4, 5]);
        let missing = open(&knob_spec(0), 0, &fake).err().unwrap().to_string();
        assert!(missing.contains("[4]"), "{missing}");
    }

    #[test]
    fn a_missing_list_is_taken_from_the_statistics() {
        let fake = Fake::default();
        cpufreq_policy(&fake, 0, "", true);
        fake.text("/sys/devices/system/cpu/cpufreq/policy0/stats/time_in_state", "900000 5\n300000 7\n");
        let knob = open(&knob_spec(0), 0, &fake).unwrap();
        assert_eq!(knob.info.opps, [Opp(300_000), Opp(900_000)]);
        assert_eq!(knob.residency(&fake).unwrap().0.len(), 2);
    }

    #[test]
    fn every_step_can_be_pinned_from_every_other_on_old_and_new_kernels() {
        for refuses in [true, false] {
            let fake = Fake::default();
            cpufreq_policy(&fake, 0, "300000 600000 900000", refuses);
            let mut knob = open(&knob_spec(0), 0, &fake).unwrap();
            for from in [300_000, 600_000, 900_000] {
                for to in [300_000, 600_000, 900_000] {
                    knob.pin(&fake, Opp(from)).unwrap();
                    assert_eq!(knob.pin(&fake, Opp(to)).unwrap(), Opp(to));
                    assert_eq!(knob.glimpse(&fake).range, Some((Opp(to), Opp(to))));
                }
            }
            assert_eq!(fake.refusals(), 0, "no step asked for a minimum above the maximum");
        }
    }

    #[test]
    fn limits_name_their_source() {
        let fake = Fake::default();
        cpufreq_policy(&fake, 0, "300000 600000 900000", false);
        fake.text("/sys/devices/system/cpu/cpu0/dcvsh_freq_limit", "600000");
        fake.text("/sys/class/thermal/cooling_device3/type", "thermal-cpufreq-0");
        fake.text("/sys/class/thermal/cooling_device3/max_state", "2");
        fake.text("/sys/class/thermal/cooling_device3/cur_state", "2");
        fake.text("/sys/devices/system/cpu/cpufreq/policy0/cpuinfo_cur_freq", "300000");
        fake.text("/sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq", "900000");
        let seen = open(&knob_spec(0), 0, &fake).unwrap().glimpse(&fake);
        assert_eq!(seen.clock, Some(Opp(300_000)), "what the hardware says counts");
        let told: Vec<(&str, Option<Opp>)> = seen.limits.iter().map(|l| (l.source.as_str(), l.max)).collect();
        assert_eq!(
            told,
            [
                ("scaling_max_freq", Some(Opp(900_000))),
                ("dcvsh_freq_limit", Some(Opp(600_000))),
                ("thermal-cpufreq-0", Some(Opp(300_000))),
                ("cpuinfo_cur_freq", Some(Opp(300_000))),
            ]
        );
    }

    #[test]
    fn a_policy_taken_warm_does_not_stay_slow() {
        let fake = Fake::default();
        cpufreq_policy(&fake, 0, "300000 600000 900000", false);
        for (name, text) in [("type", "cpufreq-cpu0"), ("max_state", "2"), ("cur_state", "1")] {
            fake.text(&format!("/sys/class/thermal/cooling_device0/{name}"), text);
        }
        fake.cap("/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq", 600_000);
        let knob = open(&knob_spec(0), 0, &fake).unwrap();
        let max = &knob.snapshot(&fake).unwrap()[1];
        assert_eq!(
            (max.write.as_str(), &max.check),
            ("900000", &Check::Nothing),
            "600000 is not what was asked"
        );
    }

    #[test]
    fn what_stands_in_the_way_is_said() {
        let fake = Fake::default();
        cpufreq_policy(&fake, 0, "300000 600000", false);
        let dir = "/sys/devices/system/cpu/cpufreq";
        fake.text(&format!("{dir}/policy0/scaling_boost_frequencies"), "900000");
        fake.text(&format!("{dir}/boost"), "0");
        fake.cap(&format!("{dir}/policy0/scaling_max_freq"), 600_000);
        let mut knob = open(&knob_spec(0), 0, &fake).unwrap();
        let no_boost = knob.pin(&fake, Opp(900_000)).unwrap_err();
        assert!(
            matches!(&no_boost, KnobError::Rejected { why, .. } if why.contains("boost is 0")),
            "{no_boost}"
        );
        fake.text(&format!("{dir}/boost"), "1");
        assert!(matches!(knob.pin(&fake, Opp(900_000)), Err(KnobError::DidNotStick { .. })));
        fake.text(&format!("{dir}/policy0/affected_cpus"), "");
        let offline = knob.pin(&fake, Opp(900_000)).unwrap_err();
        assert!(
            matches!(&offline, KnobError::Unavailable { why, .. } if why.contains("cpus-online")),
            "{offline}"
        );
        assert!(matches!(knob.pin(&fake, Opp(1)), Err(KnobError::Rejected { .. })));
    }
}
