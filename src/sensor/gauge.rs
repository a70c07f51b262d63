//! Battery fuel gauge: `voltage_now` x `current_now` of a power_supply of type Battery.
//!
//! The ABI says microampere and negative while discharging; devices do as they like. Unit by magnitude, as
//! freqbench does; sign by what is seen while the status says Discharging; INT_MIN-like sentinels and zeros
//! are no values.

use super::learn::{Seen, look};
use super::{EnergyReading, EnergySource, class, silent};
use crate::clock::Clock;
use crate::profile::{CurrentUnit, Sign};
use crate::sysfs::{NodeError, NodePath, Nodes, read_i64, read_trimmed};
use crate::trial::{EnergyKind, SourceInfo};
use crate::units::{BootNanos, MilliWatt};
use std::time::Duration;

/// Under load a phone draws 100 mA to 10 A: a median under this is in milliampere.
pub const MILLIAMP_BELOW: i64 = 20_000;
/// Whatever the unit, no phone draws this: INT_MIN and its scaled forms.
const SENTINEL_ABOVE: i64 = 100_000_000;
/// A battery has 2.5 to 5 V a cell, two cells at most: larger numbers are in microvolt.
const MICROVOLT_ABOVE: i64 = 100_000;
/// Time between two looks at the chargers.
const CHARGER_POLL: Duration = Duration::from_secs(1);

/// What the profile knows of the gauge. What it does not is learned.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// Unit of `current_now`.
    pub unit: Option<CurrentUnit>,
    /// Sign of `current_now` while discharging.
    pub sign: Option<Sign>,
    /// Update period in milliseconds.
    pub period_ms: Option<f64>,
}

/// A battery gauge.
pub struct Gauge {
    info: SourceInfo,
    battery: NodePath,
    chargers: Vec<NodePath>,
    unit: CurrentUnit,
    sign: Option<Sign>,
    chargers_due: BootNanos,
}

impl Gauge {
    /// Opens the gauge `supply` (empty: the first battery of the system) and learns what is not known of it.
    ///
    /// # Errors
    /// When there is no such battery or it gives no current.
    pub fn open(
        supply: &str,
        known: Known,
        nodes: &dyn Nodes,
        clock: &dyn Clock,
    ) -> Result<Gauge, NodeError> {
        let supplies = class("/sys/class/power_supply")?;
        let name = if supply.is_empty() { first_battery(&supplies, nodes)? } else { supply.to_owned() };
        let battery = supplies.join(&name);
        let current = battery.join("current_now");
        let seen = match known {
            Known { unit: Some(_), period_ms: Some(_), .. } => {
                Seen { values: vec![read_i64(nodes, &current)?], period: Duration::ZERO }
            }
            _ => look(clock, |_| read_i64(nodes, &current))?,
        };
        let period_ms = known.period_ms.unwrap_or(seen.period.as_secs_f64() * 1e3);
        let info = SourceInfo { kind: EnergyKind::Gauge, name, period_ms, external_power: None };
        let mut gauge = Gauge {
            info,
            chargers: chargers(&supplies, nodes),
            unit: known.unit.unwrap_or_else(|| unit_of(&seen.values)),
            sign: known.sign,
            battery,
            chargers_due: BootNanos(0),
        };
        gauge.read(nodes, clock.now())?;
        Ok(gauge)
    }

    /// Current in milliampere, positive when it leaves the battery.
    fn drawn_milliamps(&mut self, nodes: &dyn Nodes) -> Result<f64, NodeError> {
        let node = self.battery.join("current_now");
        let raw = read_i64(nodes, &node)?;
        if raw == 0 || raw.abs() > SENTINEL_ABOVE {
            return Err(silent(node, format!("{raw} is a sentinel, not a current")));
        }
        if self.sign.is_none() && self.discharging(nodes) {
            self.sign = Some(if raw < 0 { Sign::Negative } else { Sign::Positive });
        }
        let scaled = match self.unit {
            CurrentUnit::MicroAmp => raw as f64 / 1e3,
            CurrentUnit::MilliAmp => raw as f64,
        };
        Ok(match self.sign.unwrap_or(Sign::Negative) {
            Sign::Negative => -scaled,
            Sign::Positive => scaled,
        })
    }

    fn volts(&self, nodes: &dyn Nodes) -> Result<f64, NodeError> {
        let raw = read_i64(nodes, &self.battery.join("voltage_now"))?;
        Ok(if raw > MICROVOLT_ABOVE { raw as f64 / 1e6 } else { raw as f64 / 1e3 })
    }

    fn discharging(&self, nodes: &dyn Nodes) -> bool {
        read_trimmed(nodes, &self.battery.join("status")).is_ok_and(|status| status == "Discharging")
    }

