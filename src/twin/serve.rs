//! The twin as others see it: node files, properties, a device.

use super::clock::{Tickers, TwinClock};
use super::engine::TwinEngine;
use super::machine::{Entry, Machine};
use super::{TwinError, check};
use crate::device::Device;
use crate::engine::Engine;
use crate::profile::Profile;
use crate::sysfs::{NoProperties, NodeError, NodePath, Nodes, Properties};
use crate::trial::Origin;
use crate::units::{BootNanos, Celsius, MilliWatt};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A simulated device. Clones are the same device.
#[derive(Clone)]
pub struct Twin(pub(super) Arc<Shared>);

/// What the parts of a twin share.
pub(super) struct Shared {
    machine: Mutex<Machine>,
    pub(super) tickers: Tickers,
    properties: Mutex<BTreeMap<String, String>>,
}

impl Shared {
    pub(super) fn machine(&self) -> MutexGuard<'_, Machine> {
        // A panic elsewhere leaves a simulation that is still consistent enough to be read.
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Twin {
    /// The twin of a profile; `seed` is the run's.
    ///
    /// # Errors
    /// [`TwinError`] when the profile has no usable `[twin]` table.
    pub fn new(profile: &Profile, seed: u64) -> Result<Self, TwinError> {
        let spec = check::checked(profile)?;
        Ok(Twin(Arc::new(Shared {
            machine: Mutex::new(Machine::new(profile, spec, seed)),
            tickers: Tickers::default(),
            properties: Mutex::new(spec.properties.clone()),
        })))
    }

    /// The twin as the agent's device.
    pub fn device(&self) -> Device {
        let (maker, trials) = (self.clone(), self.clone());
        Device {
            nodes: Arc::new(TwinNodes(self.clone())),
            properties: self.properties(),
            clock: Arc::new(TwinClock(self.clone())),
            engine: Box::new(move |spec, _clock| {
                Ok(Box::new(TwinEngine::new(maker.clone(), spec)?) as Box<dyn Engine>)
            }),
            origin: Origin::Simulated,
            outlives_agent: false,
            work_rate: None,
            begin_trial: Box::new(move |seed| trials.begin_trial(seed)),
        }
    }

    fn properties(&self) -> Arc<dyn Properties> {
        let none = self.0.properties.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        if none { Arc::new(NoProperties) } else { Arc::new(TwinProperties(self.clone())) }
    }

    /// Begins a trial, see [`Device::begin_trial`].
    pub fn begin_trial(&self, seed: u64) {
        self.0.machine().begin_trial(seed);
    }

    /// Carries out a command to misbehave, see the text of the control node.
    ///
    /// # Errors
    /// What is wrong with the command.
    pub fn control(&self, line: &str) -> Result<(), String> {
        self.0.machine().control(line)
    }

    /// What is behind a path.
    pub fn entry(&self, path: &str) -> Option<Entry> {
        self.0.machine().entry(path)
    }

    /// Reads a node.
    ///
    /// # Errors
    /// The errno of the driver.
    pub fn read(&self, path: &str) -> Result<String, i32> {
        self.0.machine().read(path)
    }

    /// Writes a node, with the text exactly as a driver gets it.
    ///
    /// # Errors
    /// The errno of the driver.
    pub fn write(&self, path: &str, text: &str) -> Result<(), i32> {
        self.0.machine().write(path, text)
    }

    /// Names of the entries of a directory.
    ///
    /// # Errors
    /// ENOENT.
    pub fn list(&self, path: &str) -> Result<Vec<String>, i32> {
        self.0.machine().list(path)
    }

    /// Makes a cgroup.
    ///
    /// # Errors
    /// An errno.
    pub fn make_dir(&self, path: &str) -> Result<(), i32> {
        self.0.machine().make_dir(path)
    }

    /// Removes a cgroup.
    ///
    /// # Errors
    /// An errno.
    pub fn remove_dir(&self, path: &str) -> Result<(), i32> {
        self.0.machine().remove_dir(path)
    }

    /// Time since boot.
    pub fn now(&self) -> BootNanos {
        BootNanos(self.0.machine().soc.now)
    }

    /// Power of the whole device now, as no sensor of it shows it: without delay or quantisation.
    pub fn power(&self) -> MilliWatt {
        self.0.machine().soc.power()
    }

    /// Temperature of the die.
    pub fn die(&self) -> Celsius {
        Celsius(self.0.machine().soc.heat.die)
    }
}

/// The node files of a twin.
pub struct TwinNodes(pub(super) Twin);

fn unless(fine: i32, result: Result<(), i32>) -> Result<(), i32> {
    match result {
        Err(errno) if errno == fine => Ok(()),
        other => other,
    }
}

impl Nodes for TwinNodes {
    fn read(&self, path: &NodePath) -> Result<String, NodeError> {
        self.0.read(path.as_str()).map_err(|errno| NodeError::from_errno("read", path, errno))
    }

    fn write(&self, path: &NodePath, text: &str) -> Result<(), NodeError> {
        let result = self.0.write(path.as_str(), &format!("{text}\n"));
        result.map_err(|errno| NodeError::from_errno("write", path, errno))
    }

    fn list(&self, dir: &NodePath) -> Result<Vec<String>, NodeError> {
        self.0.list(dir.as_str()).map_err(|errno| NodeError::from_errno("list", dir, errno))
    }

    fn exists(&self, path: &NodePath) -> bool {
        self.0.entry(path.as_str().trim_end_matches('/')).is_some()
    }

    fn make_dir(&self, dir: &NodePath) -> Result<(), NodeError> {
        let result = unless(libc::EEXIST, self.0.make_dir(dir.as_str()));
        result.map_err(|errno| NodeError::from_errno("make", dir, errno))
    }

    fn remove_dir(&self, dir: &NodePath) -> Result<(), NodeError> {
        let result = unless(libc::ENOENT, self.0.remove_dir(dir.as_str()));
        result.map_err(|errno| NodeError::from_errno("remove", dir, errno))
    }
}

/// The Android properties of a twin.
pub struct TwinProperties(Twin);

impl Properties for TwinProperties {
    fn get(&self, name: &str) -> Result<String, NodeError> {
        let properties = self.0.0.properties.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(properties.get(name).cloned().unwrap_or_default())
    }

    fn set(&self, name: &str, value: &str) -> Result<(), NodeError> {
        let mut properties = self.0.0.properties.lock().unwrap_or_else(PoisonError::into_inner);
        properties.insert(name.into(), value.into());
        Ok(())
    }
}
