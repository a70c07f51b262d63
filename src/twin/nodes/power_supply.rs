//! The battery's power_supply, and the USB supply beside it. Source: Linux
//! Documentation/ABI/testing/sysfs-class-power.

use super::{Driver, Shown, Stored, line, whole};
use crate::twin::battery::Battery;
use crate::twin::soc::Soc;

const ATTRS: [&str; 9] = [
    "type",
    "scope",
    "status",
    "present",
    "voltage_now",
    "current_now",
    "capacity",
    "temp",
    "charge_counter",
];

/// The battery's supply.
pub struct Supply {
    suspend_node: Option<String>,
}

impl Supply {
    /// The supply of the SoC's battery.
    pub fn new(battery: &Battery) -> Self {
        Supply { suspend_node: battery.spec.suspend_node.clone() }
    }
}

impl Driver for Supply {
    fn attrs(&self) -> Vec<(String, u16)> {
        let fixed = ATTRS.iter().map(|name| ((*name).to_owned(), 0o444));
        fixed.chain(self.suspend_node.iter().map(|name| (name.clone(), 0o644))).collect()
    }

    fn show(&self, attr: usize, soc: &Soc) -> Shown {
        let battery = soc.battery.as_ref().ok_or(libc::ENODEV)?;
        let (volts, amps) = battery.shown();
        match ATTRS.get(attr).copied().unwrap_or("suspend") {
            "type" => line("Battery"),
            "scope" => line("System"),
            "status" => line(status(battery)),
            "present" => line(1),
            "voltage_now" => line((volts * 1e6).round() as i64),
            "current_now" => line(current(battery, amps)),
            "capacity" => line((battery.charge() * 100.0).floor()),
            "temp" => line((soc.heat.battery * 10.0).round() as i64),
            "charge_counter" => line((battery.charge() * battery.spec.capacity_mwh / 3.85 * 1e3).round()),
            _ => line(u8::from(battery.suspended)),
        }
    }

    fn store(&mut self, attr: usize, soc: &mut Soc, text: &str) -> Stored {
        if attr < ATTRS.len() {
            return Err(libc::EACCES);
        }
        let battery = soc.battery.as_mut().ok_or(libc::ENODEV)?;
        battery.suspended = whole::<u8>(text)? != 0;
        Ok(())
    }
}

fn status(battery: &Battery) -> &'static str {
    match (battery.spec.plugged, battery.charging()) {
        (true, true) => "Charging",
        // Charging is suspended and the device runs from the battery.
        _ => "Discharging",
    }
}

/// `current_now` in the unit and sign of this gauge.
fn current(battery: &Battery, amps_out: f64) -> i64 {
    let unit = if battery.spec.milli_amp { 1e3 } else { 1e6 };
    let sign = if battery.spec.discharge_positive { 1.0 } else { -1.0 };
    (sign * amps_out * unit).round() as i64
}

/// The USB supply.
pub struct Usb;

impl super::Family for Usb {
    fn table(&self) -> &'static [super::Attr<Self>] {
        USB_ATTRS
    }
}

const USB_ATTRS: &[super::Attr<Usb>] = &[
    super::ro("type", |_, _| line("USB")),
    super::ro("online", |_, soc| plugged(soc)),
    super::ro("present", |_, soc| plugged(soc)),
];

fn plugged(soc: &Soc) -> Shown {
    line(u8::from(soc.battery.as_ref().is_some_and(|battery| battery.spec.plugged)))
}
