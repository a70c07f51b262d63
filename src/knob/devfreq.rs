//! Generic devfreq: GPUs and boards in Hz, Exynos in kHz, old Qualcomm buses in MB/s.
//!
//! Source: `drivers/devfreq/devfreq.c`. The nodes do not say their unit, so it is learned from the magnitude of
//! the table. Values need 64 bits (MediaTek DRAM lists 6400000000). Kernels before 5.5 refuse a minimum above
//! the maximum; later ones take anything and round limits to kHz.

use super::bounds::{Bounds, as_limit};
use super::cooling::{self, Cooling};
use super::table::{Steps, describe, must_list, numbers, residency_rows, trans_stat};
use super::{Access, Glimpse, Knob, KnobError, KnobInfo, Residency};
use crate::guard::RestoreStep;
use crate::profile::{DevfreqUnit, KnobSpec};
use crate::sysfs::{NodePath, Nodes};
use crate::units::{Opp, OppUnit};

/// A devfreq device.
pub(super) struct Devfreq {
    info: KnobInfo,
    dir: NodePath,
    steps: Steps,
    bounds: Bounds,
    cooling: Option<Cooling>,
}

/// Finds the device below `node` and its table; `stated` is the unit the profile expects.
///
/// # Errors
/// [`KnobError::Rejected`] when the unit cannot be learned, or is not the stated one.
pub(super) fn open(
    spec: &KnobSpec,
    node: &str,
    stated: Option<DevfreqUnit>,
    nodes: &dyn Nodes,
) -> Result<Devfreq, KnobError> {
    let access = Access::new(&spec.id, nodes);
    let dir = access.dir(node)?;
    let listed = numbers(&access.optional(&dir.join("available_frequencies")));
    let unit = unit(&access, &dir, &listed, stated)?;
    let listed = if listed.is_empty() { prior_in(spec, unit) } else { listed };
    let steps = Steps::new(listed, scale(unit));
    if steps.is_empty() {
        let why = format!("{dir} lists none and the profile has no `prior` for this knob; add one");
        return Err(access.rejected("a table of operating points", why));
    }
    let info = describe(spec, "devfreq", knob_unit(unit), steps.opps());
    let bounds = Bounds::below(&dir, "min_freq", "max_freq", steps.lowest());
    let cooling = cooling::map(nodes, &format!("devfreq-{}", dir.name()), &info.opps, &[]);
    Ok(Devfreq { info, dir, steps, bounds, cooling })
}

/// The unit learned from the largest value there is: no bus moves 100 GB/s, no clock that is worth a knob is
/// below 100 MHz or above 50 GHz.
fn learned(largest: u64) -> Option<DevfreqUnit> {
    match largest {
        0 => None,
        1..100_000 => Some(DevfreqUnit::MBps),
        100_000..50_000_000 => Some(DevfreqUnit::KHz),
        _ => Some(DevfreqUnit::Hz),
    }
}

fn unit(
    access: &Access,
    dir: &NodePath,
    listed: &[u64],
    stated: Option<DevfreqUnit>,
) -> Result<DevfreqUnit, KnobError> {
    let largest = listed.iter().copied().max().or_else(|| access.positive(&dir.join("cur_freq")));
    match (learned(largest.unwrap_or(0)), stated) {
        (Some(learned), Some(stated)) if learned != stated => Err(access.rejected(
            &format!("{stated:?} in {dir}"),
            format!(
                "its values (up to {}) are {learned:?}; correct `unit` in the profile",
                largest.unwrap_or(0)
            ),
        )),
        (Some(unit), _) | (None, Some(unit)) => Ok(unit),
        (None, None) => Err(access.rejected(
            "a unit",
            format!("{dir} shows no value to learn it from; state `unit` in the profile"),
        )),
    }
}

fn scale(unit: DevfreqUnit) -> u64 {
    match unit {
        DevfreqUnit::Hz => 1000,
        DevfreqUnit::KHz | DevfreqUnit::MBps => 1,
    }
}

fn knob_unit(unit: DevfreqUnit) -> OppUnit {
    match unit {
        DevfreqUnit::Hz | DevfreqUnit::KHz => OppUnit::KiloHertz,
        DevfreqUnit::MBps => OppUnit::MegaBytesPerSecond,
    }
}

/// The prior, which is in the knob's unit, in the node's.
fn prior_in(spec: &KnobSpec, unit: DevfreqUnit) -> Vec<u64> {
    spec.prior.iter().map(|opp| opp.0.saturating_mul(scale(unit))).collect()
}

