//! What a companion saves and writes.

use crate::guard::{Check, RestoreStep, Target};
use crate::knob::cpufreq_limits;
use crate::profile::{CompanionAction, CompanionSpec};
use crate::sysfs::cgroup::{Hierarchy, with_controller};
use crate::sysfs::{NodeError, NodeFault, NodePath, Nodes, Properties, find_all, find_one, read_trimmed};

/// Name of our wakelock.
const WAKELOCK: &str = "opptune";

/// Originals to save, and writes with how to verify them. Nothing to write: it is out of the way already.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub saves: Vec<RestoreStep>,
    pub writes: Vec<RestoreStep>,
}

/// Looks at the device and plans. Reads only.
///
/// # Errors
/// What is missing or cannot be read.
pub(super) fn of(
    spec: &CompanionSpec,
    nodes: &dyn Nodes,
    properties: &dyn Properties,
) -> Result<Plan, NodeError> {
    let planner = Planner { owner: format!("companion {}", spec.id), nodes };
    match &spec.action {
        CompanionAction::Node { path, value, restore, bracketed } => {
            planner.nodes(path, value, restore.as_deref(), *bracketed)
        }
        CompanionAction::Property { name, value, restart } => {
            planner.property(name, value, restart.as_deref(), properties)
        }
        CompanionAction::MsmPerformance { path, vote } => planner.votes(path, *vote),
        CompanionAction::Wakelock {} => planner.wakelock(),
        CompanionAction::CpusOnline {} => planner.cpus_online(),
        CompanionAction::Boost {} => planner.boost(),
        CompanionAction::TopCpuset {} => planner.top_cpuset(),
        CompanionAction::SuspendCharging { path, stop, run } => planner.charging(path, stop, run),
    }
}

struct Planner<'a> {
    /// Apart from the names of knobs, which own restoring writes as well.
    owner: String,
    nodes: &'a dyn Nodes,
}

