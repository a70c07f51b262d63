//! Energy sources, temperature zones and the sampler that reads them while a stage runs. One file per source;
//! the profile lists which ones a device has, best first.

mod gauge;
mod learn;
mod meter;
mod modelled;
mod odpm;
mod rapl;
mod sampler;
mod zones;

pub use gauge::{MILLIAMP_BELOW, first_battery};
pub use sampler::{Sampler, Samples, SharedSource};
pub use zones::zones;

use crate::clock::Clock;
use crate::profile::{EnergySpec, ZoneRole};
use crate::sysfs::{NodeError, NodeFault, NodePath, Nodes};
use crate::trial::{EnergyKind, SourceInfo};
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

/// Opens the first source of the profile that is there and is of the wanted kind (`gauge`, `rail`, `rapl`,
/// `meter`, `modelled`; `None`: any). Every source that was passed over is named in the notes with its reason.
/// When none is left the answer is `None`, never an estimate.
pub fn open(
    specs: &[EnergySpec],
    wanted: Option<&str>,
    nodes: &dyn Nodes,
    clock: &dyn Clock,
) -> (Option<Box<dyn EnergySource>>, Vec<String>) {
    let mut notes = Vec::new();
    let asked = |spec: &&EnergySpec| wanted.is_none_or(|kind| kind == kind_of(spec).to_string());
    for spec in specs.iter().filter(asked) {
        match open_one(spec, nodes, clock) {
            Ok(source) => return (Some(source), notes),
            Err(why) => notes.push(format!("energy source {} is not available: {why}", kind_of(spec))),
        }
    }
    notes.push(match wanted {
        Some(kind) => format!("energy is unavailable: the profile has no usable source of kind {kind}"),
        None => "energy is unavailable: the profile has no usable source".into(),
    });
    (None, notes)
}

fn kind_of(spec: &EnergySpec) -> EnergyKind {
    match spec {
        EnergySpec::Gauge { .. } => EnergyKind::Gauge,
        EnergySpec::Odpm { .. } => EnergyKind::Rail,
        EnergySpec::Rapl {} => EnergyKind::Rapl,
        EnergySpec::Meter { .. } => EnergyKind::Meter,
        EnergySpec::Modelled { .. } => EnergyKind::Modelled,
    }
}

fn open_one(
    spec: &EnergySpec,
    nodes: &dyn Nodes,
    clock: &dyn Clock,
) -> Result<Box<dyn EnergySource>, NodeError> {
    Ok(match spec {
        EnergySpec::Gauge { supply, unit, discharge_sign, period_ms } => {
            let known = gauge::Known { unit: *unit, sign: *discharge_sign, period_ms: *period_ms };
            Box::new(gauge::Gauge::open(supply, known, nodes, clock)?)
        }
        EnergySpec::Odpm { rails } => Box::new(odpm::Odpm::open(rails, nodes)?),
        EnergySpec::Rapl {} => Box::new(rapl::Rapl::open(nodes)?),
        EnergySpec::Meter { node } => Box::new(meter::Meter::open(node, nodes, clock)?),
        EnergySpec::Modelled { idle_mw, active_mw_per_cpu } => {
            Box::new(modelled::Modelled::new(MilliWatt(*idle_mw), MilliWatt(*active_mw_per_cpu)))
        }
    })
}

/// A directory of the class that every Linux has; the parts are constants of this program.
fn class(path: &str) -> Result<NodePath, NodeError> {
    NodePath::new(path).map_err(|why| silent(path, why))
}

/// A node that answered, but not with a value: sentinel, wrong text, nothing that fits.
fn silent(path: impl ToString, detail: impl Into<String>) -> NodeError {
    NodeError { op: "read".into(), path: path.to_string(), fault: NodeFault::NoData, detail: detail.into() }
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
