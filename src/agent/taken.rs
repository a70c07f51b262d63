//! A device that is taken for a session: its knobs with their originals saved, its companions applied, its
//! energy source, its zones and a loaded engine.

use super::conditions;
use super::failure::{Cause, untouched};
use super::machine;
use super::pins::{HeldKnob, Pins, SharedPins};
use crate::companion;
use crate::device::{Device, lock};
use crate::engine::Engine;
use crate::guard::{Feeder, Guard, GuardError, Launch};
use crate::knob;
use crate::profile::{KnobSpec, Profile, ThermalSpec};
use crate::protocol::{Failure, FailureClass, OpenRequest, Opened, RestoreReport};
use crate::sensor::{self, SharedSource, Zone};
use crate::units::Celsius;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The device, taken.
pub struct Taken {
    /// The machine below.
    pub device: Device,
    /// Its knobs, and the guard that holds their originals.
    pub handle: Handle,
    /// The engine, if one was asked for.
    pub engine: Option<Box<dyn Engine>>,
    /// The energy source; `None`: unavailable.
    pub source: Option<SharedSource>,
    /// Thermal zones.
    pub zones: Vec<Zone>,
    /// Type of the zone the gate watches.
    pub gate_zone: String,
    /// Nothing ran on the engine since it was loaded.
    pub cold: bool,
    /// The profile alters thermal control.
    pub thermal_risk: bool,
}

/// Where the agent keeps and looks for things.
#[derive(Clone, Debug)]
pub struct Places {
    /// How restorers are started, and the prefix of node files.
    pub launch: Launch,
    /// Directory of the lock and the restore file.
    pub state_dir: PathBuf,
    /// How long the restorer waits for a sign of life.
    pub lease: Duration,
}

/// What the session needs of a taken device while the worker is busy: to feed the guard, and to put the device
/// back should the worker hang in an engine or a driver.
#[derive(Clone)]
pub struct Handle {
    guard: Arc<Mutex<Guard>>,
    feeder: Feeder,
    /// The knobs.
    pub pins: SharedPins,
}

impl Handle {
    /// The host was heard: renews the lease of the restorer.
    ///
    /// # Errors
    /// When no restorer stands by: the device must be put back now.
    pub fn feed(&self) -> Result<(), GuardError> {
        self.feeder.feed()
    }

    /// Puts the device back, whatever the worker is doing: nothing is written by it from here on.
    pub fn restore(&self) -> RestoreReport {
        lock(&self.pins).close();
        lock(&self.guard).restore()
    }
}

/// Takes the device: lock, restore if dirty, find knobs, save originals, companions, sensors, engine. `publish` is told as soon
/// as there is something to put back, because loading an engine takes its time.
///
/// # Errors
/// A [`Failure`] with the device put back.
pub fn open(
    request: &OpenRequest,
    places: &Places,
    publish: impl FnOnce(Handle),
) -> Result<(Taken, Opened), Failure> {
    let device = machine::open(&request.profile, &places.launch.root, request.seed)
        .map_err(|e| untouched(FailureClass::Rejected, e, "Correct the profile"))?;
    let steal = request.steal_from.as_deref();
    let Places { launch, state_dir, lease } = places;
    let guard = Guard::take_with(&device, state_dir, &request.holder, steal, *lease, launch.clone())
        .map_err(|e| Cause::from(e).untouched())?;
    let handle = Handle {
        feeder: guard.feeder(),
        guard: Arc::new(Mutex::new(guard)),
        pins: Arc::new(Mutex::new(Pins::new(Vec::new(), &device))),
    };
    publish(handle.clone());
    fill(request, device, &handle).map_err(|cause| cause.after(&handle.restore()))
}

fn fill(request: &OpenRequest, device: Device, handle: &Handle) -> Result<(Taken, Opened), Cause> {
    let profile = &request.profile;
    let (conditions, mut notes) = change(profile, &device, handle)?;
    let (source, energy_notes) =
        sensor::open(&profile.energy, request.energy.as_deref(), &*device.nodes, &*device.clock);
    let (zones, zone_notes) = sensor::zones(&profile.thermal, &*device.nodes);
    notes.extend(energy_notes.into_iter().chain(zone_notes));
    let engine =
        request.engine.as_ref().map(|spec| (device.engine)(spec, device.clock.clone())).transpose()?;
    let opened = Opened {
        device: conditions::fingerprint(&*device.nodes, &*device.properties),
        origin: device.origin,
        knobs: lock(&handle.pins).knobs.iter().map(|held| held.knob.info().clone()).collect(),
        energy: source.as_ref().map(|source| source.info().clone()),
        engine: engine.as_ref().map(|engine| engine.info().clone()),
        start: temperature(&profile.thermal, &zones, &device),
        conditions,
        restored_first: lock(&handle.guard).restored_first().cloned(),
        notes,
    };
    let taken = Taken {
        handle: handle.clone(),
        engine,
        source: source.map(|source| Arc::new(Mutex::new(source))),
        cold: true,
        zones,
        gate_zone: profile.thermal.gate_zone.clone(),
        thermal_risk: profile.accept_thermal_risk,
        device,
    };
    Ok((taken, opened))
}

/// Everything of opening that saves or writes: notes the conditions, puts companions out of the way, finds the
/// knobs. The guard is locked all the while, so that a restore comes before or after it.
fn change(
    profile: &Profile,
    device: &Device,
    handle: &Handle,
) -> Result<(BTreeMap<String, String>, Vec<String>), Cause> {
    let mut guard = lock(&handle.guard);
    let conditions = conditions::conditions(device, profile);
    let (nodes, properties) = (&*device.nodes, &*device.properties);
    let risk = profile.accept_thermal_risk;
    let mut notes = companion::apply(&profile.companions, risk, nodes, properties, &mut guard)?;
    let knobs = hold_knobs(profile, device, &mut guard)?;
    notes.extend(knobs.iter().flat_map(|held| held.knob.info().table_notes.clone()));
    lock(&handle.pins).knobs = knobs;
    Ok((conditions, notes))
}

/// Finds every knob of the profile and saves its original before anything is written.
fn hold_knobs(profile: &Profile, device: &Device, guard: &mut Guard) -> Result<Vec<HeldKnob>, Cause> {
    profile.knobs.iter().map(|spec| hold(spec, device, guard)).collect()
}

fn hold(spec: &KnobSpec, device: &Device, guard: &mut Guard) -> Result<HeldKnob, Cause> {
    let knob = knob::open(spec, &*device.nodes)?;
    let originals = knob.snapshot(&*device.nodes)?;
    guard.save(originals.clone())?;
    Ok(HeldKnob { knob, originals, usage: spec.usage, pinned: None })
}

fn temperature(spec: &ThermalSpec, zones: &[Zone], device: &Device) -> Option<Celsius> {
    zones.iter().find(|zone| zone.kind == spec.gate_zone)?.read(&*device.nodes)
}
