//! The campaign's end of the link: hello, open, trials, bye, with a heartbeat underneath.

use crate::protocol::{
    AgentHello, Failure, FrameError, HostHello, Link, LinkReader, LinkWriter, OpenRequest, Opened,
    PROTOCOL_VERSION, Progress, RestoreReport, Series, ToAgent, ToHost,
};
use crate::transport::{AgentLog, AgentStream};
use crate::trial::{Measurement, TrialId, TrialSpec};
use std::time::Duration;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, timeout};

/// Why a session cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The link broke or went silent. A new connection may help.
    #[error("{0}")]
    Lost(String),
    /// The other end is not an agent of this version. A new connection does not help.
    #[error("{0}")]
    Alien(String),
}

/// A measurement, and what was sampled meanwhile.
#[derive(Debug)]
pub struct Measured {
    /// The measurement.
    pub measurement: Box<Measurement>,
    /// The samples.
    pub series: Vec<Series>,
}

/// The answer to a trial.
#[derive(Debug)]
pub enum Answer {
    /// Measured.
    Finished(Measured),
    /// Not measured.
    Failed(Failure),
    /// Not measured, and the agent has given the device back: it must be taken again.
    Fell(Failure),
}

/// A conversation with one agent. Every wait in it sends heartbeats and notices silence.
pub struct Session {
    reader: LinkReader<ToHost>,
    writer: LinkWriter<ToAgent>,
    log: AgentLog,
    /// Child process or connection behind the stream.
    _keep: Box<dyn Send>,
    lease: Duration,
    beat: Interval,
    heard: Instant,
    seq: u64,
    /// What came of the trial in flight: a wait for its measurement may be given up and taken up again.
    samples: Option<(TrialId, Vec<Series>)>,
}

impl Session {
    /// Exchanges hellos over a fresh stream. The agent leaves when it hears nothing for `lease`.
    ///
    /// # Errors
    /// [`Broken`].
    pub async fn start(agent: AgentStream, lease: Duration) -> Result<Self, Broken> {
        let (reader, writer) = Link::new(agent.stream, "agent").split();
        let mut beat = interval(lease / 3);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut session = Session {
            reader,
            writer,
            log: agent.log,
            _keep: agent.keep,
            lease,
            beat,
            heard: Instant::now(),
            seq: 0,
            samples: None,
        };
        session.greet().await?;
        Ok(session)
    }

    /// No heartbeat yet: an agent takes nothing before the hello, and answers it at once.
    async fn greet(&mut self) -> Result<(), Broken> {
        let build = env!("CARGO_PKG_VERSION").to_owned();
        let lease_ms = self.lease.as_millis() as u64;
        self.send(&ToAgent::Hello(HostHello { protocol: PROTOCOL_VERSION, build, lease_ms })).await?;
        let first = timeout(self.lease, self.reader.receive()).await;
        let hello = first.map_err(|_| self.lost("the agent did not say hello in time"))?;
        match hello.map_err(|error| self.broken(error))? {
            Some(ToHost::Hello(hello)) => self.meet(hello),
            Some(ToHost::Failed(failure)) => Err(Broken::Alien(failure.to_string())),
            Some(_) => Err(Broken::Alien("the agent did not begin with a hello".into())),
            None => Err(self.lost("the agent ended before it said hello")),
        }
    }

    fn meet(&mut self, hello: AgentHello) -> Result<(), Broken> {
        if hello.protocol != PROTOCOL_VERSION {
            return Err(Broken::Alien(format!(
                "the agent speaks protocol {} (build {}), this host {PROTOCOL_VERSION} (build {}). \
                 Use host and agent of one version",
                hello.protocol,
                hello.build,
                env!("CARGO_PKG_VERSION")
            )));
        }
        self.heard = Instant::now();
        Ok(())
    }

    /// Takes the device.
    ///
    /// # Errors
    /// [`Broken`]; a refusal by the agent is the inner error.
    pub async fn open(&mut self, request: OpenRequest) -> Result<Result<Opened, Failure>, Broken> {
        self.send(&ToAgent::Open(Box::new(request))).await?;
        loop {
            match self.next().await? {
                ToHost::Opened(opened) => return Ok(Ok(*opened)),
                ToHost::Failed(failure) => return Ok(Err(failure)),
                _ => (),
            }
        }
    }

