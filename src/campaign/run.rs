//! The course of a run: baseline, then one search after the other, then leave the device as it was.

use super::axes::DeviceAxes;
use super::config::SweepConfig;
use super::journal::{Event, Journal};
use super::ledger::{Decision, Ledger};
use super::observe::{Observer, Update};
use super::outcome::{CampaignError, End, Outcome};
use super::plan::{self, Plan};
use super::rundir::RunDir;
use super::session::Session;
use super::tabulate::tabulate;
use crate::profile::Profile;
use crate::search::{Goal, Point, Strategy, Told};
use crate::transport::Connector;
use crate::trial::{Setting, TrialId};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A run: new, or to be gone on with.
pub struct Campaign {
    pub(super) config: SweepConfig,
    pub(super) profile: Profile,
    run: RunDir,
    pub(super) connector: Arc<dyn Connector>,
    journal: Journal,
    ledger: Ledger,
    warning: Option<String>,
    pub(super) steal_from: Option<String>,
    pub(super) device_model: Option<String>,
}

/// Why a run stops before its end.
#[derive(Debug)]
pub(super) enum Stop {
    /// Resumable.
    End(End),
    /// It cannot go on.
    Fault(CampaignError),
}

impl<E: Into<CampaignError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Stop::Fault(error.into())
    }
}

impl Stop {
    pub(super) fn cancelled() -> Self {
        Stop::End(End::Interrupted { why: "it was cancelled".into() })
    }
}

impl Campaign {
    /// A run of `config` in `run`, over links that `connector` makes. If `run` has a journal already, the run
    /// goes on where that ends.
    ///
    /// # Errors
    /// [`CampaignError`] when the run directory cannot be used.
    pub fn new(
        config: SweepConfig,
        profile: Profile,
        run: RunDir,
        connector: Arc<dyn Connector>,
    ) -> Result<Self, CampaignError> {
        run.write_inputs(&config, &profile)?;
        let (journal, history) = Journal::open(&run.journal())?;
        let ledger = Ledger::of(&history.lines);
        let warning = history.warning;
        let (steal_from, device_model) = (None, None);
        Ok(Campaign { config, profile, run, connector, journal, ledger, warning, steal_from, device_model })
    }

    /// A run to be gone on with, as its directory says.
    ///
    /// # Errors
    /// [`CampaignError`] when the run directory cannot be used.
    pub fn resume(run: RunDir, connector: Arc<dyn Connector>) -> Result<Self, CampaignError> {
        let (config, profile) = (run.config()?, run.profile()?);
        Self::new(config, profile, run, connector)
    }

    /// Takes the device although the holder of this name has it.
    #[must_use]
    pub fn steal_from(mut self, holder: Option<String>) -> Self {
        self.steal_from = holder;
        self
    }

    /// Where the model is on the device, if not where the configuration says.
    #[must_use]
    pub fn model_on_device(mut self, path: Option<String>) -> Self {
        self.device_model = path;
        self
    }

    /// The run's directory.
    pub fn run_dir(&self) -> &RunDir {
        &self.run
    }

    /// Whether the run was complete before: then [`Campaign::run`] only makes the table again.
    pub fn completed(&self) -> bool {
        self.ledger.completed()
    }

    /// Runs until every setting has its answer, or until `cancel`.
    ///
    /// # Errors
    /// [`CampaignError`] when the run cannot go on. Whatever happens, the device is asked to be put back first.
    pub async fn run(
        self,
        cancel: CancellationToken,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, CampaignError> {
        let mut runner = Runner { campaign: self, cancel, observer, session: None, taken_before: false };
        if runner.campaign.completed() {
            return runner.recall();
        }
        let stop = runner.measure().await.err();
        runner.finish(stop).await
    }
}

/// A run in progress.
pub(super) struct Runner<'o> {
    pub(super) campaign: Campaign,
    pub(super) cancel: CancellationToken,
    pub(super) observer: &'o mut dyn Observer,
    pub(super) session: Option<Session>,
    /// This process has held the device before.
    pub(super) taken_before: bool,
}

