//! Energy sources, temperature zones and the sampler that reads them while a stage runs.

use crate::sysfs::{NodeError, NodePath, Nodes};
use crate::trial::SourceInfo;
use crate::units::{BootNanos, Celsius, MilliWatt};
use serde::{Deserialize, Serialize};

/// One reading of an energy source.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EnergyReading {
    /// Energy since some origin, in microjoules, valid at the source's own time stamp.
    Cumulative {
        /// When the value was true, by the source's own clock where it prints one.
        at: BootNanos,
        /// Microjoules since the source's origin.
        micro_joules: f64,
    },
    /// Power at an instant. Positive: drawn from the battery.
    Instant {
        /// When it was read.
        at: BootNanos,
        /// Power drawn.
        power: MilliWatt,
    },
}

/// A source of whole-device or rail energy.
pub trait EnergySource: Send {
    /// What kind of quantity this is, and its conditions.
    fn info(&self) -> &SourceInfo;

    /// Reads it.
    ///
    /// # Errors
    /// When the source gives no value now (asleep, sentinel value, gone).
    fn read(&mut self, nodes: &dyn Nodes, now: BootNanos) -> Result<EnergyReading, NodeError>;
}

/// What a temperature zone is near to; decides which limit of the gate holds for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ZoneRole {
    /// On the die.
    Soc,
    /// The housing.
    Skin,
    /// The battery.
    Battery,
}

/// A thermal zone, found by its type because zone numbers change from boot to boot.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    /// The zone's `type`.
    pub kind: String,
    /// What it is near to.
    pub role: ZoneRole,
    /// Its `temp` node.
    pub node: NodePath,
}

impl Zone {
    /// The temperature, or `None` when the zone gives none at the moment (EINVAL, sentinel): zones are skipped
    /// one by one, never as a whole.
    pub fn read(&self, nodes: &dyn Nodes) -> Option<Celsius> {
        let raw = crate::sysfs::read_i64(nodes, &self.node).ok()?;
        celsius_from_raw(raw)
    }
}

/// Vendors print milli-, deci- and plain degrees; the magnitude tells which. Values outside -40..150 °C are
/// sentinels.
pub fn celsius_from_raw(raw: i64) -> Option<Celsius> {
    let value = match raw.unsigned_abs() {
        0..=150 => raw as f64,
        151..=1500 => raw as f64 / 10.0,
        _ => raw as f64 / 1000.0,
    };
    (-40.0..=150.0).contains(&value).then_some(Celsius(value))
}
