//! Sensors, and devices that misbehave.

use super::{BIG, Phone};
use crate::twin::CONTROL;

#[test]
fn what_an_attribute_does_not_offer_is_refused() {
    let phone = Phone::new("pixel-7");
    assert_eq!(phone.put(&format!("{BIG}/scaling_cur_freq"), "1"), Err(libc::EACCES));
    assert_eq!(phone.put("/sys/nothing", "1"), Err(libc::ENOENT));
    assert_eq!(phone.0.read("/sys"), Err(libc::EISDIR));
}

#[test]
fn a_fighting_daemon_opens_a_pin_and_a_deaf_knob_ignores_it() {
    let phone = Phone::new("pixel-7");
    phone.tell("fight cpu-big 50");
    phone.set(&format!("{BIG}/scaling_max_freq"), "984000");
    phone.wait(40);
    assert_eq!(phone.get(&format!("{BIG}/scaling_max_freq")), "984000");
    phone.wait(20);
    assert_eq!(phone.get(&format!("{BIG}/scaling_max_freq")), "2850000");
    phone.set(CONTROL, "calm\ndeaf cpu-big");
    phone.set(&format!("{BIG}/scaling_max_freq"), "984000");
    assert_eq!(phone.get(&format!("{BIG}/scaling_max_freq")), "2850000");
    assert_eq!(phone.put(CONTROL, "dance"), Err(libc::EINVAL));
}

#[test]
fn a_failing_zone_leaves_its_neighbours_alone_and_units_differ() {
    let phone = Phone::new("exynos-2400");
    phone.tell("heat 60");
    assert_eq!(phone.get("/sys/class/thermal/thermal_zone0/temp"), "60");
    assert_eq!(phone.get("/sys/class/thermal/thermal_zone1/temp"), "60000");
    phone.tell("zone-fails BIG");
    assert_eq!(phone.0.read("/sys/class/thermal/thermal_zone0/temp"), Err(libc::EINVAL));
    assert_eq!(phone.get("/sys/class/thermal/thermal_zone1/temp"), "60000");
}

#[test]
fn a_hot_die_is_throttled_step_by_step_and_recovers() {
    let phone = Phone::new("pixel-7");
    phone.set(&format!("{BIG}/scaling_min_freq"), "2850000");
    phone.tell("heat 95");
    phone.wait(400);
    let capped: u64 = phone.get(&format!("{BIG}/scaling_max_freq")).parse().unwrap();
    assert!(capped < 2_850_000, "{capped}");
    assert!(phone.get("/sys/class/thermal/cooling_device2/cur_state").parse::<u32>().unwrap() > 0);
    phone.tell("heat 40");
    phone.wait(2000);
    assert_eq!(phone.get(&format!("{BIG}/scaling_max_freq")), "2850000");
}

#[test]
fn the_gauge_has_its_units_sign_and_period() {
    let old = Phone::new("legacy-qualcomm");
    let current = "/sys/class/power_supply/battery/current_now";
    old.wait(2000);
    let idle: i64 = old.get(current).parse().unwrap();
    assert!(idle > 0, "positive in discharge: {idle}");
    old.tell("load 1");
    old.wait(500);
    // The shown power is still the old one; the voltage moves with the charge.
    assert!((old.get(current).parse::<i64>().unwrap() - idle).abs() < 20);
    old.wait(1500);
    assert!(old.get(current).parse::<i64>().unwrap() > 2 * idle);
    let samsung: i64 = Phone::new("exynos-2400").get(current).parse().unwrap();
    assert!((-20_000..0).contains(&samsung), "mA, negative in discharge: {samsung}");
    let charged = Phone::new("snapdragon-8-gen-2");
    charged.tell("plug");
    assert_eq!(charged.get("/sys/class/power_supply/battery/status"), "Charging");
    assert!(charged.get(current).parse::<i64>().unwrap() > 0);
    charged.set("/sys/class/power_supply/battery/input_suspend", "1");
    assert!(charged.get(current).parse::<i64>().unwrap() < 0);
}
