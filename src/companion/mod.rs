//! Companions: what must be put out of the way before a pin can hold.
//!
//! A power HAL that writes the same nodes, votes of a performance driver, a core that is offline, a charger that
//! hides the battery's current. Each is a plan of originals to save and writes to make, carried out and verified
//! like a restore. Nothing is done that the profile does not say; thermal control is touched only with
//! `accept-thermal-risk`.

mod charging;
mod plan;
#[cfg(test)]
mod tests;

use crate::guard::{Guard, GuardError, Place, put_back};
use crate::profile::{CompanionAction, CompanionSpec};
use crate::protocol::FailureClass;
use crate::sysfs::{NodeError, Nodes, Properties};
use plan::Plan;

/// Why a companion could not be put out of the way. Everything saved so far is with the guard, which restores it.
#[derive(Debug, thiserror::Error)]
pub enum CompanionError {
    /// It alters thermal control and the profile does not take the risk.
    #[error(
        "companion {id} alters thermal control, and the profile does not say `accept-thermal-risk = true`; \
         nothing of it was done"
    )]
    ThermalRisk {
        /// The companion.
        id: String,
    },
    /// What it needs is not on this device.
    #[error("companion {id}: {error}; if other builds of this device lack it too, make it `optional = true`")]
    Missing {
        /// The companion.
        id: String,
        /// The failed access.
        error: NodeError,
    },
    /// It was written and is not in force.
    #[error("companion {id} did not take: {}; something on the device puts it back", differs.join("; "))]
    DidNotTake {
        /// The companion.
        id: String,
        /// What differs, one line each.
        differs: Vec<String>,
    },
    /// The battery does not discharge although charging was suspended.
    #[error(
        "companion {id}: charging was suspended, but the gauge does not show the battery discharging ({seen}); \
         unplug the device, or make the companion optional and measure on the charger"
    )]
    StillCharging {
        /// The companion.
        id: String,
        /// What the gauge says.
        seen: String,
    },
    /// The originals could not be saved.
    #[error(transparent)]
    Guard(#[from] GuardError),
}

impl CompanionError {
    /// How a host is to treat it.
    pub fn class(&self) -> FailureClass {
        match self {
            CompanionError::ThermalRisk { .. } | CompanionError::Missing { .. } => FailureClass::Rejected,
            CompanionError::DidNotTake { .. } => FailureClass::Transient,
            CompanionError::StillCharging { .. } => FailureClass::Gate,
            CompanionError::Guard(error) => error.class(),
        }
    }
}

/// Puts the companions of a profile out of the way, in their order, before the knobs are looked for: a policy
/// whose CPUs are offline is not there, and what is saved first is restored last. Returns notes for people:
/// optional companions that are missing or did not take.
///
/// # Errors
/// The first companion that is not optional and failed; what was done before it is saved with the guard.
pub fn apply(
    specs: &[CompanionSpec],
    accept_thermal_risk: bool,
    nodes: &dyn Nodes,
    properties: &dyn Properties,
    guard: &mut Guard,
) -> Result<Vec<String>, CompanionError> {
    if let Some(spec) = specs.iter().find(|spec| spec.thermal && !accept_thermal_risk) {
        return Err(CompanionError::ThermalRisk { id: spec.id.clone() });
    }
    let mut notes = Vec::new();
    for spec in specs {
        match apply_one(spec, nodes, properties, guard) {
            Ok(note) => notes.extend(note.map(|note| format!("companion {}: {note}", spec.id))),
            Err(error @ CompanionError::Guard(_)) => return Err(error),
            Err(error) if spec.optional => notes.push(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    Ok(notes)
}

fn apply_one(
    spec: &CompanionSpec,
    nodes: &dyn Nodes,
    properties: &dyn Properties,
    guard: &mut Guard,
) -> Result<Option<String>, CompanionError> {
    let missing = |error| CompanionError::Missing { id: spec.id.clone(), error };
    let Plan { saves, writes } = plan::of(spec, nodes, properties).map_err(missing)?;
    if writes.is_empty() {
        return Ok(None);
    }
    let clock = guard.clock();
    let before = charging::look(nodes);
    guard.save(saves)?;
    let report = put_back(&writes, Place { nodes, properties, clock: &*clock });
    if !report.complete() {
        return Err(CompanionError::DidNotTake { id: spec.id.clone(), differs: report.differs });
    }
    match spec.action {
        CompanionAction::SuspendCharging { .. } => charging::verify(&spec.id, before, nodes, &*clock),
        CompanionAction::TopCpuset {} => match plan::below_top_cpuset(nodes).map_err(missing)? {
            None => Ok(None),
            Some(home) => Err(CompanionError::DidNotTake {
                id: spec.id.clone(),
                differs: vec![format!("the process is still in {home}")],
            }),
        },
        _ => Ok(None),
    }
}
