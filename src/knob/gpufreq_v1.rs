//! MediaTek gpufreq, first generation (`/proc/gpufreq`): one node takes a table value in kHz, 0 frees.
//!
//! Source: `mt_gpufreq_core.c` of 4.x trees. The read is a sentence: `... disabled`, or a line with
//! `freq = <kHz>`.

use super::gpufreq::{dump_rows, ged_clock};
use super::table::{Steps, describe, must_list, number_after, prior_instead};
use super::{Access, Glimpse, Knob, KnobError, KnobInfo, Residency};
use crate::guard::{Check, RestoreStep};
use crate::profile::KnobSpec;
use crate::sysfs::{NodePath, Nodes};
use crate::units::{Opp, OppUnit};

const FREE: &str = "0";

/// A MediaTek GPU, first generation.
pub(super) struct GpufreqV1 {
    info: KnobInfo,
    node: NodePath,
}

/// Finds the interface below `node` and its table.
///
/// # Errors
/// [`KnobError::Unavailable`] when it is not there.
pub(super) fn open(spec: &KnobSpec, node: &str, nodes: &dyn Nodes) -> Result<GpufreqV1, KnobError> {
    let access = Access::new(&spec.id, nodes);
    let dir = access.dir(node)?;
    let rows = dump_rows(&access.optional(&dir.join("gpufreq_opp_dump")));
    let listed = match rows.is_empty() {
        false => rows.into_iter().map(|(_, opp)| opp.0).collect(),
        true => prior_instead(&access, spec, dir.as_str())?,
    };
    let info = describe(spec, "gpufreq-v1", OppUnit::KiloHertz, Steps::new(listed, 1).opps());
    Ok(GpufreqV1 { info, node: dir.join("gpufreq_opp_freq") })
}

impl GpufreqV1 {
    /// The fixed frequency; `None` when it is free.
    fn fixed(&self, access: &Access) -> Result<Option<Opp>, KnobError> {
        let text = access.text(&self.node)?;
        match (number_after(&text, "freq"), text.contains("disabled")) {
            (Some(khz), false) => Ok(Some(Opp(khz))),
            (_, true) => Ok(None),
            (None, false) => Err(access.unreadable(&self.node, &text, "`disabled` or `freq = <kHz>`")),
        }
    }
}

impl Knob for GpufreqV1 {
    fn info(&self) -> &KnobInfo {
        &self.info
    }

    fn snapshot(&self, nodes: &dyn Nodes) -> Result<Vec<RestoreStep>, KnobError> {
        let access = Access::new(&self.info.id, nodes);
        Ok(vec![match self.fixed(&access)? {
            None => access.step(&self.node, FREE, Check::Contains("disabled".into())),
            Some(Opp(khz)) => access.step(&self.node, khz.to_string(), Check::Contains(khz.to_string())),
        }])
    }

    fn pin(&mut self, nodes: &dyn Nodes, opp: Opp) -> Result<Opp, KnobError> {
        let access = Access::new(&self.info.id, nodes);
        let asked = must_list(&access, &self.info, opp)?;
        access.write(&self.node, &opp.0.to_string(), &asked)?;
        match self.fixed(&access)? {
            Some(fixed) if fixed == opp => Ok(opp),
            Some(other) => Err(access.did_not_stick(&asked, other.show(self.info.unit))),
            None => Err(access.did_not_stick(&asked, "free running")),
        }
    }

    fn glimpse(&self, nodes: &dyn Nodes) -> Glimpse {
        let access = Access::new(&self.info.id, nodes);
        let whole = self.info.opps.first().copied().zip(self.info.opps.last().copied());
        let fixed = self.fixed(&access).ok();
        let range = fixed.and_then(|fixed| fixed.map(|opp| (opp, opp)).or(whole));
        Glimpse { clock: ged_clock(&access), range, limits: Vec::new() }
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

    #[test]
    fn sentences_are_read_as_numbers() {
        let fake = Fake::default();
        fake.text(
            "/proc/gpufreq/gpufreq_opp_dump",
            "[0] freq = 900000, volt = 1\n[1] freq = 400000, volt = 2\n",
        );
        fake.sentence("/proc/gpufreq/gpufreq_opp_freq", "0", |value| match value {
            "0" => "gpufreq keep opp frequency disabled\n".into(),
            khz => format!("gpufreq keep opp frequency enabled\nfreq = {khz}\nvolt = 1\n"),
        });
        let driver = DriverSpec::GpufreqV1 { node: "/proc/gpufreq".into() };
        let mut knob = open(&spec("gpu", driver), "/proc/gpufreq", &fake).unwrap();
        assert_eq!(knob.info.opps, [Opp(400_000), Opp(900_000)]);
        assert_eq!(knob.snapshot(&fake).unwrap()[0].write, "0");
        assert_eq!(knob.pin(&fake, Opp(900_000)).unwrap(), Opp(900_000));
        assert_eq!(knob.glimpse(&fake).range, Some((Opp(900_000), Opp(900_000))));
        assert_eq!(knob.snapshot(&fake).unwrap()[0].check, Check::Contains("900000".into()));
    }
}
