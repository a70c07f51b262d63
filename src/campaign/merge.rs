//! Joining runs: the same settings measured on several devices of one kind, or different settings of one sweep
//! measured side by side. Only like may be joined; what differs is named.
//!
//! The result is a run like any other. Trials are pooled, and every setting is decided anew: the best of all
//! points by the pooled medians, within the bound of the pooled baseline.

use super::axes::DeviceAxes;
use super::config::SweepConfig;
use super::identity::Differences;
use super::journal::{Event, Journal, Line, VERSION, read};
use super::ledger::Ledger;
use super::outcome::CampaignError;
use super::plan::{Plan, goal};
use super::rundir::RunDir;
use super::tabulate::table_of;
use crate::condition::is_held;
use crate::profile::Profile;
use crate::protocol::Opened;
use crate::table::Table;
use crate::trial::{Measurement, Purpose, Setting, TrialId};
use std::collections::{BTreeMap, BTreeSet};

/// A run as its directory holds it.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its configuration.
    pub config: SweepConfig,
    /// Its profile.
    pub profile: Profile,
    /// Its journal.
    pub lines: Vec<Line>,
    /// The journal, folded.
    pub ledger: Ledger,
}

impl Run {
    /// Reads a run.
    ///
    /// # Errors
    /// [`CampaignError`] naming the file that is wrong.
    pub fn load(dir: &RunDir) -> Result<Self, CampaignError> {
        let lines = read(&dir.journal())?.lines;
        Ok(Run { config: dir.config()?, profile: dir.profile()?, ledger: Ledger::of(&lines), lines })
    }

    /// The table of the run.
    ///
    /// # Errors
    /// As [`table_of`].
    pub fn table(&self) -> Result<Table, CampaignError> {
        table_of(&self.lines, &self.config, &self.profile)
    }

    /// Writes the run into a fresh directory, table included.
    ///
    /// # Errors
    /// [`CampaignError`] when it cannot be written.
    pub fn save(&self, dir: &RunDir) -> Result<(), CampaignError> {
        dir.write_inputs(&self.config, &self.profile)?;
        if let Some(taken) = self.ledger.first() {
            dir.write_environment(taken)?;
        }
        let (mut journal, _) = Journal::open(&dir.journal())?;
        // The journal makes its own first event.
        self.lines.iter().skip(1).try_for_each(|line| journal.append(&line.event))?;
        journal.sync()?;
        Ok(self.table()?.save(&dir.table())?)
    }

    /// The build that measured it.
    fn build(&self) -> &str {
        let mut builds = self.lines.iter().filter_map(|line| match &line.event {
            Event::Created { build, .. } => Some(build.as_str()),
            _ => None,
        });
        builds.next_back().unwrap_or_default()
    }

    fn taken(&self) -> Result<&Opened, CampaignError> {
        self.ledger.first().ok_or_else(|| CampaignError::Incomplete {
            run: self.config.name.clone(),
            lacks: "took no device, so it holds nothing to merge; leave it out".into(),
        })
    }
}

/// Joins runs of like devices, models, engines and conditions.
///
/// # Errors
/// [`CampaignError::Unlike`], naming everything that differs; [`CampaignError::Incomplete`] for a run without
/// measurements, or none given.
pub fn merge(runs: &[Run]) -> Result<Run, CampaignError> {
    let [first, rest @ ..] = runs else {
        let lacks = "is not given; name at least one run directory".into();
        return Err(CampaignError::Incomplete { run: "to merge".into(), lacks });
    };
    for run in rest {
        let differences = unlike(first, run)?;
        if !differences.is_empty() {
            return Err(CampaignError::Unlike { differences });
        }
    }
    let config = joined(first, rest);
    let pooled = pool(runs);
    let lines = lines(first.taken()?, &config, &first.profile, pooled)?;
    Ok(Run { config, profile: first.profile.clone(), ledger: Ledger::of(&lines), lines })
}

