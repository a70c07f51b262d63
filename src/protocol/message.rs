//! The messages.

use super::{DoctorReport, PinCheck, ProbeReport};
use crate::engine::{EngineInfo, EngineSpec};
use crate::knob::KnobInfo;
use crate::profile::Profile;
use crate::trial::{Measurement, Origin, SourceInfo, TrialId, TrialSpec};
use crate::units::{BootNanos, Celsius};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// From the host to the agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "say")]
pub enum ToAgent {
    /// First frame.
    Hello(HostHello),
    /// Takes the device: lock, restore if dirty, look, save originals, apply companions, load the engine.
    Open(Box<OpenRequest>),
    /// Runs one trial; answered by `Finished` or `TrialFailed`.
    Run(Box<TrialSpec>),
    /// Gives up the trial in flight.
    Cancel,
    /// Heartbeat. The agent's lease runs out when none arrives in time.
    Ping {
        /// Echoed.
        seq: u64,
    },
    /// Puts everything back and keeps the session; answered by `Restored`.
    Restore {
        /// Who may be made to leave the device, by name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        steal_from: Option<String>,
    },
    /// Looks at the device without changing it; answered by `Probed`.
    Probe {
        /// The profile to hold it against; one of a simulated device says that this is to be looked at.
        profile: Option<Box<Profile>>,
    },
    /// Walks every operating point of every knob of the open profile; answered by `PinsChecked`.
    CheckPins,
    /// Looks for what would spoil a run, with the profile to be used if one is known; answered by `Doctored`.
    Doctor {
        /// The profile.
        profile: Option<Box<Profile>>,
    },
    /// Ends the session: restores, answers `Bye`, exits.
    Bye,
}

/// From the agent to the host.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "say")]
pub enum ToHost {
    /// First frame.
    Hello(AgentHello),
    /// The device is taken.
    Opened(Box<Opened>),
    /// A trial changes phase; for people, not for decisions.
    Progress(Progress),
    /// What was sampled during a trial; comes before its `Finished`.
    Samples {
        /// Which.
        id: Box<TrialId>,
        /// Energy, clocks, limits, temperatures, latency over time.
        series: Vec<Series>,
    },
    /// A trial is done.
    Finished(Box<Measurement>),
    /// A trial is not done.
    TrialFailed {
        /// Which.
        id: Box<TrialId>,
        /// Why.
        failure: Failure,
    },
    /// Heartbeat answered.
    Pong {
        /// As sent.
        seq: u64,
    },
    /// Everything was put back, or not.
    Restored(RestoreReport),
    /// Answer to `Probe`.
    Probed(Box<ProbeReport>),
    /// Answer to `CheckPins`: the knobs, tried, and how putting them back went.
    PinsChecked {
        /// One per knob.
        knobs: Vec<PinCheck>,
        /// Everything put back, or not.
        restored: RestoreReport,
    },
    /// Answer to `Doctor`.
    Doctored(Box<DoctorReport>),
    /// A request other than a trial failed.
    Failed(Failure),
    /// The session is over.
    Bye(RestoreReport),
}

/// First frame from the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostHello {
    /// [`super::PROTOCOL_VERSION`] of the host.
    pub protocol: u32,
    /// Version of the host's build.
    pub build: String,
    /// The agent restores and leaves when it hears nothing for this long.
    pub lease_ms: u64,
}

/// First frame from the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentHello {
    /// [`super::PROTOCOL_VERSION`] of the agent.
    pub protocol: u32,
    /// Version of the agent's build.
    pub build: String,
    /// The machine it runs on: the device, unless that is simulated beside the agent.
    pub device: Fingerprint,
}

/// Identifies a device and what it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Model (`ro.product.model`, device tree model, DMI product, or a twin's name).
    pub model: String,
    /// SoC, where known.
    pub soc: String,
    /// Build fingerprint of the operating system.
    pub os: String,
    /// Kernel release.
    pub kernel: String,
    /// Machine architecture.
    pub arch: String,
    /// Changes with every boot.
    pub boot_id: String,
    /// Serial or machine id, hashed: tells devices apart without naming them.
    pub serial_hash: String,
}

/// What the host asks when it takes a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenRequest {
    /// The profile, whole: the agent has none of its own.
    pub profile: Profile,
    /// The engine to load; `None` only pins and measures (probe, check-pins).
    pub engine: Option<EngineSpec>,
    /// Seed of the run.
    pub seed: u64,
    /// Takes the device's lock although somebody holds it; must be the holder's name.
    pub steal_from: Option<String>,
    /// Name of this holder, for the lock.
    pub holder: String,
    /// Kind of energy source wanted, `None`: the first of the profile that is there.
    pub energy: Option<String>,
}

/// What the agent found when it took the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// The device that was taken.
    pub device: Fingerprint,
    /// Measured or simulated.
    pub origin: Origin,
    /// The knobs with their tables as the device lists them.
    pub knobs: Vec<KnobInfo>,
    /// The energy source in use; `None`: none is available, and why is among the notes.
    pub energy: Option<SourceInfo>,
    /// The engine, if one was asked for.
    pub engine: Option<EngineInfo>,
    /// Temperature of the gate's zone, where the profile names one: trials start from there, unless the
    /// configuration says otherwise.
    pub start: Option<Celsius>,
    /// Conditions of the run, as pairs for people and for comparing: battery, charging, screen, ambient, ...
    pub conditions: BTreeMap<String, String>,
    /// Set when the device was found dirty and was restored first.
    pub restored_first: Option<RestoreReport>,
    /// What the host should pass on: table differences, missing sensors, refused companions.
    pub notes: Vec<String>,
}

/// One quantity over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What it is, for example `clock.gpu` or `temperature.soc_therm`.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// When, on the device's boot clock, and how much. A value holds until the next.
    pub points: Vec<(BootNanos, f64)>,
}

/// A trial changes phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// `gate`, `pin`, `warm-up`, `measure`, `release`.
    pub phase: String,
    /// For people, for example `soc_therm 41.2 °C, waiting for 34.0 ±1.0`.
    pub detail: String,
}

/// How a failure is to be treated. Decided where it arises, never from the text of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureClass {
    /// The same input fails again: never retried.
    Rejected,
    /// May pass: retried with back-off, bounded.
    Transient,
    /// Device or asset gone: waited for.
    Unavailable,
    /// Recorded and skipped.
    Permanent,
    /// A gate refused (too hot, charging, locked).
    Gate,
}

/// A failure, for people and for decisions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{what}. {state}. {next}")]
pub struct Failure {
    /// How to treat it.
    pub class: FailureClass,
    /// What failed.
    pub what: String,
    /// What state the device is in now.
    pub state: String,
    /// What to type next.
    pub next: String,
}

/// What a restore did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreReport {
    /// Values that are back, verified.
    pub restored: usize,
    /// What differs, one line each: node, wanted, found.
    pub differs: Vec<String>,
    /// How long it took, milliseconds.
    pub took_ms: u64,
}

impl RestoreReport {
    /// Whether nothing differs.
    pub fn complete(&self) -> bool {
        self.differs.is_empty()
    }
}
