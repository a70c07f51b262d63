//! The thread that works with the device, so that the session answers the host at any moment.

use super::check_pins::check_pins;
use super::failure::{Cause, untouched};
use super::machine;
use super::taken::{Handle, Places, Taken, open};
use super::trial::Trial;
use crate::device::{Device, lock};
use crate::engine::Cancel;
use crate::guard::restore_from;
use crate::probe;
use crate::profile::Profile;
use crate::protocol::{Failure, FailureClass, OpenRequest, RestoreReport, ToHost};
use crate::trial::TrialSpec;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use tokio::sync::mpsc::UnboundedSender;

/// Seed of a twin that is only looked at.
const SEED: u64 = 1;

/// Work for the thread. Every job is answered by exactly one [`Event::Answer`].
pub enum Job {
    /// Take the device.
    Open(Box<OpenRequest>),
    /// Run a trial; the flag ends it early.
    Run(Box<TrialSpec>, Arc<Cancel>),
    /// Look at the device without changing it, and hold it against this profile.
    Probe(Option<Box<Profile>>),
    /// Try every operating point of the open device.
    CheckPins,
    /// Look for what would spoil a run with this profile.
    Doctor(Option<Box<Profile>>),
    /// Put back what this session changed.
    GiveBack,
    /// Put back what the device is owed: by this session, or, if it has not taken the device, by an earlier one.
    Restore { steal_from: Option<String> },
}

/// What the thread tells the session.
pub enum Event {
    /// To be passed on; the job goes on.
    Say(ToHost),
    /// To be passed on; the job is done.
    Answer(ToHost),
}

/// The thread.
pub struct Worker {
    jobs: Option<Sender<Job>>,
    taken: Arc<Mutex<Option<Handle>>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread; it answers through `events`.
    pub fn start(places: Places, events: UnboundedSender<Event>) -> Worker {
        let (jobs, queue) = channel();
        let taken = Arc::new(Mutex::new(None));
        let handle = taken.clone();
        let thread = std::thread::spawn(move || Bench { places, events, handle, taken: None }.serve(&queue));
        Worker { jobs: Some(jobs), taken, thread: Some(thread) }
    }

    /// Queues a job.
    pub fn give(&self, job: Job) {
        // The thread ends only after the sender is gone.
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(job);
        }
    }

    /// The device, if it is taken.
    pub fn handle(&self) -> Option<Handle> {
        lock(&self.taken).clone()
    }

    /// Leaves the thread to itself: it hangs, and the device was put back without it.
    pub fn abandon(&mut self) {
        self.thread = None;
    }
}

impl Drop for Worker {
    /// The thread puts back what is still taken when it has no more jobs.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // It catches its own panics.
            let _ = thread.join();
        }
    }
}

/// The thread's own state.
struct Bench {
    places: Places,
    events: UnboundedSender<Event>,
    handle: Arc<Mutex<Option<Handle>>>,
    taken: Option<Taken>,
}

impl Bench {
    fn serve(mut self, jobs: &Receiver<Job>) {
        for job in jobs {
            let answer = match catch_unwind(AssertUnwindSafe(|| self.work(job))) {
                Ok(answer) => answer,
                Err(panic) => ToHost::Failed(self.panicked(&*panic)),
            };
            // Nobody listens any more: the session is ending and will close the queue.
            let _ = self.events.send(Event::Answer(answer));
        }
        self.give_back();
    }

    fn work(&mut self, job: Job) -> ToHost {
        match job {
            Job::Open(request) => self.open(&request).unwrap_or_else(ToHost::Failed),
            Job::Run(spec, cancel) => self.run(&spec, &cancel),
            Job::Probe(profile) => {
                let profile = profile.as_deref();
                self.look(profile, |device| ToHost::Probed(Box::new(probe::look(device, profile))))
            }
            Job::CheckPins => self.taken.as_ref().map_or_else(|| ToHost::Failed(not_open()), check_pins),
            Job::Doctor(profile) => {
                let profile = profile.as_deref();
                let state_dir = &self.places.state_dir;
                let doctor = |device: &Device| probe::doctor(device, profile, state_dir);
                self.look(profile, |device| ToHost::Doctored(Box::new(doctor(device))))
            }
            Job::GiveBack => ToHost::Restored(self.give_back()),
            Job::Restore { steal_from } => {
                self.restore(steal_from.as_deref()).map_or_else(ToHost::Failed, ToHost::Restored)
            }
        }
    }

    fn open(&mut self, request: &OpenRequest) -> Result<ToHost, Failure> {
        if self.taken.is_some() {
            return Err(Failure {
                class: FailureClass::Rejected,
                what: "the device is taken by this session already".into(),
                state: "It stays as it is".into(),
                next: "Restore first, then open again".into(),
            });
        }
        let publish = |handle| *lock(&self.handle) = Some(handle);
        let (taken, opened) =
            open(request, &self.places, publish).inspect_err(|_| *lock(&self.handle) = None)?;
        self.taken = Some(taken);
        Ok(ToHost::Opened(Box::new(opened)))
    }

    fn run(&mut self, spec: &TrialSpec, cancel: &Cancel) -> ToHost {
        let events = self.events.clone();
        let tell = move |progress| drop(events.send(Event::Say(ToHost::Progress(progress))));
        let outcome = match &mut self.taken {
            None => Err(not_open()),
            Some(taken) => Trial { taken, spec, cancel, tell: &tell }.run(),
        };
        match outcome {
            Ok((measurement, series)) => {
                let samples = ToHost::Samples { id: Box::new(spec.id.clone()), series };
                // As with an answer: nobody listens any more.
                let _ = self.events.send(Event::Say(samples));
                ToHost::Finished(Box::new(measurement))
            }
            Err(failure) => ToHost::TrialFailed { id: Box::new(spec.id.clone()), failure },
        }
    }

    /// Looks at the open device; while none is open, at the one that `profile` describes without taking it:
    /// nothing is written. Without a profile that is the machine the agent runs on.
    fn look(&self, profile: Option<&Profile>, look: impl FnOnce(&Device) -> ToHost) -> ToHost {
        let root = &self.places.launch.root;
        match (&self.taken, profile) {
            (Some(taken), _) => look(&taken.device),
            (None, None) => look(&machine::this_machine(root)),
            (None, Some(profile)) => match machine::open(profile, root, SEED) {
                Ok(device) => look(&device),
                Err(e) => ToHost::Failed(untouched(FailureClass::Rejected, e, "Correct the profile")),
            },
        }
    }

    fn restore(&mut self, steal_from: Option<&str>) -> Result<RestoreReport, Failure> {
        if self.taken.is_some() {
            return Ok(self.give_back());
        }
        let machine = machine::this_machine(&self.places.launch.root);
        let next = "Then run `opptune restore` again";
        restore_from(&self.places.state_dir, &*machine.nodes, &*machine.properties, steal_from)
            .map_err(|e| Cause { next, ..Cause::from(e) }.untouched())
    }

    fn give_back(&mut self) -> RestoreReport {
        let handle = lock(&self.handle).take();
        let report = handle.map(|handle| handle.restore()).unwrap_or_default();
        self.taken = None;
        report
    }

    fn panicked(&mut self, panic: &(dyn Any + Send)) -> Failure {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        let what = format!("the agent broke: {text}");
        Cause { class: FailureClass::Permanent, what, next: "Report this with the agent's log" }
            .after(&self.give_back())
    }
}

fn not_open() -> Failure {
    untouched(FailureClass::Rejected, "no device is open", "Open it first")
}
