//! The battery and its fuel gauge, which shows means over its own update period.

use super::spec::BatterySpec;
use crate::units::MilliWatt;

/// Current the charger drives into the battery beside running the device, mA.
const CHARGING_MA: f64 = 1500.0;

/// A battery.
#[derive(Clone, Debug)]
pub struct Battery {
    /// What it is.
    pub spec: BatterySpec,
    /// Charging is suspended.
    pub suspended: bool,
    used_mwh: f64,
    window_ns: u64,
    window_mj: f64,
    shown: MilliWatt,
}

impl Battery {
    /// A battery in the rested state.
    pub fn new(spec: BatterySpec) -> Self {
        Battery { spec, suspended: false, used_mwh: 0.0, window_ns: 0, window_mj: 0.0, shown: MilliWatt(0.0) }
    }

    /// Back to the rested state, the gauge showing `power`.
    pub fn rest(&mut self, power: MilliWatt) {
        self.used_mwh = 0.0;
        self.window_ns = 0;
        self.window_mj = 0.0;
        self.shown = power;
    }

    /// Whether it is being charged.
    pub fn charging(&self) -> bool {
        self.spec.plugged && !self.suspended
    }

    /// Lets `span` nanoseconds pass while the device draws `power`.
    pub fn step(&mut self, power: MilliWatt, span: u64) {
        let energy = power.0 * span as f64 * 1e-9;
        self.window_ns += span;
        self.window_mj += energy;
        if !self.charging() {
            self.used_mwh += energy / 3600.0;
        }
        if self.window_ns >= self.spec.period_ms * 1_000_000 {
            self.shown = MilliWatt(self.window_mj / (self.window_ns as f64 * 1e-9));
            self.window_ns = 0;
            self.window_mj = 0.0;
        }
    }

    /// Charge, 0..=1.
    pub fn charge(&self) -> f64 {
        (self.spec.charge - self.used_mwh / self.spec.capacity_mwh).max(0.0)
    }

    /// Voltage without load: a straight line between an empty and a full lithium cell.
    fn open_volts(&self) -> f64 {
        3.5 + 0.8 * self.charge()
    }

    /// Terminal voltage and current out of the battery (V, A): the root of `P = (U - I R) I`.
    pub fn shown(&self) -> (f64, f64) {
        let open = self.open_volts();
        if self.charging() {
            let current = CHARGING_MA / 1e3;
            return (open + current * self.spec.resistance, -current);
        }
        let r = self.spec.resistance;
        let watts = self.shown.0 / 1e3;
        let root = (open * open - 4.0 * r * watts).max(0.0).sqrt();
        let current = if r > 0.0 { (open - root) / (2.0 * r) } else { watts / open };
        (open - current * r, current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gauge_shows_the_mean_of_its_last_period() {
        let spec = BatterySpec {
            name: "battery".into(),
            capacity_mwh: 16_000.0,
            charge: 0.8,
            resistance: 0.1,
            period_ms: 100,
            discharge_positive: false,
            milli_amp: false,
            plugged: false,
            suspend_node: None,
        };
        let mut battery = Battery::new(spec);
        battery.rest(MilliWatt(500.0));
        let power = |b: &Battery| {
            let (volts, amps) = b.shown();
            volts * amps * 1e3
        };
        battery.step(MilliWatt(3000.0), 50_000_000);
        assert!((power(&battery) - 500.0).abs() < 1.0, "not yet refreshed");
        battery.step(MilliWatt(1000.0), 50_000_000);
        assert!((power(&battery) - 2000.0).abs() < 1.0);
    }
}
