//! The device below the agent: a contract between the agent and what is real or a twin. Nothing above asks which,
//! but to label results.

use crate::clock::Clock;
use crate::engine::{Engine, EngineError, EngineSpec};
use crate::sysfs::{Nodes, Properties};
use crate::trial::Origin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Makes the engine that runs on a device.
pub type EngineMaker =
    Box<dyn Fn(&EngineSpec, Arc<dyn Clock>) -> Result<Box<dyn Engine>, EngineError> + Send>;

/// Everything the agent needs of the machine below it.
pub struct Device {
    /// Node files.
    pub nodes: Arc<dyn Nodes>,
    /// Android properties.
    pub properties: Arc<dyn Properties>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Makes the engine.
    pub engine: EngineMaker,
    /// Whether its numbers are measured or simulated.
    pub origin: Origin,
    /// Whether the state of its nodes outlives this process, so that originals must be kept in a file and a
    /// restorer must stand by.
    pub outlives_agent: bool,
    /// Rate of a fixed spin loop on a CPU, for seeing whether work follows a pinned clock; `None` where no work
    /// is really done.
    pub work_rate: Option<fn(usize) -> Option<f64>>,
    /// Called at the start of every trial with the trial's seed. A twin rests and reseeds its noise here, so
    /// that a simulated trial depends on nothing but itself; a real device does nothing.
    pub begin_trial: Box<dyn Fn(u64) + Send>,
}

/// Locks what threads of the device side share. A panic under a lock ends the trial; what the lock holds is
/// still needed to put the device back.
pub(crate) fn lock<T: ?Sized>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(crate) mod doubles;