impl Planner<'_> {
    fn step(&self, target: Target, write: &str, check: Check) -> RestoreStep {
        let write = write.to_owned();
        RestoreStep { owner: self.owner.clone(), target, write, check, survives_reboot: false }
    }

    fn node(&self, path: &NodePath, write: &str, check: Check) -> RestoreStep {
        self.step(Target::Node(path.clone()), write, check)
    }

    fn nodes(
        &self,
        pattern: &str,
        value: &str,
        restore: Option<&str>,
        bracketed: bool,
    ) -> Result<Plan, NodeError> {
        let mut plan = Plan::default();
        for path in find_all(self.nodes, pattern)? {
            let now = read_trimmed(self.nodes, &path)?;
            let (now, check): (String, fn(&str) -> Check) = match bracketed {
                true => (chosen(&path, &now)?, |word| Check::Contains(format!("[{word}]"))),
                false => (now, |text| Check::Text(text.to_owned())),
            };
            if now != value {
                plan.saves.push(self.node(&path, restore.unwrap_or(&now), check(&now)));
                plan.writes.push(self.node(&path, value, check(value)));
            }
        }
        Ok(plan)
    }

    fn property(
        &self,
        name: &str,
        value: &str,
        restart: Option<&str>,
        properties: &dyn Properties,
    ) -> Result<Plan, NodeError> {
        let now = properties.get(name)?;
        if now == value {
            return Ok(Plan::default());
        }
        let set = |value: &str| {
            let target = Target::Property(name.to_owned());
            let survives_reboot = name.starts_with("persist.");
            RestoreStep { survives_reboot, ..self.step(target, value, Check::Text(value.to_owned())) }
        };
        // The service reads the property when it starts. What was set cannot be read back from `ctl.restart`.
        let restarted =
            restart.map(|name| self.step(Target::Property("ctl.restart".into()), name, Check::Nothing));
        let both = |value: &str| [set(value)].into_iter().chain(restarted.clone()).collect();
        Ok(Plan { saves: both(&now), writes: both(value) })
    }

    /// `0:300000 1:300000 ...`: every CPU's vote is withdrawn. A trailing space would be malformed.
    fn votes(&self, pattern: &str, vote: u64) -> Result<Plan, NodeError> {
        let path = find_one(self.nodes, pattern)?;
        let now = read_trimmed(self.nodes, &path)?;
        let withdrawn: Vec<String> = now
            .split_whitespace()
            .filter_map(|pair| Some(format!("{}:{vote}", pair.split_once(':')?.0)))
            .collect();
        let withdrawn = withdrawn.join(" ");
        match withdrawn.is_empty() {
            true => Err(silent(&path, &now, "pairs of cpu:kHz")),
            false => Ok(self.one(&path, &now, &withdrawn)),
        }
    }

    fn one(&self, path: &NodePath, now: &str, value: &str) -> Plan {
        let write = |text: &str| vec![self.node(path, text, Check::Text(text.to_owned()))];
        match now == value {
            true => Plan::default(),
            false => Plan { saves: write(now), writes: write(value) },
        }
    }

    fn wakelock(&self) -> Result<Plan, NodeError> {
        let path = NodePath::fixed("/sys/power/wake_lock");
        read_trimmed(self.nodes, &path)?;
        Ok(Plan {
            saves: vec![self.step(Target::Wakelock(WAKELOCK.into()), "", Check::Nothing)],
            writes: vec![self.node(&path, WAKELOCK, Check::Contains(WAKELOCK.into()))],
        })
    }

    /// A kernel without hotplug has no such nodes and nothing to bring online.
    fn cpus_online(&self) -> Result<Plan, NodeError> {
        let all = find_all(self.nodes, "/sys/devices/system/cpu/cpu*/online").unwrap_or_default();
        let offline: Vec<NodePath> = all
            .into_iter()
            .filter(|path| read_trimmed(self.nodes, path).is_ok_and(|now| now == "0"))
            .collect();
        let write = |value: &str| -> Vec<RestoreStep> {
            offline.iter().map(|path| self.node(path, value, Check::Text(value.to_owned()))).collect()
        };
        Ok(Plan { saves: write("0"), writes: write("1") })
    }

    /// The limits behind the switch in one plan: an owner's steps are written in order, so that whatever the
    /// switch resets is right in the end.
    fn boost(&self) -> Result<Plan, NodeError> {
        let switch = NodePath::fixed("/sys/devices/system/cpu/cpufreq/boost");
        let now = read_trimmed(self.nodes, &switch)?;
        if now == "1" {
            return Ok(Plan::default());
        }
        let limits = cpufreq_limits(self.nodes)?;
        let own = |step: &RestoreStep| RestoreStep { owner: self.owner.clone(), ..step.clone() };
        let with = |value: &str| {
            let switched = self.node(&switch, value, Check::Text(value.to_owned()));
            [switched].into_iter().chain(limits.iter().map(own)).collect()
        };
        Ok(Plan { saves: with(&now), writes: with("1") })
    }

    /// Membership of a cpuset ends with the process, so there is nothing to save.
    fn top_cpuset(&self) -> Result<Plan, NodeError> {
        let cpuset = cpuset(self.nodes)?;
        let id = std::process::id().to_string();
        let writes = match cpuset.home(self.nodes)? == cpuset.mount {
            true => Vec::new(),
            false => vec![self.node(&cpuset.mount.join("cgroup.procs"), &id, Check::Nothing)],
        };
        Ok(Plan { saves: Vec::new(), writes })
    }

    fn charging(&self, pattern: &str, stop: &str, run: &str) -> Result<Plan, NodeError> {
        let path = find_one(self.nodes, pattern)?;
        // Some switches cannot be read; the gauge is what verifies them anyway.
        let now = read_trimmed(self.nodes, &path).unwrap_or_default();
        let check = if now == run { Check::Text(now) } else { Check::Nothing };
        Ok(Plan {
            saves: vec![self.node(&path, run, check)],
            writes: vec![self.node(&path, stop, Check::Nothing)],
        })
    }
}

/// Where this process still is, if that is not the top cpuset.
///
/// # Errors
/// When the hierarchy cannot be read.
pub(super) fn below_top_cpuset(nodes: &dyn Nodes) -> Result<Option<NodePath>, NodeError> {
    let cpuset = cpuset(nodes)?;
    Ok(Some(cpuset.home(nodes)?).filter(|home| *home != cpuset.mount))
}

fn cpuset(nodes: &dyn Nodes) -> Result<Hierarchy, NodeError> {
    with_controller(nodes, "cpuset")?.ok_or_else(|| NodeError {
        op: "find".into(),
        path: "/proc/mounts".into(),
        fault: NodeFault::NotFound,
        detail: "no mounted cgroup hierarchy has the cpuset controller".into(),
    })
}

/// The word in brackets of `always_on [adaptive] coarse_demand`.
fn chosen(path: &NodePath, text: &str) -> Result<String, NodeError> {
    let word = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    word.map(|(word, _)| word.to_owned())
        .ok_or_else(|| silent(path, text, "a list with one word in brackets"))
}

fn silent(path: &NodePath, text: &str, expected: &str) -> NodeError {
    NodeError {
        op: "read".into(),
        path: path.to_string(),
        fault: NodeFault::NoData,
        detail: format!("expected {expected}, found `{text}`"),
    }
}
