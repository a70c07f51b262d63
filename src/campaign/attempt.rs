//! One trial until it is settled: attempts, failures, losses of the link.

use super::journal::Event;
use super::observe::Update;
use super::outcome::{CampaignError, End};
use super::plan::Plan;
use super::retry::{Treatment, treat};
use super::run::{Runner, Stop};
use super::session::{Answer, Broken, Measured};
use crate::protocol::{Failure, FailureClass};
use crate::trial::{Flag, TrialId, TrialSpec};

/// Losses of the link without a trial finishing in between, after which the fault is the device's or the
/// link's, not a trial's: three trials, each tried twice.
const MOST_LOSSES_IN_A_ROW: u32 = 6;

/// What to do next about a trial.
enum Next {
    Settled,
    Again,
    Later,
}

impl Runner<'_> {
    /// Runs a trial until it is settled (`true`) or has to wait for its turn again (`false`).
    pub(super) async fn settle(&mut self, plan: &Plan<'_>, id: &TrialId) -> Result<bool, Stop> {
        while !self.ledger().settled(id) {
            if let Next::Later = self.attempt(plan, id).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn attempt(&mut self, plan: &Plan<'_>, id: &TrialId) -> Result<Next, Stop> {
        if self.cancel.is_cancelled() {
            return Err(Stop::cancelled());
        }
        self.connect().await?;
        let attempt = self.ledger().attempts(id) + 1;
        self.record(Event::Started { id: id.clone(), attempt })?;
        let (done, about) = self.counts(plan);
        self.tell(Update::Started { id, attempt, done, about });
        match self.answer(plan.spec(id)).await? {
            Ok(Answer::Finished(measured)) => {
                self.keep(measured, plan)?;
                Ok(Next::Settled)
            }
            Ok(Answer::Failed(failure)) => self.failed(id, failure).await,
            Ok(Answer::Fell(failure)) => {
                self.session = None;
                self.failed(id, failure).await
            }
            Err(Broken::Lost(why)) => {
                self.lost(Some(id), &why)?;
                Ok(Next::Again)
            }
            Err(Broken::Alien(why)) => Err(self.alien(why).into()),
        }
    }

    /// Trials done, drift control included, and about how many there are in all.
    fn counts(&self, plan: &Plan<'_>) -> (u32, u32) {
        let (regular, drift) = self.ledger().settled_counts();
        (regular + drift, plan.about(self.ledger()))
    }

    /// The agent's answer. When the run is cancelled meanwhile, the trial is given up, and a measurement that
    /// is already on its way is kept.
    async fn answer(&mut self, spec: TrialSpec) -> Result<Result<Answer, Broken>, Stop> {
        let Runner { session: Some(session), observer, cancel, .. } = self else {
            return Ok(Err(Broken::Lost("there is no link".into())));
        };
        let wanted = spec.id.clone();
        tokio::select! {
            answer = session.run(spec, |phase| observer.update(Update::Phase(phase))) => Ok(answer),
            () = cancel.cancelled() => {
                match session.cancel_trial().await {
                    Ok(Some(last)) if last.measurement.id == wanted => self.enter(last)?,
                    Ok(_) => (),
                    Err(Broken::Lost(_) | Broken::Alien(_)) => self.session = None,
                }
                Err(Stop::cancelled())
            }
        }
    }

    /// Samples first: whatever the journal holds has its samples, and those of a trial that it does not hold are
    /// written again with the trial's repetition.
    fn enter(&mut self, measured: Measured) -> Result<(), CampaignError> {
        let Measured { measurement, series } = measured;
        self.campaign.run_dir().write_samples(&measurement.id, &series)?;
        self.record(Event::Finished { measurement })
    }

    fn keep(&mut self, mut measured: Measured, plan: &Plan<'_>) -> Result<(), CampaignError> {
        if self.ledger().was_cut(&measured.measurement.id) {
            measured.measurement.flags.push(Flag::RepeatedAfterLinkLoss);
        }
        let measurement = measured.measurement.clone();
        self.enter(measured)?;
        let (done, about) = self.counts(plan);
        self.tell(Update::Finished { measurement: &measurement, done, about });
        Ok(())
    }

    async fn failed(&mut self, id: &TrialId, failure: Failure) -> Result<Next, Stop> {
        let nth = self.ledger().failures(id, failure.class) + 1;
        let treatment = treat(&self.config().retry, failure.class, nth);
        let given_up = treatment == Treatment::GiveUp;
        self.record(Event::Failed { id: id.clone(), failure: failure.clone(), given_up })?;
        self.tell(Update::Failed { id, failure: &failure, given_up });
        match treatment {
            Treatment::GiveUp => Ok(Next::Settled),
            Treatment::Later => Ok(Next::Later),
            Treatment::Again(wait) => {
                self.pause(&failure.what, wait).await?;
                Ok(Next::Again)
            }
            Treatment::Stop => Err(Stop::End(match failure.class {
                FailureClass::Unavailable => End::Unavailable { why: failure.to_string() },
                _ => End::Refused { why: failure.to_string() },
            })),
        }
    }

    /// The link is lost. A trial in flight is repeated once; the second time it is given up.
    pub(super) fn lost(&mut self, during: Option<&TrialId>, why: &str) -> Result<(), Stop> {
        self.session = None;
        self.record(Event::LinkLost { during: during.cloned(), why: why.to_owned() })?;
        self.tell(Update::LinkLost { why });
        if self.ledger().losses_in_a_row() >= MOST_LOSSES_IN_A_ROW {
            let why =
                format!("the link was lost {MOST_LOSSES_IN_A_ROW} times while trials ran, lastly: {why}");
            return Err(Stop::End(End::Unavailable { why }));
        }
        let Some(id) = during.filter(|id| self.ledger().link_losses(id) > 1) else { return Ok(()) };
        let failure = Failure {
            class: FailureClass::Transient,
            what: format!("the link was lost again in the repetition of a trial ({why})"),
            state: "The agent puts the device back when its link ends; the run goes on without the trial"
                .into(),
            next: "Look at cable or network; `opptune doctor` tells what it sees".into(),
        };
        self.record(Event::Failed { id: id.clone(), failure: failure.clone(), given_up: true })?;
        self.tell(Update::Failed { id, failure: &failure, given_up: true });
        Ok(())
    }
}
