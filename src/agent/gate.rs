//! The thermal gate: a trial starts only from a known temperature, and nothing runs on a hot device.

use crate::clock::Clock;
use crate::engine::Cancel;
use crate::profile::ZoneRole;
use crate::sensor::Zone;
use crate::sysfs::Nodes;
use crate::trial::GateSpec;
use crate::units::Celsius;
use std::time::Duration;

/// Time between two looks at a zone while waiting. The kernel's own thermal polling is 0.1 to 1 s.
const POLL: Duration = Duration::from_secs(1);

/// Why a trial may not start or go on.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GateError {
    /// A zone is above its hard limit.
    #[error("{zone} is at {found}, above the limit of {limit}")]
    TooHot {
        /// The zone's type.
        zone: String,
        /// Its temperature.
        found: Celsius,
        /// The limit.
        limit: Celsius,
    },
    /// The band was not reached in time, or was left again.
    #[error("{zone} is at {found}, outside {wanted} ± {tolerance:.1} after waiting {waited:?}")]
    OutsideBand {
        /// The zone's type.
        zone: String,
        /// Its temperature.
        found: Celsius,
        /// Middle of the band.
        wanted: Celsius,
        /// Half-width of the band, degrees.
        tolerance: f64,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The zone of the gate gives no temperature.
    #[error("zone {zone} gives no temperature")]
    NoReading {
        /// The zone's type.
        zone: String,
    },
    /// Asked to stop while waiting.
    #[error("the wait for a start temperature was cancelled")]
    Cancelled,
}

/// The gate of one trial.
pub struct Gate<'a> {
    /// Node files.
    pub nodes: &'a dyn Nodes,
    /// The clock that waiting goes by.
    pub clock: &'a dyn Clock,
    /// Zones of the device.
    pub zones: &'a [Zone],
    /// `type` of the gate's zone; empty: only the hard limits hold.
    pub zone: &'a str,
    /// Band and limits.
    pub spec: &'a GateSpec,
}

