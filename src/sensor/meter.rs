//! A meter in front of the device that the device itself can read: a cumulative counter in microjoules, such
//! as hwmon's `energyN_input`.

use super::learn::look;
use super::{EnergyReading, EnergySource};
use crate::clock::Clock;
use crate::sysfs::{NodeError, NodePath, Nodes, find_one, read_i64, read_u64};
use crate::trial::{EnergyKind, SourceInfo};
use crate::units::BootNanos;

/// A cumulative energy counter.
pub struct Meter {
    info: SourceInfo,
    node: NodePath,
}

impl Meter {
    /// Opens the counter (its path may hold `*`) and learns how often it changes.
    ///
    /// # Errors
    /// When the node does not read as a number.
    pub fn open(node: &str, nodes: &dyn Nodes, clock: &dyn Clock) -> Result<Meter, NodeError> {
        let node = find_one(nodes, node)?;
        let seen = look(clock, |_| read_i64(nodes, &node))?;
        let info = SourceInfo {
            kind: EnergyKind::Meter,
            name: node.to_string(),
            period_ms: seen.period.as_secs_f64() * 1e3,
            external_power: None,
        };
        Ok(Meter { info, node })
    }
}

impl EnergySource for Meter {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn read(&mut self, nodes: &dyn Nodes, now: BootNanos) -> Result<EnergyReading, NodeError> {
        let micro_joules = read_u64(nodes, &self.node)? as f64;
        Ok(EnergyReading::Cumulative { at: now, micro_joules })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::doubles::{MapNodes, StepClock};

    #[test]
    fn the_counter_is_read_as_it_is() {
        let nodes = MapNodes::new(&[("/sys/class/hwmon/hwmon3/energy1_input", "123456\n")]);
        let clock = StepClock::default();
        let mut meter = Meter::open("/sys/class/hwmon/hwmon*/energy1_input", &nodes, &clock).unwrap();
        let wanted = EnergyReading::Cumulative { at: BootNanos(1), micro_joules: 123_456.0 };
        assert_eq!(meter.read(&nodes, BootNanos(1)).unwrap(), wanted);
        assert!(Meter::open("/sys/none", &nodes, &clock).is_err());
    }
}
