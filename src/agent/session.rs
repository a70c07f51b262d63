//! The session: one host at the other end of a stream, from hello to bye.
//!
//! The device is put back on bye, on an error, at the end of the stream, on a signal and when nothing was heard
//! from the host for the length of its lease, which is measured in real time whatever the device's clock does.

use super::failure::untouched;
use super::machine::this_machine;
use super::signals::Signals;
use super::taken::Places;
use super::worker::{Event, Job, Worker};
use super::{AgentError, Ended, ExitReason, Options, conditions};
use crate::engine::Cancel;
use crate::protocol::{
    AgentHello, Duplex, Failure, FailureClass, FrameError, HostHello, Link, LinkReader, LinkWriter,
    PROTOCOL_VERSION, RestoreReport, ToAgent, ToHost,
};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until, timeout};

/// How long a host may take to say hello.
const HELLO_DEADLINE: Duration = Duration::from_secs(30);
/// How long the worker may take to stop its engine and put the device back before that is done without it.
const STOP_DEADLINE: Duration = Duration::from_secs(5);
/// The restorer waits this many leases: the agent itself, while it lives, is to be the one that restores.
const RESTORER_LEASES: u32 = 2;

/// One session.
pub struct Session {
    host: LinkWriter<ToHost>,
    worker: Worker,
    events: UnboundedReceiver<Event>,
    /// Ends the trial in flight.
    cancel: Option<Arc<Cancel>>,
    /// Jobs the worker has not answered yet.
    pending: u32,
    lease: Duration,
    heard: Instant,
}

enum Turn {
    Host(Result<Option<ToAgent>, FrameError>),
    Worker(Option<Event>),
    Lapsed,
    Signal(&'static str),
}

/// Says hello both ways, then serves the host until the end.
///
/// # Errors
/// [`AgentError`]; the device is back by then.
pub async fn serve(stream: Box<dyn Duplex>, options: Options) -> Result<Ended, AgentError> {
    let (mut reader, mut host) = Link::<ToAgent, ToHost>::new(stream, "host").split();
    let hello = greet(&mut reader, &mut host, &options).await?;
    let lease = Duration::from_millis(hello.lease_ms);
    let Options { launch, state_dir, signals } = options;
    let places = Places { launch, state_dir, lease: lease * RESTORER_LEASES };
    let signals = Signals::new(signals)?;
    let (tell, events) = unbounded_channel();
    let worker = Worker::start(places, tell);
    let session = Session { host, worker, events, cancel: None, pending: 0, lease, heard: Instant::now() };
    session.run(reader, signals).await
}

async fn greet(
    reader: &mut LinkReader<ToAgent>,
    host: &mut LinkWriter<ToHost>,
    options: &Options,
) -> Result<HostHello, AgentError> {
    let device = this_machine(&options.launch.root);
    let device = conditions::fingerprint(&*device.nodes, &*device.properties);
    let build = env!("CARGO_PKG_VERSION").to_owned();
    host.send(&ToHost::Hello(AgentHello { protocol: PROTOCOL_VERSION, build, device })).await?;
    let hello = match timeout(HELLO_DEADLINE, reader.receive()).await {
        Err(_) => return Err(AgentError::Silent(HELLO_DEADLINE)),
        Ok(frame) => match frame? {
            Some(ToAgent::Hello(hello)) => hello,
            _ => return Err(AgentError::NoHello),
        },
    };
    if hello.protocol == PROTOCOL_VERSION {
        return Ok(hello);
    }
    let error = AgentError::Mismatch { host: hello.protocol, agent: PROTOCOL_VERSION };
    let next = "Use host and agent of the same opptune version";
    host.send(&ToHost::Failed(untouched(FailureClass::Rejected, &error, next))).await?;
    Err(error)
}

impl Session {
    async fn run(mut self, reader: LinkReader<ToAgent>, signals: Signals) -> Result<Ended, AgentError> {
        let ended = self.listen(reader, signals).await;
        let restored = self.end().await;
        let farewell = match &ended {
            Ok(ExitReason::Bye) => Some(ToHost::Bye(restored.clone())),
            // A host of another build is told what it said wrong.
            Err(error @ FrameError::Malformed { .. }) => Some(ToHost::Failed(misspoken(error))),
            _ => None,
        };
        if let Some(message) = farewell {
            // If the host left meanwhile the exit code still tells.
            let _ = self.say(&message).await;
        }
        match ended {
            Ok(reason) => Ok(Ended { reason, restored }),
            Err(error) => Err(AgentError::Link { error, restored }),
        }
    }

    async fn listen(
        &mut self,
        mut reader: LinkReader<ToAgent>,
        mut signals: Signals,
    ) -> Result<ExitReason, FrameError> {
        loop {
            let turn = tokio::select! {
                biased;
                name = signals.next() => Turn::Signal(name),
                frame = reader.receive() => Turn::Host(frame),
                event = self.events.recv() => Turn::Worker(event),
                () = sleep_until(self.heard + self.lease) => Turn::Lapsed,
            };
            if let Some(reason) = self.take(turn).await? {
                return Ok(reason);
            }
        }
    }

