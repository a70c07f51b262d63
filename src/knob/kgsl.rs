//! Qualcomm Adreno GPUs (kgsl): power levels, 0 is the fastest.
//!
//! Source: `kgsl_pwrctrl.c`. `max_pwrlevel` is the upper bound of speed (a small number), `min_pwrlevel` the
//! lower one (a large number); writes out of order are clipped silently, so the range is opened first. The
//! thermal level is a separate cap that wins. Tables depend on the speed bin: only the device's list counts.

use super::table::{describe, must_list, numbers};
use super::{Access, Glimpse, Knob, KnobError, KnobInfo, Limit, Residency};
use crate::guard::{Check, RestoreStep};
use crate::profile::KnobSpec;
use crate::sysfs::{NodePath, Nodes};
use crate::units::{Opp, OppUnit};

const HZ_PER_KHZ: u64 = 1000;
const KHZ_PER_MHZ: u64 = 1000;

/// An Adreno GPU.
pub(super) struct Kgsl {
    info: KnobInfo,
    dir: NodePath,
    fastest: NodePath,
    slowest: NodePath,
    /// kHz by power level, fastest first, as many as the driver lists.
    levels: Vec<Opp>,
}

/// Finds the GPU below `node` and its power levels.
///
/// # Errors
/// [`KnobError::Rejected`] when it lists no frequencies: levels without frequencies are not guessed.
pub(super) fn open(spec: &KnobSpec, node: &str, nodes: &dyn Nodes) -> Result<Kgsl, KnobError> {
    let access = Access::new(&spec.id, nodes);
    let dir = access.dir(node)?;
    let levels = levels(&access, &dir);
    if levels.is_empty() {
        let why = format!("{dir} lists no frequencies; power levels cannot be told apart without them");
        return Err(access.rejected("a table of power levels", why));
    }
    let mut opps = levels.clone();
    opps.reverse();
    opps.dedup();
    let mut info = describe(spec, "kgsl", OppUnit::KiloHertz, opps);
    let count = access.positive(&dir.join("num_pwrlevels")).unwrap_or(levels.len() as u64);
    if count != levels.len() as u64 {
        info.table_notes.push(format!("{count} power levels, but {} frequencies are listed", levels.len()));
    }
    let (fastest, slowest) = (dir.join("max_pwrlevel"), dir.join("min_pwrlevel"));
    Ok(Kgsl { info, dir, fastest, slowest, levels })
}

/// Level 0 is the fastest whatever the order of the list.
fn levels(access: &Access, dir: &NodePath) -> Vec<Opp> {
    let hz = numbers(&access.optional(&dir.join("gpu_available_frequencies")));
    let mut khz: Vec<u64> = match hz.is_empty() {
        false => hz.iter().map(|hz| hz / HZ_PER_KHZ).collect(),
        true => {
            let mhz = numbers(&access.optional(&dir.join("freq_table_mhz")));
            mhz.iter().map(|mhz| mhz * KHZ_PER_MHZ).collect()
        }
    };
    khz.sort_unstable_by(|a, b| b.cmp(a));
    khz.into_iter().map(Opp).collect()
}

impl Kgsl {
    fn last(&self) -> String {
        (self.levels.len() - 1).to_string()
    }

    fn opp(&self, level: u64) -> Option<Opp> {
        self.levels.get(level as usize).or(self.levels.last()).copied()
    }

    /// The level of both bounds: (slowest allowed, fastest allowed).
    fn bounds(&self, access: &Access) -> Result<(u64, u64), KnobError> {
        Ok((access.number(&self.slowest)?, access.number(&self.fastest)?))
    }

    fn pin_once(&self, access: &Access, level: usize, asked: &str) -> Result<(), KnobError> {
        let level = level.to_string();
        let (open_fastest, open_slowest) = ("0".to_owned(), self.last());
        for (node, value) in [
            (&self.fastest, &open_fastest),
            (&self.slowest, &open_slowest),
            (&self.fastest, &level),
            (&self.slowest, &level),
        ] {
            access.write(node, value, asked)?;
        }
        let found = self.bounds(access)?;
        match (found.0.to_string(), found.1.to_string()) {
            (slowest, fastest) if slowest == level && fastest == level => Ok(()),
            (slowest, fastest) => Err(access.did_not_stick(
                asked,
                format!("min_pwrlevel {slowest}, max_pwrlevel {fastest}, wanted level {level}"),
            )),
        }
    }

