//! What the host is told when something failed: the class decides, the words are for people.

use super::gate::GateError;
use crate::companion::CompanionError;
use crate::engine::EngineError;
use crate::guard::GuardError;
use crate::knob::KnobError;
use crate::protocol::{Failure, FailureClass, RestoreReport};
use crate::sysfs::NodeFault;

/// State of a device that nothing was changed on.
pub const UNTOUCHED: &str = "Nothing on the device was changed";

/// A failure with nothing changed on the device.
pub fn untouched(class: FailureClass, what: impl ToString, next: &str) -> Failure {
    Failure { class, what: what.to_string(), state: UNTOUCHED.into(), next: next.into() }
}

/// What went wrong, before it is known how giving the device back went.
pub struct Cause {
    /// How to treat it.
    pub class: FailureClass,
    /// What failed.
    pub what: String,
    /// What to do next.
    pub next: &'static str,
}

impl Cause {
    /// The failure, when nothing on the device was changed.
    pub fn untouched(self) -> Failure {
        untouched(self.class, self.what, self.next)
    }

    /// The failure, with the state of the device after its knobs were given back.
    pub fn after(self, release: &RestoreReport) -> Failure {
        let state = match release.complete() {
            true => "Every knob of the device is back at its original".into(),
            false => format!("The device is not as it was: {}", release.differs.join("; ")),
        };
        let next = if release.complete() { self.next } else { "Run `opptune restore` on this device" };
        Failure { class: self.class, what: self.what, state, next: next.into() }
    }
}

impl From<GateError> for Cause {
    fn from(error: GateError) -> Self {
        let (class, next) = match error {
            GateError::TooHot { .. } => (FailureClass::Gate, "Let the device cool, then resume the run"),
            GateError::OutsideBand { .. } => {
                (FailureClass::Gate, "Resume when it is at that temperature, or set `gate.start-celsius`")
            }
            GateError::NoReading { .. } => {
                (FailureClass::Gate, "Run `opptune probe` to see which zones answer")
            }
            GateError::Cancelled => (FailureClass::Transient, "Resume the run"),
        };
        Cause { class, what: error.to_string(), next }
    }
}

impl From<KnobError> for Cause {
    fn from(error: KnobError) -> Self {
        let class = match &error {
            KnobError::Rejected { .. } => FailureClass::Rejected,
            KnobError::DidNotStick { .. } => FailureClass::Transient,
            KnobError::Unavailable { .. } => FailureClass::Unavailable,
            KnobError::Unreadable { .. } => FailureClass::Permanent,
            KnobError::Node { error, .. } => class_of(error.fault),
        };
        Cause { class, what: error.to_string(), next: "Run `opptune probe --check-pins` to see what holds" }
    }
}

fn class_of(fault: NodeFault) -> FailureClass {
    match fault {
        NodeFault::Busy | NodeFault::NoData | NodeFault::Timeout => FailureClass::Transient,
        NodeFault::NotFound => FailureClass::Unavailable,
        NodeFault::Invalid => FailureClass::Rejected,
        NodeFault::Denied | NodeFault::Other(_) => FailureClass::Permanent,
    }
}

impl From<EngineError> for Cause {
    fn from(error: EngineError) -> Self {
        let (class, next) = match error {
            EngineError::Rejected(_) => (FailureClass::Rejected, "Correct the `[engine]` part of the sweep"),
            EngineError::Cancelled => (FailureClass::Transient, "Resume the run"),
            EngineError::Failed(_) => {
                (FailureClass::Transient, "Resume the run; if it stays, see the agent's log")
            }
        };
        Cause { class, what: error.to_string(), next }
    }
}

impl From<GuardError> for Cause {
    fn from(error: GuardError) -> Self {
        Cause {
            class: error.class(),
            what: error.to_string(),
            next: "Run `opptune restore` to see what is owed",
        }
    }
}

impl From<CompanionError> for Cause {
    fn from(error: CompanionError) -> Self {
        let next = "Correct the companions of the profile, then try again";
        Cause { class: error.class(), what: error.to_string(), next }
    }
}
