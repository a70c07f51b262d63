//! Samsung Exynos GPUs (gpex, `/sys/kernel/gpu`), in kHz: a maximum and a minimum lock, 0 frees a lock.
//!
//! Source: `gpex_clock_sysfs.c`. Values off the table are rounded, unusable ones are ENOENT, and some kernels
//! raise a low maximum to a "sustainable" clock. The nodes show the lock in force (thermal and QoS lockers
//! merged in): a number, `in force / asked`, or -1 for none. A lock at the end of the table counts as none.

use super::table::{Steps, describe, listed_or_prior, must_list, residency_rows};
use super::{Access, Glimpse, Knob, KnobError, KnobInfo, Limit, Residency};
use crate::guard::{Check, RestoreStep};
use crate::profile::KnobSpec;
use crate::sysfs::{NodeFault, NodePath, Nodes};
use crate::units::{Opp, OppUnit};

const FREE: &str = "0";

/// An Exynos GPU.
pub(super) struct Gpex {
    info: KnobInfo,
    dir: NodePath,
    min: NodePath,
    max: NodePath,
    steps: Steps,
}

/// Finds the interface below `node` and its table.
///
/// # Errors
/// [`KnobError::Unavailable`] when it is not there.
pub(super) fn open(spec: &KnobSpec, node: &str, nodes: &dyn Nodes) -> Result<Gpex, KnobError> {
    let access = Access::new(&spec.id, nodes);
    let dir = access.dir(node)?;
    let steps = Steps::new(listed_or_prior(&access, spec, &dir, "gpu_freq_table")?, 1);
    let info = describe(spec, "gpex", OppUnit::KiloHertz, steps.opps());
    Ok(Gpex { info, min: dir.join("gpu_min_clock"), max: dir.join("gpu_max_clock"), dir, steps })
}

/// A lock as its node shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lock {
    /// The number printed first, -1 for none.
    shown: i64,
    /// What was asked for, where it is told apart.
    asked: i64,
}

fn parse_lock(text: &str) -> Option<Lock> {
    let mut values = text.split('/').map(|value| value.trim().parse::<i64>());
    let shown = values.next()?.ok()?;
    Some(Lock { shown, asked: values.next().and_then(Result::ok).unwrap_or(shown) })
}

impl Gpex {
    fn lock(&self, access: &Access, node: &NodePath) -> Result<Lock, KnobError> {
        let text = access.text(node)?;
        parse_lock(&text).ok_or_else(|| access.unreadable(node, &text, "kHz, `kHz / kHz` or -1"))
    }

    /// A lock's clock in force; no lock is the end of the table.
    fn in_force(&self, access: &Access, node: &NodePath, end: u64) -> Result<u64, KnobError> {
        let lock = self.lock(access, node)?;
        Ok(u64::try_from(lock.shown).ok().filter(|&khz| khz > 0).unwrap_or(end))
    }

    fn range(&self, access: &Access) -> Result<(Opp, Opp), KnobError> {
        let min = self.in_force(access, &self.min, self.steps.lowest())?;
        let max = self.in_force(access, &self.max, self.steps.highest())?;
        Ok((Opp(min), Opp(max)))
    }

    fn restoring(&self, access: &Access, node: &NodePath, end: u64) -> Result<RestoreStep, KnobError> {
        let lock = self.lock(access, node)?;
        let free = lock.asked <= 0 || lock.asked == end as i64;
        let write = if free { FREE.to_owned() } else { lock.asked.to_string() };
        Ok(access.step(node, write, Check::FirstNumber(lock.shown)))
    }

    fn write(&self, access: &Access, node: &NodePath, value: &str, asked: &str) -> Result<(), KnobError> {
        access.nodes.write(node, value).map_err(|e| match e.fault {
            NodeFault::NotFound if access.nodes.exists(node) => {
                access.rejected(asked, "the driver has no such clock (ENOENT)")
            }
            _ => access.write_failed(e, asked),
        })
    }

