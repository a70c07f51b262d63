//! MediaTek gpufreqv2 (`/proc/gpufreqv2`): one node takes a table index, -1 frees.
//!
//! Source: `gpufreq/v2/gpufreq_debug.c`. Garbage "succeeds", so only the read-back counts, and that is a
//! sentence whose wording changed between releases: `... index: 3/3` (GPU and stack), `... index: 3`,
//! `... enabled` with a `[03] freq: ...` line, or `... disabled`.

use super::gpufreq::{dump_rows, ged_clock, index_of, limit_rows};
use super::table::{Steps, describe, must_list, number_after};
use super::{Access, Glimpse, Knob, KnobError, KnobInfo, Residency};
use crate::guard::{Check, RestoreStep};
use crate::profile::KnobSpec;
use crate::sysfs::{NodePath, Nodes};
use crate::units::{Opp, OppUnit};

const FREE: &str = "-1";

/// A MediaTek GPU, second generation.
pub(super) struct GpufreqV2 {
    info: KnobInfo,
    dir: NodePath,
    node: NodePath,
    /// Index and frequency, as the driver lists them.
    rows: Vec<(usize, Opp)>,
}

/// Finds the interface below `node` and its table.
///
/// # Errors
/// [`KnobError::Rejected`] when it lists no table: an index means nothing without one.
pub(super) fn open(spec: &KnobSpec, node: &str, nodes: &dyn Nodes) -> Result<GpufreqV2, KnobError> {
    let access = Access::new(&spec.id, nodes);
    let dir = access.dir(node)?;
    let rows = working_table(&access, &dir);
    if rows.is_empty() {
        return Err(
            access.rejected("a table of operating points", format!("{dir} lists no working OPP table"))
        );
    }
    let opps = Steps::new(rows.iter().map(|(_, opp)| opp.0), 1).opps();
    let mut info = describe(spec, "gpufreq-v2", OppUnit::KiloHertz, opps);
    if rows.len() > info.opps.len() {
        let twice = rows.len() - info.opps.len();
        info.table_notes
            .push(format!("{twice} steps repeat a frequency at another voltage; the first is used"));
    }
    Ok(GpufreqV2 { info, node: dir.join("fix_target_opp_index"), dir, rows })
}

/// On parts with two clocks the index counts the stack's table (the shaders).
fn working_table(access: &Access, dir: &NodePath) -> Vec<(usize, Opp)> {
    let read = |name| dump_rows(&access.optional(&dir.join(name)));
    let stack = read("stack_working_opp_table");
    if stack.is_empty() { read("gpu_working_opp_table") } else { stack }
}

/// The fixed index in the driver's sentence; `Some(None)` when it runs free.
fn parse_index(text: &str) -> Option<Option<usize>> {
    if text.contains("disabled") {
        return Some(None);
    }
    let told = number_after(text, "index").map(|index| index as usize);
    told.or_else(|| text.lines().find_map(index_of)).map(Some)
}

impl GpufreqV2 {
    fn opp(&self, index: usize) -> Option<Opp> {
        self.rows.iter().find(|(listed, _)| *listed == index).map(|(_, opp)| *opp)
    }

    fn fixed(&self, access: &Access) -> Result<Option<usize>, KnobError> {
        let text = access.text(&self.node)?;
        parse_index(&text)
            .ok_or_else(|| access.unreadable(&self.node, &text, "`... disabled` or a sentence with an index"))
    }

    /// The running step by `gpufreq_status`; nothing while the power to the GPU is cut.
    fn clock(&self, access: &Access) -> Option<Opp> {
        let status = access.optional(&self.dir.join("gpufreq_status"));
        if status.contains("BUCK: 0") {
            return None;
        }
        let is_step = |line: &&str| line.split(']').next().is_some_and(|head| head.ends_with(" OPP"));
        let row = status.lines().rev().find(is_step);
        row.and_then(|line| number_after(line, "Freq")).map(Opp).or_else(|| ged_clock(access))
    }
}

impl Knob for GpufreqV2 {
    fn info(&self) -> &KnobInfo {
        &self.info
    }

    fn snapshot(&self, nodes: &dyn Nodes) -> Result<Vec<RestoreStep>, KnobError> {
        let access = Access::new(&self.info.id, nodes);
        Ok(vec![match self.fixed(&access)? {
            None => access.step(&self.node, FREE, Check::Contains("disabled".into())),
            Some(index) => access.step(&self.node, index.to_string(), Check::FirstNumber(index as i64)),
        }])
    }

