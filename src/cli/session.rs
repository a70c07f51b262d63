//! A short conversation with an agent: hello, a few questions, bye.

use super::CliError;
use crate::profile::Profile;
use crate::protocol::{
    Fingerprint, FrameError, HostHello, Link, OpenRequest, Opened, PROTOCOL_VERSION, RestoreReport, ToAgent,
    ToHost,
};
use crate::transport::{AgentLog, Connector};
use std::time::Duration;
use tokio::time::{Instant, interval_at, timeout_at};

/// The agent restores and leaves when it hears nothing for this long.
const LEASE: Duration = Duration::from_secs(10);
/// Longest wait for any answer: walking every operating point of a phone takes minutes.
const DEADLINE: Duration = Duration::from_secs(1800);

/// An agent that said hello.
pub struct Session {
    name: String,
    link: Link<ToHost, ToAgent>,
    log: AgentLog,
    /// Kept alive as long as the stream is used.
    _keep: Box<dyn Send>,
    /// The machine the agent runs on.
    pub device: Fingerprint,
}

impl Session {
    /// Starts an agent and exchanges hellos.
    ///
    /// # Errors
    /// [`CliError`], also when the agent speaks another version of the protocol.
    pub async fn start(connector: &dyn Connector) -> Result<Self, CliError> {
        let agent = connector.connect().await?;
        let mut session = Session {
            name: connector.device(),
            link: Link::new(agent.stream, "agent"),
            log: agent.log,
            _keep: agent.keep,
            device: Fingerprint::default(),
        };
        let build = env!("CARGO_PKG_VERSION").to_owned();
        let hello = HostHello { protocol: PROTOCOL_VERSION, build, lease_ms: LEASE.as_millis() as u64 };
        match session.ask(ToAgent::Hello(hello)).await? {
            ToHost::Hello(hello) if hello.protocol == PROTOCOL_VERSION => session.device = hello.device,
            ToHost::Hello(other) => {
                return Err(session.odd(format!(
                    "the agent speaks protocol {} (build {}), this host speaks {PROTOCOL_VERSION}",
                    other.protocol, other.build
                )));
            }
            other => return Err(session.odd(format!("the agent began with {other:?}"))),
        }
        Ok(session)
    }

    /// Takes the device without an engine.
    ///
    /// # Errors
    /// [`CliError`].
    pub async fn open(&mut self, profile: Profile, steal_from: Option<String>) -> Result<Opened, CliError> {
        let holder = format!("opptune {}", std::process::id());
        let request = OpenRequest { profile, engine: None, seed: 1, steal_from, holder, energy: None };
        match self.ask(ToAgent::Open(Box::new(request))).await? {
            ToHost::Opened(opened) => Ok(*opened),
            other => Err(self.odd(format!("the agent answered an open request with {other:?}"))),
        }
    }

    /// Asks and waits for the answer, keeping the lease alive meanwhile.
    ///
    /// # Errors
    /// [`CliError::Agent`] when the agent says that the request failed.
    pub async fn ask(&mut self, question: ToAgent) -> Result<ToHost, CliError> {
        self.link.send(&question).await.map_err(|e| self.broke(e))?;
        let deadline = Instant::now() + DEADLINE;
        let mut beat = interval_at(Instant::now() + LEASE / 4, LEASE / 4);
        for seq in 0.. {
            tokio::select! {
                answer = timeout_at(deadline, self.link.receive()) => match answer {
                    Ok(Ok(Some(ToHost::Progress(_) | ToHost::Pong { .. }))) => (),
                    Ok(Ok(Some(ToHost::Failed(failure)))) => return Err(failure.into()),
                    Ok(Ok(Some(answer))) => return Ok(answer),
                    Ok(Ok(None)) => return Err(self.broke(closed())),
                    Ok(Err(error)) => return Err(self.broke(error)),
                    Err(_) => break,
                },
                // An agent that has answered bye hears no more; if the link is gone, receiving says so.
                _ = beat.tick() => drop(self.link.send(&ToAgent::Ping { seq }).await),
            }
        }
        Err(self.odd(format!("the agent gave no answer within {DEADLINE:?}")))
    }

    /// Ends the session; the agent puts everything back.
    ///
    /// # Errors
    /// [`CliError`].
    pub async fn bye(mut self) -> Result<RestoreReport, CliError> {
        match self.ask(ToAgent::Bye).await? {
            ToHost::Bye(report) => Ok(report),
            other => Err(self.odd(format!("the agent answered bye with {other:?}"))),
        }
    }

    /// An answer of the wrong kind.
    pub fn odd(&self, what: String) -> CliError {
        // An answer can be megabytes; its beginning says what it is.
        CliError::Peer { device: self.name.clone(), what: what.chars().take(200).collect() }
    }

    fn broke(&self, error: FrameError) -> CliError {
        let text = self.log.text();
        let log = if text.is_empty() { String::new() } else { format!(" The agent said: {text}.") };
        let device = self.name.clone();
        let foreign = match &error {
            FrameError::Malformed { .. } => true,
            FrameError::Broken(error) => error.kind() == std::io::ErrorKind::InvalidData,
        };
        match foreign {
            true => CliError::NoAgent { device, error, log },
            false => CliError::Frame { device, error, log },
        }
    }
}

fn closed() -> FrameError {
    FrameError::Broken(std::io::Error::other("the agent ended"))
}
