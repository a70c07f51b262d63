//! A device in one agent's hands: locked, saved, leased, restored.

use super::lease::Lease;
use super::lock::Lock;
use super::put_back::{Place, put_back};
use super::store::{LastRestore, Store};
use super::{GuardError, RestoreStep};
use crate::clock::{BootClock, Clock};
use crate::device::Device;
use crate::protocol::RestoreReport;
use crate::sysfs::{Nodes, Properties};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How often a lease is renewed within its length while the device is restored before anything else.
const FEEDS: u32 = 4;

/// How restorers are started: a program that hands what follows `restorer` to [`super::restorer::run`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The program.
    pub program: PathBuf,
    /// Words before `restorer`, for programs whose agent is a subcommand.
    pub prefix: Vec<String>,
    /// Prefix of the device's node files.
    pub root: PathBuf,
}

impl Launch {
    /// This very program, for the device below `root`.
    ///
    /// # Errors
    /// When the system does not tell which program runs.
    pub fn this_program(root: &Path) -> io::Result<Self> {
        Ok(Launch { program: std::env::current_exe()?, prefix: Vec::new(), root: root.to_owned() })
    }
}

/// What outlives the agent. Absent on a twin inside the agent's own process: nothing of that outlives it.
struct Durable {
    store: Store,
    lease: Arc<Lease>,
    _lock: Lock,
    last: Option<LastRestore>,
}

/// A device in our hands. Dropping it restores.
///
/// Nothing may be written to the device before the originals of what is written were [saved](Guard::save); after
/// a [restore](Guard::restore) they have to be saved anew.
pub struct Guard {
    nodes: Arc<dyn Nodes>,
    properties: Arc<dyn Properties>,
    clock: Arc<dyn Clock>,
    steps: Vec<RestoreStep>,
    durable: Option<Durable>,
    restored_first: Option<RestoreReport>,
}

/// Renews the lease from another thread.
#[derive(Clone)]
pub struct Feeder(Option<Arc<Lease>>);

impl Feeder {
    /// Renews the lease of the restorer; starts another one if it is gone.
    ///
    /// # Errors
    /// [`GuardError::Restorer`] when none can be started: the device must be restored now.
    pub fn feed(&self) -> Result<(), GuardError> {
        self.0.as_ref().map_or(Ok(()), |lease| lease.feed())
    }
}

impl Guard {
    /// Takes the device as `holder`: locks it, starts the restorer as `launch` says, restores the device first if
    /// it was left changed. `lease` is how long the agent may be silent before the restorer puts things back.
    ///
    /// # Errors
    /// [`GuardError::Held`] and [`GuardError::NotTheHolder`] name the holder; [`GuardError::Dirty`] when the
    /// device cannot be put back as it was before an earlier run.
    pub fn take_with(
        device: &Device,
        state_dir: &Path,
        holder: &str,
        steal_from: Option<&str>,
        lease: Duration,
        launch: Launch,
    ) -> Result<Guard, GuardError> {
        let mut guard = Guard {
            nodes: device.nodes.clone(),
            properties: device.properties.clone(),
            clock: device.clock.clone(),
            steps: Vec::new(),
            durable: None,
            restored_first: None,
        };
        if device.outlives_agent {
            let store = Store::open(state_dir, &*device.nodes)?;
            let lock = Lock::take(state_dir, holder, steal_from)?;
            let last = store.last();
            let every = lease / FEEDS;
            // With the lock we took the duty to restore from any earlier restorer: ours must stand by before we do.
            let lease = Arc::new(Lease::start(launch, state_dir, lease)?);
            guard.restored_first = restore_fed(&store, guard.place(), &lease, every)?;
            if let Some(RestoreReport { differs, .. }) = guard.restored_first.take_if(|r| !r.complete()) {
                // The lease ends without a goodbye: the restorer goes on trying.
                return Err(GuardError::Dirty { differs });
            }
            guard.durable = Some(Durable { store, lease, _lock: lock, last });
        }
        Ok(guard)
    }

