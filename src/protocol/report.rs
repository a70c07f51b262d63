//! Reports of probe, check-pins and doctor.

use super::Fingerprint;
use crate::knob::{KnobInfo, Limit};
use crate::profile::ZoneRole;
use crate::profile::{CompanionAction, DriverSpec, Role};
use crate::trial::{KnobId, Origin};
use crate::units::{Celsius, Opp, OppUnit};
use serde::{Deserialize, Serialize};

/// What a device has, found by reading only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// The device.
    pub device: Fingerprint,
    /// Measured or simulated.
    pub origin: Origin,
    /// Frequency domains.
    pub knobs: Vec<FoundKnob>,
    /// Energy sources.
    pub energy: Vec<FoundSource>,
    /// Thermal zones.
    pub zones: Vec<FoundZone>,
    /// Things that would fight a pin.
    pub companions: Vec<FoundCompanion>,
    /// The profile it was held against, if one was known.
    #[serde(default)]
    pub profile: Option<ProfileFit>,
}

/// A device held against a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfileFit {
    /// The profile.
    pub name: String,
    /// Where the device is not as the profile says, one line each.
    pub differs: Vec<String>,
}

/// A frequency domain of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoundKnob {
    /// What it drives.
    pub role: Role,
    /// Driver family and nodes, ready for a profile.
    pub driver: DriverSpec,
    /// Its table, if it could be read.
    pub info: Option<KnobInfo>,
    /// The clock now.
    pub clock: Option<Opp>,
    /// Effective limits now.
    pub limits: Vec<Limit>,
    /// Why it cannot be used, if it cannot.
    pub problem: Option<String>,
}

/// An energy source of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoundSource {
    /// `gauge`, `odpm`, `rapl`, `meter`.
    pub kind: String,
    /// Its name or node.
    pub name: String,
    /// What it says now, or why it says nothing.
    pub reading: String,
}

/// A thermal zone of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoundZone {
    /// The zone's `type`.
    pub kind: String,
    /// What its name suggests it is near to.
    pub role: Option<ZoneRole>,
    /// Temperature now; `None`: the zone gives none.
    pub now: Option<Celsius>,
}

/// Something that would fight a pin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoundCompanion {
    /// Its name, as profiles use it.
    pub id: String,
    /// The node.
    pub node: String,
    /// What it says now.
    pub value: String,
    /// What a profile would declare against it, where that is known to be safe.
    pub action: Option<CompanionAction>,
}

/// Every operating point of one knob, tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PinCheck {
    /// The knob.
    pub knob: KnobId,
    /// Its unit.
    pub unit: OppUnit,
    /// One row per operating point, slowest first.
    pub rows: Vec<PinRow>,
    /// Why the work rate says nothing, where it says nothing.
    pub work_rate_note: Option<String>,
}

/// One operating point, tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PinRow {
    /// Asked.
    pub opp: Opp,
    /// Read back.
    pub accepted: Option<Opp>,
    /// Seen on the clock.
    pub clock: Option<Opp>,
    /// Spin-loop rate over clock, relative to the fastest operating point: 1.0 where work follows the clock.
    pub work_rate: Option<f64>,
    /// What is wrong; `None`: it held.
    pub problem: Option<String>,
}

/// What would spoil a run tonight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DoctorReport {
    /// The device.
    pub device: Fingerprint,
    /// Measured or simulated.
    pub origin: Origin,
    /// One per check, in the order they were made.
    pub findings: Vec<Finding>,
}

/// The outcome of one check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The check, for example `charging`.
    pub check: String,
    /// How bad it is.
    pub grade: Grade,
    /// What was found.
    pub found: String,
    /// What to do; empty when it is fine.
    pub advice: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// As it should be.
    Fine,
    /// Results may suffer.
    Warn,
    /// The run would fail or be worthless.
    Stop,
}