    fn pin_once(&self, access: &Access, opp: Opp, asked: &str) -> Result<Opp, KnobError> {
        let value = opp.0.to_string();
        self.write(access, &self.min, FREE, asked)?;
        self.write(access, &self.max, &value, asked)?;
        self.write(access, &self.min, &value, asked)?;
        match self.range(access)? {
            range if range == (opp, opp) => Ok(opp),
            (min, max) => Err(access.did_not_stick(asked, format!("min {}, max {}", min.0, max.0))),
        }
    }
}

impl Knob for Gpex {
    fn info(&self) -> &KnobInfo {
        &self.info
    }

    fn snapshot(&self, nodes: &dyn Nodes) -> Result<Vec<RestoreStep>, KnobError> {
        let access = Access::new(&self.info.id, nodes);
        Ok(vec![
            access.step(&self.min, FREE, Check::Nothing),
            self.restoring(&access, &self.max, self.steps.highest())?,
            self.restoring(&access, &self.min, self.steps.lowest())?,
        ])
    }

    fn pin(&mut self, nodes: &dyn Nodes, opp: Opp) -> Result<Opp, KnobError> {
        let access = Access::new(&self.info.id, nodes);
        let asked = must_list(&access, &self.info, opp)?;
        self.pin_once(&access, opp, &asked).or_else(|_| self.pin_once(&access, opp, &asked))
    }

    fn glimpse(&self, nodes: &dyn Nodes) -> Glimpse {
        let access = Access::new(&self.info.id, nodes);
        let range = self.range(&access).ok();
        let limit =
            range.map(|(min, max)| Limit { source: "gpu_max_clock".into(), min: Some(min), max: Some(max) });
        let clock = access.positive(&self.dir.join("gpu_clock")).map(Opp);
        Glimpse { clock, range, limits: limit.into_iter().collect() }
    }

    fn residency(&self, nodes: &dyn Nodes) -> Option<Residency> {
        residency_rows(&nodes.read(&self.dir.join("time_in_state")).ok()?, &self.steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knob::fake::{Fake, spec};
    use crate::profile::DriverSpec;

    const DIR: &str = "/sys/kernel/gpu";

    fn gpu(fake: &Fake) -> Gpex {
        fake.text(&format!("{DIR}/gpu_freq_table"), "260000 598000 702000 \n");
        for node in ["gpu_min_clock", "gpu_max_clock"] {
            fake.sentence(&format!("{DIR}/{node}"), "0", |value| match value {
                "0" => "-1\n".into(),
                khz => format!("{khz} / {khz}\n"),
            });
        }
        open(&spec("gpu", DriverSpec::Gpex { node: DIR.into() }), DIR, fake).unwrap()
    }

    #[test]
    fn locks_are_set_read_and_freed() {
        let fake = Fake::default();
        let mut knob = gpu(&fake);
        let original = knob.snapshot(&fake).unwrap();
        assert_eq!(original[1].write, "0");
        assert_eq!(original[1].check, Check::FirstNumber(-1));
        for opp in knob.info.opps.clone() {
            assert_eq!(knob.pin(&fake, opp).unwrap(), opp);
            assert_eq!(knob.glimpse(&fake).range, Some((opp, opp)));
        }
    }

    #[test]
    fn no_such_clock_is_a_refusal_not_a_missing_node() {
        let fake = Fake::default();
        let mut knob = gpu(&fake);
        fake.fail_writes(&format!("{DIR}/gpu_max_clock"), libc::ENOENT);
        assert!(matches!(knob.pin(&fake, Opp(598_000)), Err(KnobError::Rejected { .. })));
    }

    #[test]
    fn every_form_of_a_lock_is_understood() {
        assert_eq!(parse_lock("848000 / 900000"), Some(Lock { shown: 848_000, asked: 900_000 }));
        assert_eq!(parse_lock("-1"), Some(Lock { shown: -1, asked: -1 }));
        assert_eq!(parse_lock("702000"), Some(Lock { shown: 702_000, asked: 702_000 }));
        assert_eq!(parse_lock("none"), None);
    }
}