    fn thermal_limit(&self, access: &Access) -> Option<Limit> {
        let level = access.positive(&self.dir.join("thermal_pwrlevel"))?;
        Some(Limit { source: "thermal_pwrlevel".into(), min: None, max: self.opp(level) })
    }
}

impl Knob for Kgsl {
    fn info(&self) -> &KnobInfo {
        &self.info
    }

    fn snapshot(&self, nodes: &dyn Nodes) -> Result<Vec<RestoreStep>, KnobError> {
        let access = Access::new(&self.info.id, nodes);
        let (slowest, fastest) = self.bounds(&access)?;
        let kept = |node, level: u64| access.step(node, level.to_string(), Check::Text(level.to_string()));
        Ok(vec![
            access.step(&self.fastest, "0", Check::Nothing),
            access.step(&self.slowest, self.last(), Check::Nothing),
            kept(&self.fastest, fastest),
            kept(&self.slowest, slowest),
        ])
    }

    fn pin(&mut self, nodes: &dyn Nodes, opp: Opp) -> Result<Opp, KnobError> {
        let access = Access::new(&self.info.id, nodes);
        let asked = must_list(&access, &self.info, opp)?;
        let level = self.levels.iter().position(|&listed| listed == opp).unwrap_or(0);
        let pinned = self.pin_once(&access, level, &asked);
        pinned.or_else(|_| self.pin_once(&access, level, &asked)).map(|()| opp)
    }

    fn glimpse(&self, nodes: &dyn Nodes) -> Glimpse {
        let access = Access::new(&self.info.id, nodes);
        let range = self.bounds(&access).ok();
        Glimpse {
            clock: access.positive(&self.dir.join("gpuclk")).map(|hz| Opp(hz / HZ_PER_KHZ)),
            range: range.and_then(|(slowest, fastest)| Some((self.opp(slowest)?, self.opp(fastest)?))),
            limits: self.thermal_limit(&access).into_iter().collect(),
        }
    }

    /// `gpu_clock_stats`: busy time in microseconds by power level.
    fn residency(&self, nodes: &dyn Nodes) -> Option<Residency> {
        let times = numbers(&nodes.read(&self.dir.join("gpu_clock_stats")).ok()?);
        let rows = self.levels.iter().copied().zip(times.iter().copied()).collect();
        (times.len() == self.levels.len()).then_some(Residency(rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knob::fake::{Fake, spec};
    use crate::profile::DriverSpec;

    const DIR: &str = "/sys/class/kgsl/kgsl-3d0";

    fn gpu(fake: &Fake) -> Kgsl {
        fake.text(&format!("{DIR}/gpu_available_frequencies"), "719000000 550000000 220000000 \n");
        fake.text(&format!("{DIR}/num_pwrlevels"), "3");
        fake.text(&format!("{DIR}/gpuclk"), "0");
        fake.power_levels(&format!("{DIR}/min_pwrlevel"), &format!("{DIR}/max_pwrlevel"), 3);
        open(&spec("gpu", DriverSpec::Kgsl { node: DIR.into() }), DIR, fake).unwrap()
    }

    #[test]
    fn every_level_can_be_pinned_from_every_other_although_writes_are_clipped() {
        let fake = Fake::default();
        let mut knob = gpu(&fake);
        assert_eq!(knob.info.opps, [Opp(220_000), Opp(550_000), Opp(719_000)]);
        for from in knob.info.opps.clone() {
            for to in knob.info.opps.clone() {
                knob.pin(&fake, from).unwrap();
                assert_eq!(knob.pin(&fake, to).unwrap(), to);
                assert_eq!(knob.glimpse(&fake).range, Some((to, to)));
            }
        }
    }

    #[test]
    fn the_thermal_level_and_sleep_are_seen() {
        let fake = Fake::default();
        let knob = gpu(&fake);
        fake.text(&format!("{DIR}/thermal_pwrlevel"), "1");
        let seen = knob.glimpse(&fake);
        assert_eq!(seen.clock, None);
        assert_eq!(seen.limits[0].max, Some(Opp(550_000)));
        fake.text(&format!("{DIR}/gpu_clock_stats"), "10 20 30 \n");
        assert_eq!(knob.residency(&fake).unwrap().0[0], (Opp(719_000), 10));
    }
}
