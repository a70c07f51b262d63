//! Getting the device and giving it back: connect, recognise, take, wait, leave.

use super::config::OnReboot;
use super::identity::changed_since;
use super::journal::Event;
use super::observe::Update;
use super::outcome::{CampaignError, End};
use super::retry;
use super::run::{Runner, Stop};
use super::session::{Broken, Session};
use crate::engine::EngineSpec;
use crate::protocol::{Failure, FailureClass, OpenRequest, Opened, RestoreReport};
use crate::transport::TransportError;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// A device that has just booted is busy and warm for about this long.
const SETTLE_AFTER_BOOT: Duration = Duration::from_secs(60);
/// Longest wait for a device to be put back, heartbeats answered all the while.
const LEAVE: Duration = Duration::from_secs(120);

/// What became of an attempt to take the device.
enum Taking {
    Done,
    /// Trying again may help; if patience runs out, the run ends like this.
    NotYet(End),
}

impl Runner<'_> {
    /// Takes the device, unless this run holds it. Waits for a device that was there before; one that never
    /// was is an answer at once.
    pub(super) async fn connect(&mut self) -> Result<(), Stop> {
        if self.session.is_some() {
            return Ok(());
        }
        let until = Instant::now() + self.patience();
        let cancel = self.cancel.clone();
        let mut tries = 0;
        loop {
            let taking = tokio::select! {
                taking = self.take() => taking?,
                () = cancel.cancelled() => return Err(Stop::cancelled()),
            };
            match taking {
                Taking::Done => return Ok(()),
                Taking::NotYet(end) if Instant::now() >= until => return Err(Stop::End(end)),
                Taking::NotYet(end) => {
                    tries += 1;
                    self.pause(end.why(), retry::wait(&self.config().retry, tries)).await?;
                }
            }
        }
    }

    /// How long obstacles are waited for. At the beginning that is the time an agent of a run that was killed
    /// may still hold the device.
    fn patience(&self) -> Duration {
        match self.taken_before {
            true => Duration::from_secs(self.config().retry.wait_for_device_s),
            false => 2 * self.lease(),
        }
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(self.config().retry.lease_ms)
    }

    async fn take(&mut self) -> Result<Taking, Stop> {
        let agent = match self.campaign.connector.connect().await {
            Ok(agent) => agent,
            Err(error) => return self.unlinked(error),
        };
        let mut session = match Session::start(agent, self.lease()).await {
            Ok(session) => session,
            Err(broken) => return self.broken(broken),
        };
        match session.open(self.request()).await {
            Ok(Ok(opened)) => self.taken(session, opened).await,
            Ok(Err(failure)) => self.refused(failure),
            Err(broken) => self.broken(broken),
        }
    }

    fn unlinked(&self, error: TransportError) -> Result<Taking, Stop> {
        let why = error.to_string();
        match error {
            error if !error.may_pass() => Err(CampaignError::Link(error).into()),
            TransportError::Unavailable { .. } if !self.taken_before => {
                Err(Stop::End(End::Unavailable { why }))
            }
            _ => Ok(Taking::NotYet(End::Unavailable { why })),
        }
    }

    fn broken(&self, broken: Broken) -> Result<Taking, Stop> {
        match broken {
            Broken::Alien(why) => Err(self.alien(why).into()),
            Broken::Lost(why) => {
                let why = format!("the link to {} failed: {why}", self.campaign.connector.device());
                Ok(Taking::NotYet(End::Unavailable { why }))
            }
        }
    }

    pub(super) fn alien(&self, why: String) -> CampaignError {
        CampaignError::Protocol { device: self.campaign.connector.device(), why }
    }

    fn refused(&self, failure: Failure) -> Result<Taking, Stop> {
        let why = failure.to_string();
        match failure.class {
            FailureClass::Rejected | FailureClass::Permanent => {
                let device = self.campaign.connector.device();
                Err(CampaignError::Refused { device, failure }.into())
            }
            FailureClass::Gate => Ok(Taking::NotYet(End::Refused { why })),
            FailureClass::Transient | FailureClass::Unavailable => {
                Ok(Taking::NotYet(End::Unavailable { why }))
            }
        }
    }

    /// Whether the device was rebooted since this process last held it. A resumed run does not ask: whoever
    /// resumes it has decided to go on.
    fn rebooted(&self, boot_id: &str) -> bool {
        self.taken_before && self.ledger().boot_id().is_some_and(|before| before != boot_id)
    }

    /// Lets a device that was rebooted come to rest, unless the run is to stop there.
    async fn settle_after_boot(&mut self, boot_id: String) -> Result<(), Stop> {
        self.record(Event::Rebooted { boot_id })?;
        self.tell(Update::Rebooted);
        let why = format!("{} was rebooted", self.campaign.connector.device());
        match self.config().retry.on_reboot {
            OnReboot::Stop => Err(Stop::End(End::Interrupted { why })),
            OnReboot::Continue => self.pause(&why, SETTLE_AFTER_BOOT).await,
        }
    }

    fn request(&self) -> OpenRequest {
        let campaign = &self.campaign;
        let configured = campaign.config.engine.clone();
        let model = campaign.device_model.clone().unwrap_or_else(|| configured.model.clone());
        OpenRequest {
            profile: campaign.profile.clone(),
            engine: Some(EngineSpec { model, ..configured }),
            seed: campaign.config.search.seed,
            // Once: a run that is robbed in turn does not take the device back by force.
            steal_from: campaign.steal_from.clone().filter(|_| !self.taken_before),
            holder: format!("opptune sweep {}", campaign.config.name),
            energy: None,
        }
    }

    /// The device answers: is it the one the run began with?
    async fn taken(&mut self, session: Session, opened: Opened) -> Result<Taking, Stop> {
        let rebooted = self.rebooted(&opened.device.boot_id);
        // Held from here on, so that a fault below still ends with a bye.
        self.session = Some(session);
        self.taken_before = true;
        self.recognise(&opened)?;
        if rebooted {
            self.settle_after_boot(opened.device.boot_id.clone()).await?;
        }
        self.campaign.run_dir().write_environment(&opened)?;
        self.tell(Update::Opened { opened: &opened });
        self.record(Event::Opened { opened: Box::new(opened) })?;
        // The link may have been lost while the device came to rest.
        Ok(match self.session {
            Some(_) => Taking::Done,
            None => Taking::NotYet(End::Unavailable { why: "the link was lost".into() }),
        })
    }

    fn recognise(&self, opened: &Opened) -> Result<(), CampaignError> {
        let device = self.campaign.connector.device();
        if opened.energy.is_none() {
            let notes = opened.notes.join("; ");
            return Err(CampaignError::NoEnergy { device, notes });
        }
        let differences = self.ledger().first().map_or_else(Vec::new, |first| changed_since(first, opened));
        match differences.is_empty() {
            true => Ok(()),
            false => Err(CampaignError::Changed { device, differences }),
        }
    }

    /// Lets `wait` pass, heartbeats included.
    pub(super) async fn pause(&mut self, why: &str, wait: Duration) -> Result<(), Stop> {
        self.tell(Update::Waiting { why, wait });
        let Runner { session, cancel, .. } = self;
        let idle = async {
            match session {
                Some(session) => session.idle(wait).await,
                None => {
                    sleep(wait).await;
                    Ok(())
                }
            }
        };
        let passed = tokio::select! {
            passed = idle => passed,
            () = cancel.cancelled() => return Err(Stop::cancelled()),
        };
        match passed {
            Ok(()) => Ok(()),
            Err(Broken::Lost(why)) => self.lost(None, &why),
            Err(Broken::Alien(why)) => Err(self.alien(why).into()),
        }
    }

    /// Has the device put back. If the link is lost meanwhile (the agent restores by itself then), one new
    /// connection asks how that went, unless the device is `gone`.
    pub(super) async fn leave(&mut self, gone: bool) -> Option<RestoreReport> {
        let held = self.session.take();
        let report = match held {
            Some(session) => timeout(LEAVE, session.bye()).await.ok()?.ok(),
            None => None,
        };
        match report {
            None if self.taken_before && !gone => timeout(LEAVE, self.ask_restored()).await.ok()?,
            report => report,
        }
    }

    async fn ask_restored(&mut self) -> Option<RestoreReport> {
        let agent = self.campaign.connector.connect().await.ok()?;
        let mut session = Session::start(agent, self.lease()).await.ok()?;
        let report = session.restore().await.ok()?;
        // The report counts; that the agent also says goodbye is not waited for twice.
        let _ = session.bye().await;
        Some(report)
    }
}
