//! Names of the conditions of a run: what the agent notes when it takes a device, and which of them must be
//! equal for two results to be put together. The one place where both sides of that are decided.

use crate::trial::KnobId;

/// Kernel release. Compared as part of the device.
pub const KERNEL: &str = "kernel";
/// CPUs online, as the kernel lists them.
pub const CPUS_ONLINE: &str = "cpus-online";
/// Load averages.
pub const LOAD_AVERAGE: &str = "load-average";
/// Time since boot.
pub const UP_FOR: &str = "up-for";
/// What the vendor's thermal service reports.
pub const THERMAL_STATUS: &str = "thermal-status";
/// `on` or `off`.
pub const SCREEN: &str = "screen";
/// `enforcing` or `permissive`.
pub const SELINUX: &str = "selinux";

const GOVERNOR: &str = "governor.";
const POWER: &str = "power.";

/// Facts of a power supply that are noted.
pub const POWER_FACTS: [&str; 4] = ["capacity", "status", "temp", "online"];
/// Those of them that say whether the battery is charged, and from where.
const HELD_POWER_FACTS: [&str; 2] = ["status", "online"];

/// The governor that has a knob when it is not pinned.
pub fn governor(knob: &KnobId) -> String {
    format!("{GOVERNOR}{knob}")
}

/// A fact of a power supply.
pub fn power(supply: &str, fact: &str) -> String {
    format!("{POWER}{supply}.{fact}")
}

/// Whether results under different values of it may not be put together: what a person holds equal. What
/// drifts by itself (levels, temperatures, load, times) is kept within bounds by the gate and by `doctor`.
pub fn is_held(key: &str) -> bool {
    let supply = || key.strip_prefix(POWER)?.rsplit_once('.');
    [CPUS_ONLINE, SCREEN].contains(&key)
        || key.starts_with(GOVERNOR)
        || supply().is_some_and(|(_, fact)| HELD_POWER_FACTS.contains(&fact))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_holds_equal_is_held_and_what_drifts_is_not() {
        let governor = governor(&KnobId("gpu".into()));
        let (status, level) = (power("battery", "status"), power("battery", "capacity"));
        for held in [SCREEN, CPUS_ONLINE, &governor, &status, &power("usb", "online")] {
            assert!(is_held(held), "{held}");
        }
        for drifting in [LOAD_AVERAGE, UP_FOR, THERMAL_STATUS, SELINUX, &level] {
            assert!(!is_held(drifting), "{drifting}");
        }
    }
}
