//! Qualcomm bus_dcvs (DDR, LLCC, L3), in kHz: one minimum and maximum in every monitor of the bus.
//!
//! Pinning a bus means pinning each monitor, since each of them votes. One latency-floor monitor of newer
//! parts re-asserts its minimum; the watch of the run notices that as contention.

use super::bounds::Bounds;
use super::table::{Steps, describe, listed_or_prior, must_list};
use super::{Access, Glimpse, Knob, KnobError, KnobInfo, Residency};
use crate::guard::RestoreStep;
use crate::profile::KnobSpec;
use crate::sysfs::{NodePath, Nodes};
use crate::units::{Opp, OppUnit};

/// A bus.
pub(super) struct BusDcvs {
    info: KnobInfo,
    dir: NodePath,
    steps: Steps,
    monitors: Vec<Bounds>,
}

/// Finds the bus below `node`, its table and its monitors.
///
/// # Errors
/// [`KnobError::Unavailable`] when no monitor has a pair of bounds.
pub(super) fn open(spec: &KnobSpec, node: &str, nodes: &dyn Nodes) -> Result<BusDcvs, KnobError> {
    let access = Access::new(&spec.id, nodes);
    let dir = access.dir(node)?;
    let steps = Steps::new(listed_or_prior(&access, spec, &dir, "available_frequencies")?, 1);
    let monitors = monitors(nodes, &dir, steps.lowest());
    if monitors.is_empty() {
        return Err(access.gone(format!("no monitor below {dir} has min_freq and max_freq")));
    }
    let info = describe(spec, "bus-dcvs", OppUnit::KiloHertz, steps.opps());
    Ok(BusDcvs { info, dir, steps, monitors })
}

fn monitors(nodes: &dyn Nodes, dir: &NodePath, floor: u64) -> Vec<Bounds> {
    let names = nodes.list(dir).unwrap_or_default();
    let bounds = names.iter().map(|name| Bounds::below(&dir.join(name), "min_freq", "max_freq", floor));
    bounds.filter(|b| nodes.exists(&b.min) && nodes.exists(&b.max)).collect()
}

impl Knob for BusDcvs {
    fn info(&self) -> &KnobInfo {
        &self.info
    }

    fn snapshot(&self, nodes: &dyn Nodes) -> Result<Vec<RestoreStep>, KnobError> {
        let access = Access::new(&self.info.id, nodes);
        let saved: Result<Vec<_>, _> =
            self.monitors.iter().map(|m| m.snapshot(&access, &self.steps, None)).collect();
        Ok(saved?.into_iter().flatten().collect())
    }

    fn pin(&mut self, nodes: &dyn Nodes, opp: Opp) -> Result<Opp, KnobError> {
        let access = Access::new(&self.info.id, nodes);
        let asked = must_list(&access, &self.info, opp)?;
        let pin = |monitor: &Bounds| monitor.pin(&access, opp.0, &self.steps, &asked).map(drop);
        self.monitors.iter().try_for_each(pin).map(|()| opp)
    }

    /// The range is the widest over the monitors, so that one rewritten monitor shows.
    fn glimpse(&self, nodes: &dyn Nodes) -> Glimpse {
        let access = Access::new(&self.info.id, nodes);
        let ranges: Option<Vec<(Opp, Opp)>> =
            self.monitors.iter().map(|m| m.range(&access, &self.steps)).collect();
        let widest = ranges.and_then(|ranges| {
            let min = ranges.iter().map(|range| range.0).min()?;
            Some((min, ranges.iter().map(|range| range.1).max()?))
        });
        let clock = access.positive(&self.dir.join("cur_freq")).map(Opp);
        Glimpse { clock, range: widest, limits: Vec::new() }
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

    const DIR: &str = "/sys/devices/system/cpu/bus_dcvs/DDR";

    #[test]
    fn every_monitor_is_pinned_and_a_rewritten_one_shows() {
        let fake = Fake::default();
        fake.text(&format!("{DIR}/available_frequencies"), "547000 2092000 4224000");
        fake.text(&format!("{DIR}/boost_freq"), "0");
        let node = |monitor: &str, name: &str| format!("{DIR}/soc:qcom,memlat:ddr:{monitor}/{name}");
        for monitor in ["gold", "prime"] {
            fake.pair(&node(monitor, "min_freq"), &node(monitor, "max_freq"), 547_000, 4_224_000, false);
        }
        let mut knob = open(&spec("ddr", DriverSpec::BusDcvs { node: DIR.into() }), DIR, &fake).unwrap();
        assert_eq!(knob.snapshot(&fake).unwrap().len(), 6);
        knob.pin(&fake, Opp(2_092_000)).unwrap();
        assert_eq!(knob.glimpse(&fake).range, Some((Opp(2_092_000), Opp(2_092_000))));
        let path = NodePath::new(node("prime", "min_freq")).unwrap();
        fake.write(&path, "547000").unwrap();
        assert_eq!(knob.glimpse(&fake).range, Some((Opp(547_000), Opp(2_092_000))));
    }
}
