//! A declared power model for hosts without any meter: idle power plus power per busy CPU of this process.
//! Not a measurement; its kind says so wherever a number of it is printed.

use super::{EnergyReading, EnergySource};
use crate::sysfs::{NodeError, Nodes};
use crate::trial::{EnergyKind, SourceInfo};
use crate::units::{BootNanos, MilliWatt};
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The declared model.
pub struct Modelled {
    info: SourceInfo,
    idle: MilliWatt,
    active_per_cpu: MilliWatt,
}

impl Modelled {
    /// A model with this idle power and this much more per busy CPU.
    pub fn new(idle: MilliWatt, active_per_cpu: MilliWatt) -> Modelled {
        let name = format!("declared model: {idle} idle, {active_per_cpu} more per busy CPU");
        let info = SourceInfo { kind: EnergyKind::Modelled, name, period_ms: 0.0, external_power: None };
        Modelled { info, idle, active_per_cpu }
    }
}

impl EnergySource for Modelled {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn read(&mut self, _nodes: &dyn Nodes, now: BootNanos) -> Result<EnergyReading, NodeError> {
        let idle = self.idle.over(Duration::from_nanos(now.0));
        let active = self.active_per_cpu.over(cpu_time());
        Ok(EnergyReading::Cumulative { at: now, micro_joules: (idle.0 + active.0) * 1e3 })
    }
}

/// CPU time of this process, which is the engine's: the rest of it sleeps.
fn cpu_time() -> Duration {
    // The clock exists on every Linux; a failure would mean another operating system.
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::doubles::MapNodes;

    fn read(model: &mut Modelled, at: u64) -> f64 {
        match model.read(&MapNodes::default(), BootNanos(at)) {
            Ok(EnergyReading::Cumulative { micro_joules, .. }) => micro_joules,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn idle_time_costs_idle_power_and_busy_cpus_cost_more() {
        let mut idle = Modelled::new(MilliWatt(2000.0), MilliWatt(0.0));
        let spent = read(&mut idle, 1_500_000_000) - read(&mut idle, 500_000_000);
        assert!((spent - 2_000_000.0).abs() < 1.0, "{spent}");
        let mut busy = Modelled::new(MilliWatt(0.0), MilliWatt(1000.0));
        let (before, begun) = (read(&mut busy, 0), cpu_time());
        while cpu_time() < begun + Duration::from_millis(5) {}
        assert!(read(&mut busy, 0) - before >= 5_000.0);
        assert_eq!(busy.info().kind.to_string(), "modelled");
    }
}
