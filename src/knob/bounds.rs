//! A minimum and a maximum node that bound a clock: the shape of most families.
//!
//! One order of writes is right for every driver of this shape: open the minimum, set the maximum, raise the
//! minimum. Kernels up to 5.2 refuse a minimum above the maximum (EINVAL), newer ones clip it silently and
//! remember it (`drivers/cpufreq/cpufreq.c`, freq QoS), Pixel Mali resets the other lock; with this order no
//! step ever asks for a minimum above the maximum.

use super::table::Steps;
use super::{Access, KnobError, Limit};
use crate::guard::{Check, RestoreStep};
use crate::sysfs::NodePath;
use crate::units::Opp;

/// Immediate re-reads before a value counts as not kept: drivers that apply a limit in a worker need a moment.
const READ_BACKS: usize = 3;

/// The pair, with the value that opens its minimum (in the nodes' unit).
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    pub min: NodePath,
    pub max: NodePath,
    pub floor: u64,
}

impl Bounds {
    /// The pair `min` and `max` below `dir`.
    pub fn below(dir: &NodePath, min: &str, max: &str, floor: u64) -> Self {
        Bounds { min: dir.join(min), max: dir.join(max), floor }
    }

    /// Writes that put the pair back to what it is now. Nodes that show effective limits hide what was asked
    /// while a cooling device holds the maximum at `capped`: the top of the table is asked for then, so that a
    /// device taken warm does not stay slow when it has cooled.
    pub fn snapshot(
        &self,
        access: &Access,
        steps: &Steps,
        capped: Option<&Limit>,
    ) -> Result<Vec<RestoreStep>, KnobError> {
        let (min, max) = (access.number(&self.min)?, access.number(&self.max)?);
        let text = |value: u64| Check::Text(value.to_string());
        let (back_to, check) = match capped.is_some_and(|limit| limit.max == Some(steps.opp(max))) {
            true => (steps.highest(), Check::Nothing),
            false => (max, text(max)),
        };
        // A hidden request may survive in the driver, so both are written even if one already reads right.
        Ok(vec![
            access.step(&self.min, self.floor.min(min).to_string(), Check::Nothing),
            access.step(&self.max, back_to.to_string(), check),
            access.step(&self.min, min.to_string(), text(min)),
        ])
    }

    /// Pins both nodes at `raw` and reads them back; tries the whole sequence twice, because a writer that
    /// came in between is common on phones.
    pub fn pin(&self, access: &Access, raw: u64, steps: &Steps, asked: &str) -> Result<Opp, KnobError> {
        match self.pin_once(access, raw, steps, asked) {
            Ok(opp) => Ok(opp),
            Err(_) => self.pin_once(access, raw, steps, asked),
        }
    }

    fn pin_once(&self, access: &Access, raw: u64, steps: &Steps, asked: &str) -> Result<Opp, KnobError> {
        let want = steps.opp(raw);
        let writes = [(&self.min, self.floor), (&self.max, raw), (&self.min, raw)];
        let written =
            writes.iter().try_for_each(|(node, value)| access.write(node, &value.to_string(), asked));
        let (min, max) = self.read_back(access, want, steps)?;
        match written {
            Ok(()) if (min, max) == (want, want) => Ok(want),
            // Kernels up to 5.2 refuse the minimum while somebody else holds the maximum below it: that is a
            // clamp, which passes, and no refusal of the value.
            Err(error) if max >= want || !matches!(error, KnobError::Rejected { .. }) => Err(error),
            _ => Err(access.did_not_stick(asked, format!("min {}, max {}", min.0, max.0))),
        }
    }

    /// Both bounds, as soon as they are at `want`, else as they read in the end.
    fn read_back(&self, access: &Access, want: Opp, steps: &Steps) -> Result<(Opp, Opp), KnobError> {
        let read = || Ok((steps.opp(access.number(&self.min)?), steps.opp(access.number(&self.max)?)));
        let mut found = read()?;
        for _ in 1..READ_BACKS {
            if found != (want, want) {
                found = read()?;
            }
        }
        Ok(found)
    }

    /// The pair as it reads now.
    pub fn range(&self, access: &Access, steps: &Steps) -> Option<(Opp, Opp)> {
        let read = |node| access.number(node).ok().map(|raw| steps.opp(raw));
        read(&self.min).zip(read(&self.max))
    }
}

/// A range as one source of limits.
pub(super) fn as_limit(source: &str, range: Option<(Opp, Opp)>) -> Option<Limit> {
    range.map(|(min, max)| Limit { source: source.into(), min: Some(min), max: Some(max) })
}