impl Gate<'_> {
    /// Waits until the gate's zone is in the band, telling `wait` what it waits for. Bounded by the
    /// specification's time-out.
    ///
    /// # Errors
    /// [`GateError`]: too hot, not in the band in time, no reading, cancelled.
    pub fn wait(&self, cancel: &Cancel, mut wait: impl FnMut(String)) -> Result<(), GateError> {
        let (begun, limit) = (self.clock.now(), Duration::from_secs(self.spec.timeout_s));
        loop {
            let waited = self.clock.now().since(begun);
            match self.check_after(waited) {
                Err(GateError::OutsideBand { zone, found, wanted, tolerance, .. }) if waited < limit => {
                    wait(format!("{zone} {found}, waiting for {:.1} ± {tolerance:.1}", wanted.0));
                }
                verdict => return verdict,
            }
            if cancel.cancelled() {
                return Err(GateError::Cancelled);
            }
            self.clock.sleep(POLL.min(limit.saturating_sub(waited)));
        }
    }

    /// Looks once: hard limits, then the band.
    ///
    /// # Errors
    /// As [`Gate::wait`].
    pub fn check(&self) -> Result<(), GateError> {
        self.check_after(Duration::ZERO)
    }

    /// Looks at the hard limits only.
    ///
    /// # Errors
    /// [`GateError::TooHot`].
    pub fn check_limits(&self) -> Result<(), GateError> {
        let hot = self.zones.iter().find_map(|zone| {
            let (found, limit) = (zone.read(self.nodes)?, self.limit(zone.role));
            (found > limit).then(|| GateError::TooHot { zone: zone.kind.clone(), found, limit })
        });
        hot.map_or(Ok(()), Err)
    }

    fn check_after(&self, waited: Duration) -> Result<(), GateError> {
        self.check_limits()?;
        if self.zone.is_empty() {
            return Ok(());
        }
        let found = self.temperature()?;
        let wanted = self.spec.start_celsius.unwrap_or(found);
        let tolerance = self.spec.tolerance_celsius;
        if (found.0 - wanted.0).abs() <= tolerance {
            return Ok(());
        }
        Err(GateError::OutsideBand { zone: self.zone.into(), found, wanted, tolerance, waited })
    }

    fn temperature(&self) -> Result<Celsius, GateError> {
        let zone = self.zones.iter().find(|z| z.kind == self.zone);
        zone.and_then(|z| z.read(self.nodes)).ok_or_else(|| GateError::NoReading { zone: self.zone.into() })
    }

    fn limit(&self, role: ZoneRole) -> Celsius {
        match role {
            ZoneRole::Soc => self.spec.soc_limit_celsius,
            ZoneRole::Skin => self.spec.skin_limit_celsius,
            ZoneRole::Battery => self.spec.battery_limit_celsius,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::doubles::{MapNodes, StepClock};
    use crate::sysfs::NodePath;
    use std::sync::Arc;

    const TEMP: &str = "/zone/temp";

    fn zones(role: ZoneRole) -> Vec<Zone> {
        vec![Zone { kind: "soc".into(), role, node: NodePath::new(TEMP).unwrap() }]
    }

    fn spec() -> GateSpec {
        GateSpec { start_celsius: Some(Celsius(35.0)), timeout_s: 30, ..GateSpec::default() }
    }

    fn wait(
        nodes: &MapNodes,
        clock: &StepClock,
        zone: &str,
        cancel: &Cancel,
    ) -> (Result<(), GateError>, u32) {
        let (zones, spec, mut told) = (zones(ZoneRole::Soc), spec(), 0);
        let gate = Gate { nodes, clock, zones: &zones, zone, spec: &spec };
        (gate.wait(cancel, |_| told += 1), told)
    }

    #[test]
    fn a_warm_device_is_waited_for() {
        let (nodes, clock) = (Arc::new(MapNodes::new(&[(TEMP, "40000")])), StepClock::default());
        let (cooling, mut left) = (nodes.clone(), 40_000);
        let _ticker = clock.every(
            Duration::from_secs(1),
            Box::new(move || {
                left -= 500;
                cooling.set(TEMP, &left.to_string());
            }),
        );
        let (verdict, told) = wait(&nodes, &clock, "soc", &Cancel::default());
        assert_eq!(verdict, Ok(()));
        assert_eq!(told, 8, "one line per second for the four degrees to the edge of the band");
    }

    #[test]
    fn the_wait_has_an_upper_bound() {
        let (nodes, clock) = (MapNodes::new(&[(TEMP, "50000")]), StepClock::default());
        let (verdict, _) = wait(&nodes, &clock, "soc", &Cancel::default());
        let Err(GateError::OutsideBand { waited, .. }) = verdict else { panic!("{verdict:?}") };
        assert_eq!(waited, Duration::from_secs(30));
    }

    #[test]
    fn a_cancelled_wait_ends_at_once() {
        let (nodes, clock) = (MapNodes::new(&[(TEMP, "50000")]), StepClock::default());
        let cancel = Cancel::default();
        cancel.cancel();
        assert_eq!(wait(&nodes, &clock, "soc", &cancel).0, Err(GateError::Cancelled));
        assert_eq!(clock.now(), StepClock::default().now());
    }

    #[test]
    fn above_a_hard_limit_nothing_is_waited_for() {
        let (nodes, clock) = (MapNodes::new(&[(TEMP, "96000")]), StepClock::default());
        let (verdict, told) = wait(&nodes, &clock, "soc", &Cancel::default());
        assert!(matches!(verdict, Err(GateError::TooHot { .. })), "{verdict:?}");
        assert_eq!(told, 0);
    }

    #[test]
    fn each_role_has_its_own_limit() {
        let (nodes, clock) = (MapNodes::new(&[(TEMP, "46000")]), StepClock::default());
        for (role, fine) in [(ZoneRole::Soc, true), (ZoneRole::Skin, false), (ZoneRole::Battery, false)] {
            let (zones, spec) = (zones(role), spec());
            let gate = Gate { nodes: &nodes, clock: &clock, zones: &zones, zone: "soc", spec: &spec };
            assert_eq!(gate.check_limits().is_ok(), fine, "{role:?}");
        }
    }

    #[test]
    fn a_silent_gate_zone_is_told_and_no_gate_zone_is_no_gate() {
        let (nodes, clock) = (MapNodes::new(&[(TEMP, "-32768000")]), StepClock::default());
        let (silent, _) = wait(&nodes, &clock, "soc", &Cancel::default());
        assert_eq!(silent, Err(GateError::NoReading { zone: "soc".into() }));
        assert_eq!(wait(&nodes, &clock, "", &Cancel::default()).0, Ok(()));
    }
}