    fn look_at_chargers(&mut self, nodes: &dyn Nodes, now: BootNanos) {
        if now < self.chargers_due {
            return;
        }
        let online = |node: &NodePath| read_i64(nodes, node).is_ok_and(|online| online != 0);
        self.info.external_power = Some(self.chargers.iter().any(online) || !self.discharging(nodes));
        self.chargers_due = now.plus(CHARGER_POLL);
    }
}

impl EnergySource for Gauge {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn read(&mut self, nodes: &dyn Nodes, now: BootNanos) -> Result<EnergyReading, NodeError> {
        self.look_at_chargers(nodes, now);
        let power = MilliWatt(self.volts(nodes)? * self.drawn_milliamps(nodes)?);
        Ok(EnergyReading::Instant { at: now, power })
    }
}

fn unit_of(currents: &[i64]) -> CurrentUnit {
    let mut sizes: Vec<i64> =
        currents.iter().map(|c| c.abs()).filter(|&c| c > 0 && c <= SENTINEL_ABOVE).collect();
    sizes.sort_unstable();
    match sizes.get(sizes.len() / 2) {
        Some(&median) if median < MILLIAMP_BELOW => CurrentUnit::MilliAmp,
        _ => CurrentUnit::MicroAmp,
    }
}

/// Name of the first battery of the system below `supplies` (`/sys/class/power_supply`).
///
/// # Errors
/// When there is none.
pub fn first_battery(supplies: &NodePath, nodes: &dyn Nodes) -> Result<String, NodeError> {
    let is = |name: &str, node: &str, text: &str| {
        read_trimmed(nodes, &supplies.join(name).join(node)).is_ok_and(|found| found == text)
    };
    let mut names = nodes.list(supplies)?.into_iter();
    // A battery of scope Device belongs to a peripheral (mouse, pen).
    names
        .find(|name| is(name, "type", "Battery") && !is(name, "scope", "Device"))
        .ok_or_else(|| silent(supplies, "there is no battery of the system"))
}

fn chargers(supplies: &NodePath, nodes: &dyn Nodes) -> Vec<NodePath> {
    let names = nodes.list(supplies).unwrap_or_default();
    let kind = |name: &str| read_trimmed(nodes, &supplies.join(name).join("type")).unwrap_or_default();
    let online = names.iter().filter(|name| kind(name) != "Battery").map(|n| supplies.join(n).join("online"));
    online.filter(|node| nodes.exists(node)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::doubles::{MapNodes, StepClock};

    const BAT: &str = "/sys/class/power_supply/maxfg";

    fn nodes(current: &str, status: &str, usb: &str) -> MapNodes {
        MapNodes::new(&[
            ("/sys/class/power_supply/a_pen/type", "Battery"),
            ("/sys/class/power_supply/a_pen/scope", "Device"),
            (&format!("{BAT}/type"), "Battery\n"),
            (&format!("{BAT}/voltage_now"), "4000000\n"),
            (&format!("{BAT}/current_now"), current),
            (&format!("{BAT}/status"), status),
            ("/sys/class/power_supply/usb/type", "USB"),
            ("/sys/class/power_supply/usb/online", usb),
        ])
    }

    fn power(nodes: &MapNodes) -> (f64, SourceInfo) {
        let clock = StepClock::default();
        let mut gauge = Gauge::open("", Known::default(), nodes, &clock).unwrap();
        let EnergyReading::Instant { power, .. } = gauge.read(nodes, clock.now()).unwrap() else { panic!() };
        (power.0, gauge.info().clone())
    }

    #[test]
    fn unit_and_sign_are_learned() {
        for current in ["-500000", "500000", "-500", "500"] {
            let (found, info) = power(&nodes(current, "Discharging", "0"));
            assert!((found - 2000.0).abs() < 1e-9, "{current}: {found}");
            assert_eq!((info.name.as_str(), info.external_power), ("maxfg", Some(false)));
        }
    }

    #[test]
    fn a_charging_battery_draws_nothing_and_the_cable_is_told() {
        let (found, info) = power(&nodes("900000", "Charging", "1"));
        assert!(found < 0.0, "the sign of the ABI holds until a discharge was seen: {found}");
        assert_eq!(info.external_power, Some(true));
        assert_eq!(power(&nodes("-500000", "Discharging", "1")).1.external_power, Some(true));
    }

    #[test]
    fn sentinels_and_zeros_are_no_values() {
        for current in ["0", "-2147483648", "2147483647"] {
            let found =
                Gauge::open("", Known::default(), &nodes(current, "Discharging", "0"), &StepClock::default());
            assert!(found.is_err(), "{current}");
        }
    }

    #[test]
    fn a_known_gauge_is_not_looked_at() {
        let clock = StepClock::default();
        let known =
            Known { unit: Some(CurrentUnit::MicroAmp), sign: Some(Sign::Negative), period_ms: Some(175.8) };
        let gauge = Gauge::open("maxfg", known, &nodes("-500000", "Discharging", "0"), &clock).unwrap();
        assert_eq!((gauge.info().period_ms, clock.now()), (175.8, BootNanos(0)));
    }
}
