//! The memory interface of Pixel and Exynos phones (devfreq_mif), in kHz.
//!
//! Source: `gs-devfreq.c`. Which pair of nodes exists differs: the debug pair that vendor test scripts use, or
//! `scaling_devfreq_min` with a `scaling_devfreq_max` (Samsung) or `max_freq` (Pixel) beside it. They show the
//! request, not what is in force; memory-latency governors vote too, so the clock itself is what counts.

use super::bounds::Bounds;
use super::table::{Steps, describe, listed_or_prior, must_list, residency_rows};
use super::{Access, Glimpse, Knob, KnobError, KnobInfo, Residency};
use crate::guard::RestoreStep;
use crate::profile::KnobSpec;
use crate::sysfs::{NodePath, Nodes};
use crate::units::{Opp, OppUnit};

/// Pairs of nodes that bound the clock, best first.
const PAIRS: [(&str, &str); 3] = [
    ("exynos_data/debug_scaling_devfreq_min", "exynos_data/debug_scaling_devfreq_max"),
    ("scaling_devfreq_min", "scaling_devfreq_max"),
    ("scaling_devfreq_min", "max_freq"),
];

/// The memory interface.
pub(super) struct Mif {
    info: KnobInfo,
    clock: NodePath,
    time_in_state: NodePath,
    steps: Steps,
    bounds: Bounds,
}

/// Finds the device below `node`, its table and its pair.
///
/// # Errors
/// [`KnobError::Unavailable`] when no pair is there.
pub(super) fn open(spec: &KnobSpec, node: &str, nodes: &dyn Nodes) -> Result<Mif, KnobError> {
    let access = Access::new(&spec.id, nodes);
    let dir = access.dir(node)?;
    let steps = Steps::new(listed_or_prior(&access, spec, &dir, "available_frequencies")?, 1);
    let info = describe(spec, "mif", OppUnit::KiloHertz, steps.opps());
    let there = |(min, max): &&(&str, &str)| nodes.exists(&dir.join(min)) && nodes.exists(&dir.join(max));
    let (min, max) = PAIRS
        .iter()
        .find(there)
        .ok_or_else(|| access.gone(format!("{dir} has no pair of nodes that bounds its clock")))?;
    let bounds = Bounds::below(&dir, min, max, steps.lowest());
    let (clock, time_in_state) = (dir.join("cur_freq"), dir.join("time_in_state"));
    Ok(Mif { info, clock, time_in_state, steps, bounds })
}

impl Knob for Mif {
    fn info(&self) -> &KnobInfo {
        &self.info
    }

    fn snapshot(&self, nodes: &dyn Nodes) -> Result<Vec<RestoreStep>, KnobError> {
        self.bounds.snapshot(&Access::new(&self.info.id, nodes), &self.steps, None)
    }

    fn pin(&mut self, nodes: &dyn Nodes, opp: Opp) -> Result<Opp, KnobError> {
        let access = Access::new(&self.info.id, nodes);
        let asked = must_list(&access, &self.info, opp)?;
        self.bounds.pin(&access, opp.0, &self.steps, &asked)
    }

    fn glimpse(&self, nodes: &dyn Nodes) -> Glimpse {
        let access = Access::new(&self.info.id, nodes);
        Glimpse {
            clock: access.positive(&self.clock).map(Opp),
            range: self.bounds.range(&access, &self.steps),
            limits: Vec::new(),
        }
    }

    fn residency(&self, nodes: &dyn Nodes) -> Option<Residency> {
        residency_rows(&nodes.read(&self.time_in_state).ok()?, &self.steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knob::fake::{Fake, spec};
    use crate::profile::DriverSpec;

    const DIR: &str = "/sys/class/devfreq/17000010.devfreq_mif";

    #[test]
    fn the_best_pair_that_is_there_is_used() {
        let pattern = "/sys/class/devfreq/*.devfreq_mif";
        for (min, max) in PAIRS {
            let fake = Fake::default();
            fake.text(&format!("{DIR}/available_frequencies"), "3172000 421000 \n");
            fake.pair(&format!("{DIR}/{min}"), &format!("{DIR}/{max}"), 421_000, 3_172_000, false);
            let mut knob =
                open(&spec("mif", DriverSpec::Mif { node: pattern.into() }), pattern, &fake).unwrap();
            assert_eq!(knob.pin(&fake, Opp(421_000)).unwrap(), Opp(421_000));
            assert_eq!(fake.last_write(&format!("{DIR}/{max}")), "421000");
        }
    }
}
