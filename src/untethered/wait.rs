//! Waiting without a host: for the cable to go, and for a person to start the meter.

use crate::clock::{BootClock, Clock};
use crate::sysfs::{NodePath, Nodes, find_all, read_i64, read_trimmed};
use std::time::{Duration, Instant};

/// What is waited for before a run begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Waits {
    /// The cable has to go, within this time.
    pub unplug_within: Option<Duration>,
    /// Time between that and the first load.
    pub delay: Duration,
    /// Bursts of load before the first trial.
    pub pulses: u32,
}

/// How often the cable is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long one burst of load lasts, and the pause after it.
const BURST: Duration = Duration::from_secs(1);
/// A wakelock lapses by itself after this long: one that is kept by name would outlive a killed process.
const AWAKE: Duration = Duration::from_secs(30);

/// Waits until nothing powers the device, `true`, or until `limit` is over, `false`.
pub(super) async fn for_unplug(nodes: &dyn Nodes, limit: Duration) -> bool {
    let start = BootClock.now();
    while powered(nodes) {
        if elapsed(start) > limit {
            return false;
        }
        stay_awake(nodes);
        tokio::time::sleep(LOOK).await;
    }
    true
}

/// Waits, awake.
pub(super) async fn settle(nodes: &dyn Nodes, time: Duration) {
    let start = BootClock.now();
    while let Some(left) = time.checked_sub(elapsed(start)).filter(|left| !left.is_zero()) {
        stay_awake(nodes);
        tokio::time::sleep(left.min(LOOK)).await;
    }
}

/// Loads every CPU for a moment, and says from when to when (boot clock, nanoseconds).
pub(super) fn pulse() -> (u64, u64) {
    let start = BootClock.now();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cpus {
            scope.spawn(burn);
        }
    });
    let end = BootClock.now();
    std::thread::sleep(BURST);
    (start.0, end.0)
}

fn burn() {
    let start = Instant::now();
    while start.elapsed() < BURST {
        std::hint::spin_loop();
    }
}

fn elapsed(start: crate::units::BootNanos) -> Duration {
    Duration::from_nanos(BootClock.now().0.saturating_sub(start.0))
}

/// Whether anything but a battery feeds the device.
fn powered(nodes: &dyn Nodes) -> bool {
    let supplies = find_all(nodes, "/sys/class/power_supply/*").unwrap_or_default();
    supplies.iter().any(|supply| {
        let is_battery = read_trimmed(nodes, &supply.join("type")).is_ok_and(|kind| kind == "Battery");
        !is_battery && read_i64(nodes, &supply.join("online")).is_ok_and(|online| online > 0)
    })
}

/// Keeps the device from sleeping for a while. Without the node (not Android) it does not sleep.
fn stay_awake(nodes: &dyn Nodes) {
    let wake_lock = NodePath::fixed("/sys/power/wake_lock");
    let _ = nodes.write(&wake_lock, &format!("opptune-untethered {}", AWAKE.as_nanos()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::doubles::MapNodes;

    fn phone(usb: &'static str) -> MapNodes {
        MapNodes::new(&[
            ("/sys/class/power_supply/battery/type", "Battery\n"),
            ("/sys/class/power_supply/battery/online", "1\n"),
            ("/sys/class/power_supply/usb/type", "USB\n"),
            ("/sys/class/power_supply/usb/online", usb),
        ])
    }

    #[tokio::test]
    async fn the_cable_is_waited_for_and_not_for_ever() {
        assert!(for_unplug(&phone("0\n"), Duration::ZERO).await);
        assert!(!for_unplug(&phone("1\n"), Duration::ZERO).await);
        assert!(for_unplug(&MapNodes::new(&[]), Duration::ZERO).await);
    }
}