    fn place(&self) -> Place<'_> {
        Place { nodes: &*self.nodes, properties: &*self.properties, clock: &*self.clock }
    }

    /// Set when the device was found changed and was put back before anything else.
    pub fn restored_first(&self) -> Option<&RestoreReport> {
        self.restored_first.as_ref()
    }

    /// What a restorer did here last, if one ever had to.
    pub fn last_restore(&self) -> Option<&LastRestore> {
        self.durable.as_ref()?.last.as_ref()
    }

    /// The device's clock.
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    /// Saves originals, durable when this returns. Of an owner that has saved already the first originals stay:
    /// what it would save now are its own changes.
    ///
    /// # Errors
    /// [`GuardError::State`]; nothing may be written then.
    pub fn save(&mut self, steps: Vec<RestoreStep>) -> Result<(), GuardError> {
        let known: Vec<String> = self.steps.iter().map(|step| step.owner.clone()).collect();
        let mut all = self.steps.clone();
        all.extend(steps.into_iter().filter(|step| !known.contains(&step.owner)));
        if let Some(durable) = &self.durable {
            durable.store.save(&all)?;
        }
        self.steps = all;
        Ok(())
    }

    /// Renews the lease; see [`Feeder::feed`].
    ///
    /// # Errors
    /// As there.
    pub fn feed(&self) -> Result<(), GuardError> {
        self.feeder().feed()
    }

    /// A handle that renews the lease from another thread.
    pub fn feeder(&self) -> Feeder {
        Feeder(self.durable.as_ref().map(|durable| durable.lease.clone()))
    }

    /// Puts back what `owner` saved (a knob after a trial). It stays saved.
    pub fn release(&self, owner: &str) -> RestoreReport {
        let own: Vec<RestoreStep> = self.steps.iter().filter(|step| step.owner == owner).cloned().collect();
        put_back(&own, self.place())
    }

    /// Puts everything back. When nothing differs, nothing is saved any more; else it all stays saved and can
    /// be restored again.
    pub fn restore(&mut self) -> RestoreReport {
        let mut report = put_back(&self.steps, self.place());
        if report.complete() {
            // The device is as it was; a file that cannot be removed only costs a needless restore.
            if let Some(Err(e)) = self.durable.as_ref().map(|durable| durable.store.clear()) {
                report.differs.push(e.to_string());
            }
            self.steps.clear();
        }
        report
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let complete = self.steps.is_empty() || self.restore().complete();
        match &self.durable {
            // Something differs: without the goodbye the restorer goes on trying after we are gone.
            Some(durable) if complete => durable.lease.goodbye(),
            _ => {}
        }
    }
}

/// Restores what the file owes; nothing if it owes nothing.
fn restore_owed(store: &Store, place: Place) -> Result<Option<RestoreReport>, GuardError> {
    let steps = store.load()?;
    let report = (!steps.is_empty()).then(|| put_back(&steps, place));
    if report.as_ref().is_none_or(RestoreReport::complete) {
        store.clear()?;
    }
    Ok(report)
}

/// The same, with the lease renewed at intervals: putting back what resists may take longer than the lease.
fn restore_fed(
    store: &Store,
    place: Place,
    lease: &Arc<Lease>,
    every: Duration,
) -> Result<Option<RestoreReport>, GuardError> {
    let lease = lease.clone();
    // A restorer that cannot be replaced now is found missing by the next feed.
    let _feeding = BootClock.every(every, Box::new(move || drop(lease.feed())));
    restore_owed(store, place)
}

/// Restores the device by hand: what `state_dir` says is owed, whoever left it. Needs no profile; a second time
/// is harmless, and nothing to do is a fine answer. A device that is held is taken from `steal_from` only.
///
/// # Errors
/// [`GuardError::Held`] while an agent measures, [`GuardError::NotTheHolder`]; [`GuardError::State`] and
/// [`GuardError::Foreign`] when the file cannot be used.
pub fn restore_from(
    state_dir: &Path,
    nodes: &dyn Nodes,
    properties: &dyn Properties,
    steal_from: Option<&str>,
) -> Result<RestoreReport, GuardError> {
    let store = Store::open(state_dir, nodes)?;
    let _lock = Lock::take_to_restore(state_dir, steal_from)?;
    let place = Place { nodes, properties, clock: &BootClock };
    Ok(restore_owed(&store, place)?.unwrap_or_default())
}
