//! Heat: a die and a housing between power and ambient, and a battery that follows the housing.

use super::spec::{HeatSpec, ZoneSpec};
use crate::units::MilliWatt;

/// Temperatures, °C.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heat {
    /// Of the die.
    pub die: f64,
    /// Of the housing.
    pub skin: f64,
    /// Of the battery.
    pub battery: f64,
}

impl Heat {
    /// Everything at the temperature of the rested state.
    pub fn rested(spec: &HeatSpec) -> Self {
        Heat { die: spec.rest, skin: spec.rest, battery: spec.rest }
    }

    /// Lets `seconds` pass at `power`. Explicit Euler: steps are far shorter than the die's time constant.
    pub fn step(&mut self, spec: &HeatSpec, power: MilliWatt, seconds: f64) {
        let inward = (self.die - self.skin) / spec.die_to_skin;
        let outward = (self.skin - spec.ambient) / spec.skin_to_ambient;
        self.die += (power.0 / 1e3 - inward) * seconds / spec.die_capacity;
        self.skin += (inward - outward) * seconds / spec.skin_capacity;
        self.battery += (self.skin - self.battery) * seconds / spec.battery_lag_s;
    }

    /// The temperature a zone is at.
    pub fn of(&self, zone: &ZoneSpec) -> f64 {
        if zone.battery { self.battery } else { self.skin + zone.die * (self.die - self.skin) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_watts_settle_at_ambient_plus_power_times_resistance() {
        let spec = HeatSpec::default();
        let mut heat = Heat::rested(&spec);
        for _ in 0..40_000 {
            heat.step(&spec, MilliWatt(2000.0), 0.1);
        }
        let skin = spec.ambient + 2.0 * spec.skin_to_ambient;
        assert!((heat.skin - skin).abs() < 0.1, "{heat:?}");
        assert!((heat.die - skin - 2.0 * spec.die_to_skin).abs() < 0.1, "{heat:?}");
    }
}