impl Runner<'_> {
    pub(super) fn ledger(&self) -> &Ledger {
        &self.campaign.ledger
    }

    pub(super) fn config(&self) -> &SweepConfig {
        &self.campaign.config
    }

    /// Puts an event into the journal, and only then into what the run knows.
    pub(super) fn record(&mut self, event: Event) -> Result<(), CampaignError> {
        self.campaign.journal.append(&event)?;
        self.campaign.ledger.take(&event);
        Ok(())
    }

    pub(super) fn tell(&mut self, news: Update<'_>) {
        self.observer.update(news);
    }

    async fn measure(&mut self) -> Result<(), Stop> {
        if let Some(warning) = self.campaign.warning.take() {
            self.tell(Update::Warning(&warning));
        }
        let (regular, drift) = self.ledger().settled_counts();
        if regular + drift > 0 {
            self.tell(Update::Resumed { settled: regular + drift });
        }
        self.connect().await?;
        let config = self.config().clone();
        // The first time the device was taken: a resumed run keeps the start temperature.
        let start = self.ledger().first().and_then(|opened| opened.start);
        let plan = Plan::new(&config, self.axes()?).starting_from(start);
        self.tell(Update::Baseline);
        self.batch(&plan, plan.baseline_trials()).await?;
        for setting in config.settings.list() {
            self.pursue(&plan, setting).await?;
        }
        Ok(())
    }

    fn axes(&self) -> Result<DeviceAxes, CampaignError> {
        let knobs = self.ledger().first().map_or(&[][..], |opened| &opened.knobs);
        Ok(DeviceAxes::new(&self.campaign.profile, knobs)?)
    }

    /// The search of one setting. A setting that is decided is walked through all the same: everything its
    /// strategy asks for is settled.
    async fn pursue(&mut self, plan: &Plan<'_>, setting: Setting) -> Result<(), Stop> {
        let footing = plan.footing(setting, self.ledger());
        let search = &self.config().search;
        let Some(goal) = plan::goal(search.goal, search.budget, footing.baseline) else {
            self.tell(Update::Skipped { setting });
            return Ok(());
        };
        self.tell(Update::Searching { setting, goal, baseline: footing.baseline });
        let mut strategy = plan.strategy(goal, footing.effective);
        loop {
            let points = strategy.ask();
            if points.is_empty() {
                return Ok(self.decide(setting, goal, strategy.as_ref())?);
            }
            self.batch(plan, plan.search_trials(setting, &points)).await?;
            for point in points {
                self.told(plan, setting, strategy.as_mut(), point);
            }
        }
    }

    fn told(&mut self, plan: &Plan<'_>, setting: Setting, strategy: &mut dyn Strategy, point: Point) {
        let value = plan.value(setting, point, self.ledger());
        strategy.tell(Told { point, value });
        if let Some((point, value)) = strategy.best() {
            self.tell(Update::Best { setting, point, value });
        }
    }

    fn decide(&mut self, setting: Setting, goal: Goal, strategy: &dyn Strategy) -> Result<(), CampaignError> {
        let (best, inferences) = (strategy.best(), self.ledger().inferences(setting));
        if self.ledger().decision(setting).is_none() {
            self.record(Event::Decided { setting, goal, best, inferences })?;
            self.table()?.map_or(Ok(()), |table| table.save(&self.campaign.run.table()))?;
        }
        let unusable = self.ledger().why_unusable(setting);
        self.tell(Update::Decided { setting, decision: &Decision { goal, best, inferences }, unusable });
        Ok(())
    }

    /// Runs the trials of a batch that are not settled yet.
    async fn batch(&mut self, plan: &Plan<'_>, trials: Vec<TrialId>) -> Result<(), Stop> {
        let mut queue: VecDeque<TrialId> = trials.into();
        while let Some(id) = queue.pop_front() {
            if let Some(drift) = plan.drift_due(self.ledger()) {
                // Drift control that a gate refuses is due again before the next trial.
                self.settle(plan, &drift).await?;
            }
            if !self.settle(plan, &id).await? {
                queue.push_back(id);
            }
        }
        Ok(())
    }

    /// The table of what is decided so far.
    fn table(&self) -> Result<Option<crate::table::Table>, CampaignError> {
        tabulate(self.ledger(), &self.campaign.config, &self.campaign.profile)
    }

    /// The outcome of a run that was complete before it was called.
    fn recall(&self) -> Result<Outcome, CampaignError> {
        let restored = Some(crate::protocol::RestoreReport::default());
        Ok(Outcome { end: self.verdict(), restored, table: self.table()? })
    }

    /// How a run ends that measured everything.
    fn verdict(&self) -> End {
        let unmet = |setting: &Setting| {
            self.ledger().decision(*setting).is_none_or(|decision| decision.best.is_none())
        };
        let settings: Vec<Setting> = self.config().settings.list().into_iter().filter(unmet).collect();
        match settings.is_empty() {
            true => End::Done,
            false => End::Unreachable { settings },
        }
    }

    /// Has the device put back, closes the journal, and says how the run ended.
    async fn finish(&mut self, stop: Option<Stop>) -> Result<Outcome, CampaignError> {
        let gone = matches!(stop, Some(Stop::End(End::Unavailable { .. })));
        let restored = self.leave(gone).await;
        if let Some(report) = &restored {
            self.tell(Update::Restored { report });
            self.record(Event::Restored { report: report.clone() })?;
        }
        let end = match stop {
            None => self.verdict(),
            Some(Stop::End(end)) => end,
            Some(Stop::Fault(error)) => {
                self.close(Event::Interrupted { why: error.to_string() })?;
                return Err(error);
            }
        };
        self.close(match end.why() {
            "" => Event::Completed {},
            why => Event::Interrupted { why: why.to_owned() },
        })?;
        Ok(Outcome { end, restored, table: self.table()? })
    }

    fn close(&mut self, event: Event) -> Result<(), CampaignError> {
        self.record(event)?;
        Ok(self.campaign.journal.sync()?)
    }
}
