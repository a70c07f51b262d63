//! Whether the battery really discharges, by the gauge and not by the switch.
//!
//! Some switches stop charging while the device goes on drawing from USB ("Not charging" is both), some act late,
//! some revert by themselves (reports collected by VR-25/acc).

use super::CompanionError;
use crate::clock::Clock;
use crate::sensor::first_battery;
use crate::sysfs::{NodePath, Nodes, read_i64, read_trimmed};
use std::time::Duration;

/// How long a switch may take to act, looked at this often.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(500);

/// The battery at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Battery {
    status: String,
    current: i64,
}

/// Looks at the battery, if there is one with a gauge.
pub(super) fn look(nodes: &dyn Nodes) -> Option<Battery> {
    let supplies = NodePath::fixed("/sys/class/power_supply");
    let battery = supplies.join(&first_battery(&supplies, nodes).ok()?);
    let status = read_trimmed(nodes, &battery.join("status")).ok()?;
    Some(Battery { status, current: read_i64(nodes, &battery.join("current_now")).ok()? })
}

impl Battery {
    /// Whether it discharges, knowing how it was `before` charging was suspended. The sign of the current is
    /// the vendor's: against a current that was seen charging, the opposite sign is discharging; else the
    /// status has to say so and current has to flow.
    fn discharges(&self, before: &Battery) -> bool {
        match before.status == "Charging" && before.current != 0 {
            true => self.current.signum() == -before.current.signum(),
            false => self.status == "Discharging" && self.current != 0,
        }
    }
}

/// Waits until the battery discharges.
///
/// # Errors
/// [`CompanionError::StillCharging`].
pub(super) fn verify(
    id: &str,
    before: Option<Battery>,
    nodes: &dyn Nodes,
    clock: &dyn Clock,
) -> Result<Option<String>, CompanionError> {
    let Some(before) = before else {
        return Ok(Some("charging was suspended; there is no gauge to verify it by".into()));
    };
    if before.status == "Discharging" {
        return Ok(Some(
            "the battery was discharging already; a switch set while unplugged may not hold".into(),
        ));
    }
    let end = clock.now().plus(PATIENCE);
    loop {
        match look(nodes) {
            Some(now) if now.discharges(&before) => return Ok(None),
            seen if clock.now() >= end => {
                let seen =
                    seen.map_or("no answer".into(), |now| format!("{}, current {}", now.status, now.current));
                return Err(CompanionError::StillCharging { id: id.into(), seen });
            }
            _ => clock.sleep(PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discharging_is_told_by_the_sign_against_what_was_seen_charging() {
        let battery = |status: &str, current| Battery { status: status.into(), current };
        let charging = battery("Charging", 900_000);
        assert!(battery("Not charging", -400_000).discharges(&charging));
        assert!(!battery("Not charging", 0).discharges(&charging), "drawn from USB");
        assert!(!battery("Discharging", 100).discharges(&charging), "the node lies");
        let negative = battery("Charging", -900);
        assert!(battery("Discharging", 400).discharges(&negative), "other vendors, other signs");
        let full = battery("Full", 0);
        assert!(battery("Discharging", -300).discharges(&full));
        assert!(!battery("Not charging", -3).discharges(&full));
    }
}