    fn pin(&mut self, nodes: &dyn Nodes, opp: Opp) -> Result<Opp, KnobError> {
        let access = Access::new(&self.info.id, nodes);
        let asked = must_list(&access, &self.info, opp)?;
        let index = self.rows.iter().find(|(_, listed)| *listed == opp).map_or(0, |(index, _)| *index);
        access.write(&self.node, &index.to_string(), &asked)?;
        match self.fixed(&access)? {
            Some(fixed) if fixed == index => Ok(opp),
            Some(other) => Err(access.did_not_stick(&asked, format!("index {other}, wanted {index}"))),
            None => Err(access.did_not_stick(&asked, "free running")),
        }
    }

    fn glimpse(&self, nodes: &dyn Nodes) -> Glimpse {
        let access = Access::new(&self.info.id, nodes);
        let whole = self.info.opps.first().copied().zip(self.info.opps.last().copied());
        let range = match self.fixed(&access) {
            Ok(Some(index)) => self.opp(index).map(|opp| (opp, opp)),
            Ok(None) => whole,
            Err(_) => None,
        };
        let table = access.optional(&self.dir.join("limit_table"));
        Glimpse { clock: self.clock(&access), range, limits: limit_rows(&table, |index| self.opp(index)) }
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

    const DIR: &str = "/proc/gpufreqv2";

    fn gpu(fake: &Fake) -> GpufreqV2 {
        let table = "[00] freq:  900000, volt: 1, vsram: 1\n[01] freq:  900000, volt: 0, vsram: 1\n\
                     [02] freq:  400000, volt: 1, vsram: 1\n";
        fake.text(&format!("{DIR}/gpu_working_opp_table"), table);
        fake.sentence(&format!("{DIR}/fix_target_opp_index"), "-1", |value| match value {
            "-1" => "[GPUFREQ-DEBUG] fix GPU/STACK OPP index is disabled\n".into(),
            index => format!("[GPUFREQ-DEBUG] fix GPU/STACK OPP index: {index}/{index}\n"),
        });
        open(&spec("gpu", DriverSpec::GpufreqV2 { node: DIR.into() }), DIR, fake).unwrap()
    }

    #[test]
    fn frequencies_are_pinned_by_index_and_verified_by_number() {
        let fake = Fake::default();
        let mut knob = gpu(&fake);
        assert_eq!(knob.info.opps, [Opp(400_000), Opp(900_000)]);
        assert_eq!(knob.info.table_notes.len(), 1, "the repeated frequency is told");
        assert_eq!(knob.glimpse(&fake).range, Some((Opp(400_000), Opp(900_000))));
        assert_eq!(knob.pin(&fake, Opp(400_000)).unwrap(), Opp(400_000));
        assert_eq!(fake.last_write(&format!("{DIR}/fix_target_opp_index")), "2");
        assert_eq!(knob.snapshot(&fake).unwrap()[0].check, Check::FirstNumber(2));
        assert_eq!(knob.glimpse(&fake).range, Some((Opp(400_000), Opp(400_000))));
    }

    #[test]
    fn a_write_that_succeeds_and_does_nothing_is_noticed() {
        let fake = Fake::default();
        let mut knob = gpu(&fake);
        fake.ignore_writes(&format!("{DIR}/fix_target_opp_index"));
        assert!(matches!(knob.pin(&fake, Opp(900_000)), Err(KnobError::DidNotStick { .. })));
    }

    #[test]
    fn every_wording_of_the_driver_is_understood() {
        assert_eq!(parse_index("[GPUFREQ-DEBUG] fix GPU/STACK OPP index: 3/3"), Some(Some(3)));
        assert_eq!(parse_index("[GPUFREQ-DEBUG] fix OPP index: 12"), Some(Some(12)));
        let listed = "[GPUFREQ-DEBUG] fixed OPP index is enabled\n[07] freq: 1, volt: 2, vsram: 3";
        assert_eq!(parse_index(listed), Some(Some(7)));
        assert_eq!(parse_index("[GPUFREQ-DEBUG] fixed OPP index is disabled"), Some(None));
        assert_eq!(parse_index("current index: 0/0"), Some(Some(0)));
        assert_eq!(parse_index("what?"), None);
    }

    #[test]
    fn the_clock_is_the_shaders_while_there_is_power() {
        let fake = Fake::default();
        let knob = gpu(&fake);
        let status = "[GPU   OPP]      Index:  0, Freq:  500000, Volt: 1\n\
                      [STACK OPP]      Index:  2, Freq:  400000, Volt: 1\n\
                      [GPU   REALOPP]  FmeterFreq: 1, Con1Freq: 1\n[Power State] PowerCount: 1, BUCK: 1\n";
        fake.text(&format!("{DIR}/gpufreq_status"), status);
        assert_eq!(knob.glimpse(&fake).clock, Some(Opp(400_000)));
        fake.text(&format!("{DIR}/gpufreq_status"), &status.replace("BUCK: 1", "BUCK: 0"));
        assert_eq!(knob.glimpse(&fake).clock, None);
    }
}
