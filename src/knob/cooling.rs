//! Cooling devices: thermal drivers cap a clock at the N-th step below the top.
//!
//! Source: `drivers/thermal/cpufreq_cooling.c` and `devfreq_cooling.c`. State 0 is no cap.

use super::Limit;
use crate::sysfs::{NodePath, Nodes, read_trimmed, read_u64};
use crate::units::Opp;

const CLASS: &str = "/sys/class/thermal";

/// A cooling device and the operating points its states stand for.
#[derive(Clone, Debug)]
pub(super) struct Cooling {
    kind: String,
    state: NodePath,
    /// Fastest first; the index is the state.
    caps: Vec<Opp>,
}

impl Cooling {
    /// The cap in force, if there is one.
    pub fn limit(&self, nodes: &dyn Nodes) -> Option<Limit> {
        let state = read_u64(nodes, &self.state).ok().filter(|&state| state > 0)?;
        let max = self.caps.get(state as usize).or(self.caps.last()).copied()?;
        Some(Limit { source: self.kind.clone(), min: None, max: Some(max) })
    }
}

/// The `type` and directory of every cooling device.
pub(super) fn devices(nodes: &dyn Nodes) -> Vec<(String, NodePath)> {
    let class = NodePath::fixed(CLASS);
    let names = nodes.list(&class).unwrap_or_default();
    let found = names.iter().filter(|name| name.starts_with("cooling_device")).map(|name| class.join(name));
    found.filter_map(|dir| Some((read_trimmed(nodes, &dir.join("type")).ok()?, dir))).collect()
}

/// The device of `kind` with its states mapped to `opps` (slowest first). A device whose number of states
/// fits neither the whole table nor the table without `boost` counts its steps in some other way and is left
/// out: naming a wrong cap would be worse than naming none.
pub(super) fn map(nodes: &dyn Nodes, kind: &str, opps: &[Opp], boost: &[Opp]) -> Option<Cooling> {
    let (kind, dir) = devices(nodes).into_iter().find(|(found, _)| found == kind)?;
    let states = read_u64(nodes, &dir.join("max_state")).ok()? as usize;
    let fastest_first = |with_boost: bool| -> Vec<Opp> {
        opps.iter().rev().filter(|opp| with_boost || !boost.contains(opp)).copied().collect()
    };
    let caps =
        [fastest_first(true), fastest_first(false)].into_iter().find(|caps| caps.len() == states + 1)?;
    Some(Cooling { kind, state: dir.join("cur_state"), caps })
}

/// The cooling device of a CPU policy. Newer kernels name it after the policy's CPU (`cpufreq-cpu4`), older
/// ones number them in the order of registration (`thermal-cpufreq-1`), some by the policy's first CPU.
pub(super) fn of_policy(nodes: &dyn Nodes, policy: usize, policies: &[usize]) -> Option<String> {
    let kinds: Vec<String> = devices(nodes).into_iter().map(|(kind, _)| kind).collect();
    let modern = format!("cpufreq-cpu{policy}");
    if kinds.contains(&modern) {
        return Some(modern);
    }
    let mut numbers: Vec<usize> =
        kinds.iter().filter_map(|kind| kind.strip_prefix("thermal-cpufreq-")?.parse().ok()).collect();
    numbers.sort_unstable();
    let rank = policies.iter().position(|&p| p == policy)?;
    let number = match numbers == policies {
        true => policy,
        false => *numbers.get(rank).filter(|_| numbers.len() == policies.len())?,
    };
    Some(format!("thermal-cpufreq-{number}"))
}

/// The cooling device of the only GPU there is.
pub(super) fn of_gpu(nodes: &dyn Nodes) -> Option<String> {
    let mut kinds = devices(nodes).into_iter().map(|(kind, _)| kind);
    let first = kinds.by_ref().find(|kind| kind.starts_with("thermal-gpufreq-"))?;
    kinds.all(|kind| !kind.starts_with("thermal-gpufreq-")).then_some(first)
}
