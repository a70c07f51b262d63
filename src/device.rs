//! The device below the agent: real, or a twin. Nothing above asks which, but to label results.

use crate::clock::{BootClock, Clock};
use crate::engine::{Engine, EngineError, EngineKind, EngineSpec, SpinEngine};
use crate::profile::Profile;
use crate::sysfs::{AndroidProperties, NoProperties, Nodes, Properties, RootedNodes};
use crate::trial::Origin;
use crate::twin;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Longest wait for one node. An I2C gauge may take 100 ms; more is a driver that hangs.
const NODE_DEADLINE: Duration = Duration::from_secs(2);

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

/// The device a profile describes: its twin, or the machine this process runs on with its node files below
/// `root` (`/`, or a directory that stands in for it in tests). `seed` is the twin's.
///
/// # Errors
/// When the profile describes a twin that cannot be built.
pub fn open(profile: &Profile, root: &Path, seed: u64) -> Result<Device, twin::TwinError> {
    match &profile.twin {
        Some(_) => twin::device(profile, seed),
        None => Ok(this_machine(root)),
    }
}

/// The machine this process runs on.
pub fn this_machine(root: &Path) -> Device {
    let properties: Arc<dyn Properties> = match root.join("system/bin/getprop").exists() {
        true => Arc::new(AndroidProperties),
        false => Arc::new(NoProperties),
    };
    let origin = origin(root);
    Device {
        nodes: Arc::new(RootedNodes::new(root, NODE_DEADLINE)),
        properties,
        clock: Arc::new(BootClock),
        engine: Box::new(make_engine),
        origin,
        outlives_agent: true,
        // A twin's clocks do not drive the CPUs that a loop would run on.
        work_rate: (origin == Origin::Measured).then_some(crate::engine::spin::work_rate as _),
        begin_trial: Box::new(|_| ()),
    }
}

/// A twin that is mounted as a file system says so, for its numbers must not pass as measured ones.
fn origin(root: &Path) -> Origin {
    match root.join(twin::MARKER.trim_start_matches('/')).exists() {
        true => Origin::Simulated,
        false => Origin::Measured,
    }
}

fn make_engine(spec: &EngineSpec, clock: Arc<dyn Clock>) -> Result<Box<dyn Engine>, EngineError> {
    match spec.kind {
        EngineKind::Spin => Ok(Box::new(SpinEngine::new(spec, clock)?)),
        #[cfg(feature = "llama")]
        EngineKind::Llama => Ok(Box::new(crate::engine::LlamaEngine::load(spec, clock)?)),
        #[cfg(not(feature = "llama"))]
        EngineKind::Llama => Err(EngineError::Rejected(
            "this agent is built without llama.cpp; build it with `--features llama`, or use engine kind `spin`"
                .into(),
        )),
        EngineKind::Twin => Err(EngineError::Rejected(
            "engine kind `twin` exists on simulated devices only; use `llama` or `spin` here".into(),
        )),
    }
}

/// Locks what threads of the device side share. A panic under a lock ends the trial; what the lock holds is
/// still needed to put the device back.
pub(crate) fn lock<T: ?Sized>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(crate) mod doubles;