    /// One thing that happened; `Some` ends the session.
    async fn take(&mut self, turn: Turn) -> Result<Option<ExitReason>, FrameError> {
        match turn {
            Turn::Signal(name) => return Ok(Some(ExitReason::Signal(name))),
            Turn::Lapsed => return Ok(Some(ExitReason::LeaseLapsed(self.lease))),
            Turn::Host(frame) => match frame? {
                None => return Ok(Some(ExitReason::HostGone)),
                Some(message) => return self.answer(message).await,
            },
            Turn::Worker(Some(Event::Say(message))) => self.say(&message).await?,
            Turn::Worker(Some(Event::Answer(message))) => {
                self.pending -= 1;
                self.say(&message).await?;
            }
            // The worker lives as long as the session.
            Turn::Worker(None) => {}
        }
        Ok(None)
    }

    async fn answer(&mut self, message: ToAgent) -> Result<Option<ExitReason>, FrameError> {
        self.heard = Instant::now();
        if let Some(Err(error)) = self.worker.handle().map(|device| device.feed()) {
            return Ok(Some(ExitReason::NoRestorer(error.to_string())));
        }
        match message {
            ToAgent::Ping { seq } => self.say(&ToHost::Pong { seq }).await?,
            ToAgent::Cancel => self.stop_trial(),
            ToAgent::Bye => return Ok(Some(ExitReason::Bye)),
            ToAgent::Restore { steal_from } => {
                self.stop_trial();
                self.give(Job::Restore { steal_from });
            }
            ToAgent::Open(_) if self.pending > 0 => self.say(&ToHost::Failed(busy())).await?,
            ToAgent::Run(spec) if self.pending > 0 => {
                self.say(&ToHost::TrialFailed { id: Box::new(spec.id), failure: busy() }).await?;
            }
            ToAgent::Open(request) => self.give(Job::Open(request)),
            ToAgent::Run(spec) => {
                let cancel = Arc::new(Cancel::default());
                self.cancel = Some(cancel.clone());
                self.give(Job::Run(spec, cancel));
            }
            ToAgent::Probe { .. } | ToAgent::CheckPins | ToAgent::Doctor { .. } if self.pending > 0 => {
                self.say(&ToHost::Failed(busy())).await?;
            }
            ToAgent::Probe { profile } => self.give(Job::Probe(profile)),
            ToAgent::CheckPins => self.give(Job::CheckPins),
            ToAgent::Doctor { profile } => self.give(Job::Doctor(profile)),
            ToAgent::Hello(_) => self.say(&ToHost::Failed(greeted())).await?,
        }
        Ok(None)
    }

    fn give(&mut self, job: Job) {
        self.pending += 1;
        self.worker.give(job);
    }

    fn stop_trial(&mut self) {
        if let Some(cancel) = self.cancel.take() {
            cancel.cancel();
        }
    }

    /// Sends, but waits for a host that does not read no longer than for one that does not write.
    async fn say(&mut self, message: &ToHost) -> Result<(), FrameError> {
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the host does not read");
        timeout(self.lease, self.host.send(message)).await.map_err(late)?
    }

    /// Stops the engine at once and puts the device back.
    async fn end(&mut self) -> RestoreReport {
        self.stop_trial();
        self.give(Job::GiveBack);
        match timeout(STOP_DEADLINE, self.last_answer()).await {
            Ok(report) => report,
            Err(_) => self.end_without_worker().await,
        }
    }

    async fn last_answer(&mut self) -> RestoreReport {
        while let Some(event) = self.events.recv().await {
            let Event::Answer(answer) = event else { continue };
            self.pending -= 1;
            if let (0, ToHost::Restored(report)) = (self.pending, answer) {
                return report;
            }
        }
        RestoreReport::default()
    }

    /// The worker hangs in an engine or a driver: the device is put back past it.
    async fn end_without_worker(&mut self) -> RestoreReport {
        let device = self.worker.handle();
        self.worker.abandon();
        let restore = move || device.map(|device| device.restore()).unwrap_or_default();
        match timeout(STOP_DEADLINE, spawn_blocking(restore)).await {
            Ok(Ok(report)) => report,
            Ok(Err(_)) | Err(_) => RestoreReport {
                differs: vec!["a driver hangs; the restorer goes on when this process ends".into()],
                ..RestoreReport::default()
            },
        }
    }
}

fn busy() -> Failure {
    Failure {
        class: FailureClass::Transient,
        what: "the device is busy with an earlier request".into(),
        state: "That request goes on".into(),
        next: "Wait for its answer".into(),
    }
}

fn misspoken(error: &FrameError) -> Failure {
    Failure {
        class: FailureClass::Permanent,
        what: error.to_string(),
        state: "The session is over and the device was put back".into(),
        next: "Use host and agent of the same opptune version".into(),
    }
}

fn greeted() -> Failure {
    Failure {
        class: FailureClass::Rejected,
        what: "a second hello in one session".into(),
        state: "The session goes on".into(),
        next: "Open a new session instead".into(),
    }
}