/// What keeps two runs apart.
fn unlike(one: &Run, other: &Run) -> Result<Vec<String>, CampaignError> {
    let mut found = Differences::default();
    found.compare("opptune build", &one.build(), &other.build());
    found.devices(one.taken()?, other.taken()?);
    found.compare("profile", &one.profile.name, &other.profile.name);
    found.compare("axes", &one.profile.axes, &other.profile.axes);
    let fixed = |run: &Run| run.profile.knobs.iter().map(|k| (k.id.0.clone(), k.usage)).collect::<Vec<_>>();
    found.compare("use of knobs", &fixed(one), &fixed(other));
    let risk = |run: &Run| run.profile.accept_thermal_risk;
    found.compare("thermal control altered", &risk(one), &risk(other));
    found.compare("companions", &one.profile.companions, &other.profile.companions);
    conditions(&mut found, one.taken()?, other.taken()?);
    let (a, b) = (&one.config, &other.config);
    found.compare("search goal", &a.search.goal, &b.search.goal);
    found.compare("search budget", &a.search.budget, &b.search.budget);
    found.compare("decode prompt", &a.settings.decode_prompt, &b.settings.decode_prompt);
    found.compare("min window", &a.measure.min_window_ms, &b.measure.min_window_ms);
    found.compare("min updates", &a.measure.min_updates, &b.measure.min_updates);
    found.compare("gate", &a.gate, &b.gate);
    found.compare("engine", &(a.engine.kind, a.engine.gpu_layers), &(b.engine.kind, b.engine.gpu_layers));
    Ok(found.lines())
}

/// Conditions that must be equal; the others stay in each journal.
fn conditions(found: &mut Differences, one: &Opened, other: &Opened) {
    let (here, there) = (&one.conditions, &other.conditions);
    let keys: BTreeSet<&String> = here.keys().chain(there.keys()).filter(|key| is_held(key)).collect();
    for key in keys {
        let of = |all: &BTreeMap<String, String>| all.get(key).cloned().unwrap_or("not told".into());
        found.compare(key, &of(here), &of(there));
    }
}

/// The first run's configuration with the settings of all.
fn joined(first: &Run, rest: &[Run]) -> SweepConfig {
    let mut config = first.config.clone();
    for run in rest {
        let (into, from) = (&mut config.settings, &run.config.settings);
        add(&mut into.decode, &from.decode);
        add(&mut into.prefill, &from.prefill);
    }
    config
}

fn add(into: &mut Vec<u32>, from: &[u32]) {
    let new: Vec<u32> = from.iter().copied().filter(|tokens| !into.contains(tokens)).collect();
    into.extend(new);
}

/// All measurements; trials that have the same name in several runs become further repeats.
fn pool(runs: &[Run]) -> Vec<Measurement> {
    let mut next: BTreeMap<TrialId, u32> = BTreeMap::new();
    let all = runs.iter().flat_map(|run| run.ledger.finished());
    all.map(|m| {
        let repeat = next.entry(TrialId { repeat: 0, ..m.id.clone() }).or_default();
        let id = TrialId { repeat: *repeat, ..m.id.clone() };
        *repeat += 1;
        Measurement { id, ..m.clone() }
    })
    .collect()
}

/// The journal of the joined run.
fn lines(
    taken: &Opened,
    config: &SweepConfig,
    profile: &Profile,
    pooled: Vec<Measurement>,
) -> Result<Vec<Line>, CampaignError> {
    let build = env!("CARGO_PKG_VERSION").to_owned();
    let opened = Box::new(taken.clone());
    let mut events = vec![Event::Created { version: VERSION, build }, Event::Opened { opened }];
    events.extend(pooled.into_iter().map(|m| Event::Finished { measurement: Box::new(m) }));
    let mut ledger = Ledger::default();
    events.iter().for_each(|event| ledger.take(event));
    let plan = Plan::new(config, DeviceAxes::new(profile, &taken.knobs)?);
    events.extend(config.settings.list().into_iter().filter_map(|s| decide(&plan, config, &ledger, s)));
    events.push(Event::Completed {});
    let at = jiff::Timestamp::now().to_string();
    let line = |(seq, event)| Line { seq, at: at.clone(), event };
    Ok((0..).zip(events).map(line).collect())
}

/// Decides a setting by every point that was measured.
fn decide(plan: &Plan<'_>, config: &SweepConfig, ledger: &Ledger, setting: Setting) -> Option<Event> {
    let baseline = plan.footing(setting, ledger).baseline;
    let goal = goal(config.search.goal, config.search.budget, baseline)?;
    let searched = ledger.finished().filter(|m| (m.id.setting, m.id.purpose) == (setting, Purpose::Search));
    let points: BTreeSet<_> = searched.map(|m| plan.axes.point(&m.id.combination)).collect();
    let known = points.into_iter().filter_map(|p| Some((p, plan.value(setting, p, ledger)?)));
    let (best, inferences) = (goal.best(known), ledger.inferences(setting));
    Some(Event::Decided { setting, goal, best, inferences })
}