    /// Runs a trial; `progress` is told its phases. May be dropped at any time; call
    /// [`Session::cancel_trial`] then.
    ///
    /// # Errors
    /// [`Broken`].
    pub async fn run(
        &mut self,
        spec: TrialSpec,
        mut progress: impl FnMut(&Progress),
    ) -> Result<Answer, Broken> {
        let trial = spec.id.clone();
        self.send(&ToAgent::Run(Box::new(spec))).await?;
        loop {
            match self.next().await? {
                ToHost::Progress(phase) => progress(&phase),
                ToHost::Finished(measurement) if measurement.id == trial => {
                    return Ok(Answer::Finished(self.measured(measurement)));
                }
                ToHost::TrialFailed { id, failure } if *id == trial => return Ok(Answer::Failed(failure)),
                ToHost::Failed(failure) => return Ok(Answer::Fell(failure)),
                _ => (),
            }
        }
    }

    /// Gives up the trial in flight and waits until the agent is done with it. A measurement that was already
    /// on its way is returned.
    ///
    /// # Errors
    /// [`Broken`].
    pub async fn cancel_trial(&mut self) -> Result<Option<Measured>, Broken> {
        self.send(&ToAgent::Cancel).await?;
        loop {
            match self.next().await? {
                ToHost::Finished(measurement) => return Ok(Some(self.measured(measurement))),
                ToHost::TrialFailed { .. } | ToHost::Failed(_) => return Ok(None),
                _ => (),
            }
        }
    }

    /// The measurement with its samples.
    fn measured(&mut self, measurement: Box<Measurement>) -> Measured {
        let mine = self.samples.take().filter(|(id, _)| *id == measurement.id);
        Measured { measurement, series: mine.map_or_else(Vec::new, |(_, series)| series) }
    }

    /// Keeps the session alive for `span`.
    ///
    /// # Errors
    /// [`Broken`].
    pub async fn idle(&mut self, span: Duration) -> Result<(), Broken> {
        let until = Instant::now() + span;
        while let Ok(message) = tokio::time::timeout_at(until, self.next()).await {
            message?;
        }
        Ok(())
    }

    /// Has everything put back without taking the device.
    ///
    /// # Errors
    /// [`Broken`], also when the agent cannot.
    pub async fn restore(&mut self) -> Result<RestoreReport, Broken> {
        self.send(&ToAgent::Restore { steal_from: None }).await?;
        loop {
            match self.next().await? {
                ToHost::Restored(report) => return Ok(report),
                ToHost::Failed(failure) => return Err(Broken::Lost(failure.to_string())),
                _ => (),
            }
        }
    }

    /// Ends the session; the agent puts everything back.
    ///
    /// # Errors
    /// [`Broken`].
    pub async fn bye(mut self) -> Result<RestoreReport, Broken> {
        self.send(&ToAgent::Bye).await?;
        loop {
            if let ToHost::Bye(report) = self.next().await? {
                return Ok(report);
            }
        }
    }

    /// The next message that is neither heartbeat nor samples, with heartbeats sent meanwhile.
    async fn next(&mut self) -> Result<ToHost, Broken> {
        loop {
            tokio::select! {
                // What has arrived counts before silence does: this process may have been stopped meanwhile.
                biased;
                heard = self.reader.receive() => match heard {
                    Ok(Some(message)) => {
                        self.heard = Instant::now();
                        match message {
                            ToHost::Pong { .. } => (),
                            ToHost::Samples { id, series } => self.samples = Some((*id, series)),
                            message => return Ok(message),
                        }
                    }
                    Ok(None) => return Err(self.lost("the agent ended")),
                    Err(error) => return Err(self.broken(error)),
                },
                _ = self.beat.tick() => self.ping().await?,
            }
        }
    }

    async fn ping(&mut self) -> Result<(), Broken> {
        if self.heard.elapsed() > self.lease {
            return Err(self.lost(&format!("nothing was heard for {} ms", self.lease.as_millis())));
        }
        self.seq += 1;
        self.send(&ToAgent::Ping { seq: self.seq }).await
    }

    async fn send(&mut self, message: &ToAgent) -> Result<(), Broken> {
        match timeout(self.lease, self.writer.send(message)).await {
            Ok(sent) => sent.map_err(|error| self.broken(error)),
            Err(_) => Err(self.lost("the link takes no more bytes")),
        }
    }

    fn broken(&self, error: FrameError) -> Broken {
        match error {
            FrameError::Broken(_) => self.lost(&error.to_string()),
            FrameError::Malformed { .. } => Broken::Alien(error.to_string()),
        }
    }

    fn lost(&self, what: &str) -> Broken {
        let log = self.log.text();
        let said = if log.is_empty() { String::new() } else { format!("; the agent said: {log}") };
        Broken::Lost(format!("{what}{said}"))
    }
}
