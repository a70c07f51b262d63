//! Quantities with their units. A bare number never stands for a frequency, an energy or a temperature.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident($inner:ty), $unit:literal, $digits:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("{:.", $digits, "} ", $unit), self.0)
            }
        }
    };
}

quantity!(
    /// Energy in millijoules.
    MilliJoule(f64), "mJ", "1"
);
quantity!(
    /// Power in milliwatts.
    MilliWatt(f64), "mW", "0"
);
quantity!(
    /// Temperature in degrees Celsius.
    Celsius(f64), "°C", "1"
);
quantity!(
    /// A span of time in milliseconds, as metrics report it.
    Millis(f64), "ms", "1"
);

impl MilliWatt {
    /// Energy drawn at this power over `span`.
    pub fn over(self, span: Duration) -> MilliJoule {
        MilliJoule(self.0 * span.as_secs_f64())
    }
}

impl From<Duration> for Millis {
    fn from(span: Duration) -> Self {
        Millis(span.as_secs_f64() * 1e3)
    }
}

/// An instant on the device's boot clock (`CLOCK_BOOTTIME`), in nanoseconds since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BootNanos(pub u64);

impl BootNanos {
    /// Time from `earlier` to `self`; zero if `earlier` is the later one.
    pub fn since(self, earlier: BootNanos) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The instant `span` after this one.
    pub fn plus(self, span: Duration) -> BootNanos {
        BootNanos(self.0.saturating_add(span.as_nanos() as u64))
    }
}

/// The unit that the operating points of a knob are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OppUnit {
    /// A clock in kHz, whatever unit the node itself speaks.
    KiloHertz,
    /// Bus bandwidth in MB/s (old Qualcomm bus governors).
    MegaBytesPerSecond,
    /// CPU time per wall time in thousandths of one CPU (cgroup quota).
    CpuPermille,
    /// A bare table index, for drivers that publish no frequency behind it.
    Index,
}

impl OppUnit {
    /// The unit behind a bare number.
    pub fn word(self) -> &'static str {
        match self {
            OppUnit::KiloHertz => "kHz",
            OppUnit::MegaBytesPerSecond => "MB/s",
            OppUnit::CpuPermille => "CPU/1000",
            OppUnit::Index => "index",
        }
    }
}

/// One operating point of a knob, in the knob's [`OppUnit`]. Larger is always faster, except for
/// [`OppUnit::Index`] where the knob documents its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Opp(pub u64);

impl Opp {
    /// The operating point as people read it: `848 MHz`, `1.25 CPU`, `12784 MB/s`, `#3`.
    pub fn show(self, unit: OppUnit) -> String {
        match unit {
            OppUnit::KiloHertz if self.0.is_multiple_of(1000) => format!("{} MHz", self.0 / 1000),
            OppUnit::KiloHertz => format!("{:.1} MHz", self.0 as f64 / 1e3),
            OppUnit::MegaBytesPerSecond => format!("{} MB/s", self.0),
            OppUnit::CpuPermille => format!("{:.2} CPU", self.0 as f64 / 1e3),
            OppUnit::Index => format!("#{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opps_read_in_the_units_of_the_field() {
        assert_eq!(Opp(848_000).show(OppUnit::KiloHertz), "848 MHz");
        assert_eq!(Opp(1_804_800).show(OppUnit::KiloHertz), "1804.8 MHz");
        assert_eq!(Opp(1250).show(OppUnit::CpuPermille), "1.25 CPU");
    }

    #[test]
    fn power_over_time_is_energy() {
        assert_eq!(MilliWatt(2000.0).over(Duration::from_millis(500)), MilliJoule(1000.0));
    }
}
