//! Which device an agent works on: the machine it runs on, or the twin that the profile describes.

use crate::clock::{BootClock, Clock};
use crate::device::Device;
use crate::engine::{Engine, EngineError, EngineKind, EngineSpec, SpinEngine};
use crate::profile::Profile;
use crate::sysfs::{AndroidProperties, NoProperties, Properties, RootedNodes};
use crate::trial::Origin;
use crate::twin;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for one node. An I2C gauge may take 100 ms; more is a driver that hangs.
const NODE_DEADLINE: Duration = Duration::from_secs(2);

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
