//! The knobs of a taken device: pinned for a trial, given back to their governors.

use crate::clock::Clock;
use crate::device::Device;
use crate::guard::{Place, RestoreStep, put_back};
use crate::knob::{Knob, KnobError, Limit};
use crate::profile::Use;
use crate::protocol::RestoreReport;
use crate::sysfs::{Nodes, Properties};
use crate::trial::{Choice, Combination, KnobId};
use crate::units::Opp;
use std::sync::{Arc, Mutex};

/// A knob with the writes that put it back to what it was before we touched it.
pub struct HeldKnob {
    /// The knob.
    pub knob: Box<dyn Knob>,
    /// Writes that restore it.
    pub originals: Vec<RestoreStep>,
    /// What the profile does with it when a combination does not name it.
    pub usage: Use,
    /// Where it is pinned now, as read back.
    pub pinned: Option<Opp>,
}

impl HeldKnob {
    /// Its name.
    pub fn id(&self) -> &KnobId {
        &self.knob.info().id
    }

    /// What becomes of it under `combination`: what that says, else what the profile says.
    pub fn choice(&self, combination: &Combination) -> Choice {
        match (combination.0.get(self.id()), self.usage) {
            (Some(choice), _) => *choice,
            (None, Use::Pin(opp)) => Choice::Pin(opp),
            (None, Use::Search | Use::Record) => Choice::Governor,
        }
    }
}

/// All knobs of a device. Whoever writes to a knob holds the lock around this, so that after [`Pins::close`]
/// nothing can be written any more.
pub struct Pins {
    /// The knobs, in the order of the profile.
    pub knobs: Vec<HeldKnob>,
    nodes: Arc<dyn Nodes>,
    properties: Arc<dyn Properties>,
    clock: Arc<dyn Clock>,
    closed: bool,
}

/// Knobs shared by the trial, the watch and the end of the session.
pub type SharedPins = Arc<Mutex<Pins>>;

impl Pins {
    /// Knobs, none of them pinned.
    pub fn new(knobs: Vec<HeldKnob>, device: &Device) -> Pins {
        Pins {
            knobs,
            nodes: device.nodes.clone(),
            properties: device.properties.clone(),
            clock: device.clock.clone(),
            closed: false,
        }
    }

    /// From now on nothing is pinned: the device is being given back.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Gives back what the combination leaves to its governor, then pins the rest.
    ///
    /// # Errors
    /// The first knob that could not be pinned; what was pinned before it stays pinned.
    pub fn apply(&mut self, combination: &Combination) -> Result<(), KnobError> {
        for index in 0..self.knobs.len() {
            if self.knobs[index].choice(combination) == Choice::Governor {
                self.release(index);
            }
        }
        for index in 0..self.knobs.len() {
            if let Choice::Pin(opp) = self.knobs[index].choice(combination) {
                self.pin(index, opp)?;
            }
        }
        Ok(())
    }

    /// Pins one knob, at first or again.
    ///
    /// # Errors
    /// As [`Knob::pin`]; also when the device is being given back.
    pub fn pin(&mut self, index: usize, opp: Opp) -> Result<(), KnobError> {
        let held = &mut self.knobs[index];
        if self.closed {
            let why = "the device is being given back".into();
            return Err(KnobError::Unavailable { knob: held.id().clone(), why });
        }
        // Pinned from here on: a failed pin may have moved one end of the range.
        held.pinned = Some(opp);
        held.pinned = Some(held.knob.pin(&*self.nodes, opp)?);
        Ok(())
    }

    /// What keeps a knob off its pin, as far as it shows. A maximum above the pin is no limit's doing: somebody
    /// writes the node.
    pub fn why_off(&self, knob: &KnobId) -> Option<String> {
        let held = self.knobs.iter().find(|held| held.id() == knob)?;
        let pin = held.pinned?;
        let glimpse = held.knob.glimpse(&*self.nodes);
        if glimpse.range.is_some_and(|(_, max)| max > pin) {
            return Some("somebody else writes it".into());
        }
        let limit = glimpse.limits.into_iter().find(|limit| excludes(limit, pin))?;
        Some(format!("held there by {}", limit.source))
    }

    /// Gives every pinned knob back to its governor.
    pub fn release_all(&mut self) -> RestoreReport {
        let mut all = RestoreReport::default();
        for index in 0..self.knobs.len() {
            let report = self.release(index);
            all.restored += report.restored;
            all.differs.extend(report.differs);
            all.took_ms += report.took_ms;
        }
        all
    }

    fn release(&mut self, index: usize) -> RestoreReport {
        let held = &mut self.knobs[index];
        let place = Place { nodes: &*self.nodes, properties: &*self.properties, clock: &*self.clock };
        match held.pinned.take() {
            Some(_) if !self.closed => put_back(&held.originals, place),
            _ => RestoreReport::default(),
        }
    }
}

/// Whether a pin lies beyond a limit.
pub fn excludes(limit: &Limit, pin: Opp) -> bool {
    limit.max.is_some_and(|max| max < pin) || limit.min.is_some_and(|min| min > pin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::twin::Twin;
    use crate::{knob, profile};

    #[test]
    fn a_maximum_above_the_pin_is_somebody_elses_and_one_below_it_a_limit() {
        let profile = profile::load("twins/pixel-7").unwrap();
        let twin = Twin::new(&profile, 1).unwrap();
        let device = twin.device();
        let spec = &profile.knobs[0];
        let knob = knob::open(spec, &*device.nodes).unwrap();
        let opps = knob.info().opps.clone();
        let held = HeldKnob { knob, originals: Vec::new(), usage: spec.usage, pinned: None };
        let mut pins = Pins::new(vec![held], &device);
        pins.pin(0, opps[4]).unwrap();
        assert_eq!(pins.why_off(&spec.id), None);

        let max = "/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq";
        twin.write(max, &opps[6].0.to_string()).unwrap();
        assert_eq!(pins.why_off(&spec.id).as_deref(), Some("somebody else writes it"));
        pins.pin(0, opps[4]).unwrap();
        twin.control(&format!("clamp {} {}", spec.id, opps[0].0)).unwrap();
        let why = pins.why_off(&spec.id).unwrap();
        assert!(why.starts_with("held there by "), "{why}");
    }
}