impl Knob for Devfreq {
    fn info(&self) -> &KnobInfo {
        &self.info
    }

    fn snapshot(&self, nodes: &dyn Nodes) -> Result<Vec<RestoreStep>, KnobError> {
        let capped = self.cooling.as_ref().and_then(|cooling| cooling.limit(nodes));
        self.bounds.snapshot(&Access::new(&self.info.id, nodes), &self.steps, capped.as_ref())
    }

    fn pin(&mut self, nodes: &dyn Nodes, opp: Opp) -> Result<Opp, KnobError> {
        let access = Access::new(&self.info.id, nodes);
        let asked = must_list(&access, &self.info, opp)?;
        let raw = self.steps.raw(opp).unwrap_or(opp.0);
        self.bounds.pin(&access, raw, &self.steps, &asked)
    }

    fn glimpse(&self, nodes: &dyn Nodes) -> Glimpse {
        let access = Access::new(&self.info.id, nodes);
        let range = self.bounds.range(&access, &self.steps);
        let thermal = self.cooling.as_ref().and_then(|cooling| cooling.limit(nodes));
        Glimpse {
            clock: access.positive(&self.dir.join("cur_freq")).map(|raw| self.steps.opp(raw)),
            range,
            limits: as_limit("max_freq", range).into_iter().chain(thermal).collect(),
        }
    }

    fn residency(&self, nodes: &dyn Nodes) -> Option<Residency> {
        let read = |name| nodes.read(&self.dir.join(name)).ok();
        let rows = read("time_in_state").and_then(|text| residency_rows(&text, &self.steps));
        rows.or_else(|| trans_stat(&read("trans_stat")?, &self.steps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knob::fake::{Fake, spec};
    use crate::profile::DriverSpec;

    const DIR: &str = "/sys/class/devfreq/gpu";

    fn device(fake: &Fake, table: &str, unit: Option<DevfreqUnit>) -> Result<Devfreq, KnobError> {
        fake.text(&format!("{DIR}/available_frequencies"), table);
        open(&spec("gpu", DriverSpec::Devfreq { node: DIR.into(), unit }), DIR, unit, fake)
    }

    #[test]
    fn the_unit_is_learned_from_the_table_and_checked_against_the_profile() {
        let fake = Fake::default();
        for (table, unit, first) in [
            ("200000000 1000000000", OppUnit::KiloHertz, 200_000),
            ("800000000 6400000000", OppUnit::KiloHertz, 800_000),
            ("421000 3172000", OppUnit::KiloHertz, 421_000),
            ("762 12784", OppUnit::MegaBytesPerSecond, 762),
        ] {
            let knob = device(&fake, table, None).unwrap();
            assert_eq!((knob.info.unit, knob.info.opps[0]), (unit, Opp(first)), "{table}");
        }
        let wrong = device(&fake, "421000 3172000", Some(DevfreqUnit::Hz)).err().unwrap().to_string();
        assert!(wrong.contains("correct `unit`"), "{wrong}");
    }

    #[test]
    fn without_a_list_the_prior_is_used_and_without_both_it_is_refused() {
        let fake = Fake::default();
        assert!(matches!(device(&fake, "", Some(DevfreqUnit::Hz)), Err(KnobError::Rejected { .. })));
        let mut with_prior = spec("gpu", DriverSpec::Devfreq { node: DIR.into(), unit: None });
        with_prior.prior = vec![Opp(300_000)];
        let knob = open(&with_prior, DIR, Some(DevfreqUnit::Hz), &fake).unwrap();
        assert_eq!(knob.steps.raw(Opp(300_000)), Some(300_000_000));
    }

    #[test]
    fn a_pin_speaks_the_unit_of_the_node() {
        let fake = Fake::default();
        fake.pair(&format!("{DIR}/min_freq"), &format!("{DIR}/max_freq"), 200_000_000, 6_400_000_000, true);
        fake.text(&format!("{DIR}/cur_freq"), "6400000000");
        let mut knob = device(&fake, "6400000000 200000000 ", None).unwrap();
        assert_eq!(knob.pin(&fake, Opp(6_400_000)).unwrap(), Opp(6_400_000));
        assert_eq!(fake.last_write(&format!("{DIR}/max_freq")), "6400000000");
        assert_eq!(knob.pin(&fake, Opp(200_000)).unwrap(), Opp(200_000));
        assert_eq!(knob.glimpse(&fake).clock, Some(Opp(6_400_000)));
    }
}
