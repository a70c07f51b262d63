//! What the report shows, gathered from the journal. Pure.

use crate::campaign::config::SweepConfig;
use crate::campaign::journal::{Event, Line};
use crate::profile::{Axis, Profile};
use crate::protocol::Failure;
use crate::search::{Goal, Point};
use crate::stats::Sample;
use crate::trial::{Choice, Combination, Flag, Measurement, Purpose, Setting, TrialId, Verdict};
use crate::units::Opp;
use std::collections::BTreeMap;

/// One combination of a setting: medians over its usable trials.
#[derive(Clone, Debug, PartialEq)]
pub struct Spot {
    /// Where on the axes; `None` is the governor's.
    pub point: Point,
    /// TTFT or TPOT, ms.
    pub latency: f64,
    /// mJ per token, where there is an energy source.
    pub energy: Option<f64>,
    /// Trials behind it.
    pub n: usize,
}

/// The search of one setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// Which setting.
    pub setting: Setting,
    /// The default governors on it.
    pub baseline: Option<Spot>,
    /// What was measured, by point.
    pub spots: Vec<Spot>,
    /// The goal, once decided.
    pub goal: Option<Goal>,
    /// The answer, once decided.
    pub best: Option<Point>,
}

/// The searches of a run, in the order of its configuration.
pub fn searches(config: &SweepConfig, profile: &Profile, events: &[Line]) -> Vec<Search> {
    let mut groups: Groups = BTreeMap::new();
    for m in measurements(events).filter(|m| m.usable()) {
        let point = point(profile, &m.id.combination);
        groups.entry((m.id.setting, m.id.purpose, point)).or_default().push(m);
    }
    let begun = |setting: &Setting| groups.keys().any(|(measured, ..)| measured == setting);
    let settings = config.settings.list().into_iter().filter(begun);
    settings.map(|setting| search(setting, &groups, events)).collect()
}

type Groups<'m> = BTreeMap<(Setting, Purpose, Point), Vec<&'m Measurement>>;

fn search(setting: Setting, groups: &Groups<'_>, events: &[Line]) -> Search {
    let of = |purpose| {
        let mine = groups.iter().filter(move |((s, p, _), _)| (*s, *p) == (setting, purpose));
        mine.filter_map(|((.., point), all)| spot(*point, all))
    };
    let decided = events.iter().rev().find_map(|line| match &line.event {
        Event::Decided { setting: s, goal, best, .. } if *s == setting => Some((*goal, *best)),
        _ => None,
    });
    Search {
        setting,
        baseline: of(Purpose::Baseline).next(),
        spots: of(Purpose::Search).collect(),
        goal: decided.map(|(goal, _)| goal),
        best: decided.and_then(|(_, best)| best).map(|(point, _)| point),
    }
}

fn spot(point: Point, all: &[&Measurement]) -> Option<Spot> {
    let latency = Sample::from_iter(all.iter().filter_map(|m| m.stage_latency()).map(|l| l.0)).median()?;
    let energy =
        Sample::from_iter(all.iter().filter_map(|m| m.energy.as_ref()).map(|e| e.per_token.0)).median();
    Some(Spot { point, latency, energy, n: all.len() })
}

fn point(profile: &Profile, combination: &Combination) -> Point {
    let at = |axis: Option<&Axis>| match combination.of(&axis?.lead) {
        Choice::Pin(opp) => Some(opp),
        Choice::Governor => None,
    };
    Point { gpu: at(profile.axes.gpu.as_ref()), cpu: at(profile.axes.cpu.as_ref()) }
}

/// Every measurement of the run, in order.
pub fn measurements(events: &[Line]) -> impl Iterator<Item = &Measurement> {
    events.iter().filter_map(|line| match &line.event {
        Event::Finished { measurement } => Some(&**measurement),
        _ => None,
    })
}

/// Failed attempts, in order.
pub fn failures(events: &[Line]) -> impl Iterator<Item = (&TrialId, &Failure, bool)> {
    events.iter().filter_map(|line| match &line.event {
        Event::Failed { id, failure, given_up } => Some((id, failure, *given_up)),
        _ => None,
    })
}

/// How often each verdict was given, over all knobs of all trials.
pub fn verdicts(events: &[Line]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for seen in measurements(events).flat_map(|m| m.knobs.values()) {
        *counts.entry(name(&seen.verdict)).or_default() += 1;
    }
    counts
}

fn name(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Held => "held".into(),
        Verdict::Free => "free (governor)".into(),
        Verdict::Clamped { by } => format!("clamped by {by}"),
        Verdict::Contended { .. } => "contended".into(),
        Verdict::Unverifiable { .. } => "unverifiable".into(),
    }
}

/// What readers must know of trials, and of how many.
pub fn remarks(events: &[Line]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for m in measurements(events) {
        let short = m.energy.as_ref().is_some_and(|energy| energy.too_short);
        let short = short.then(|| "window too short for the energy source".to_owned());
        for remark in m.flags.iter().map(remark).chain(short) {
            *counts.entry(remark).or_default() += 1;
        }
    }
    counts
}

fn remark(flag: &Flag) -> String {
    match flag {
        Flag::SchedulingJitter => "scheduling jitter: ITL p99 above 3 x p50".into(),
        Flag::AffinityNotApplied { why } => format!("affinity not applied: {why}"),
        Flag::RepeatedAfterLinkLoss => "repeated after the link was lost".into(),
        Flag::ExternalPower => "external power attached although energy is the battery's".into(),
        Flag::ThermalControlAltered => "thermal control altered by the profile".into(),
        Flag::SamplesLost { .. } => "sensor samples lost".into(),
    }
}

/// Runs that were the first after a load, with their latency in ms: another result than a warm one.
pub fn cold(events: &[Line]) -> impl Iterator<Item = (Setting, f64)> {
    let cold = measurements(events).filter(|m| m.warm_up.cold);
    cold.filter_map(|m| Some((m.id.setting, m.warm_up.latency?.0)))
}

/// The drift control: latency of each re-measurement against the first one of its setting, as a ratio.
pub fn drift(events: &[Line]) -> Vec<(TrialId, f64)> {
    let mut first: BTreeMap<(Setting, &Combination), f64> = BTreeMap::new();
    let mut all = Vec::new();
    for m in measurements(events).filter(|m| m.id.purpose == Purpose::Drift && m.usable()) {
        if let Some(latency) = m.stage_latency() {
            let start = *first.entry((m.id.setting, &m.id.combination)).or_insert(latency.0);
            all.push((m.id.clone(), latency.0 / start));
        }
    }
    all
}

/// Named series over the number of the trial: temperatures at the start of each trial, °C.
pub fn temperatures(events: &[Line]) -> Vec<(String, Vec<(f64, f64)>)> {
    series(events, |m| m.heat.start.iter().map(|(zone, t)| (zone.clone(), t.0)).collect())
}

/// Named series over the number of the trial: the mean clock of each leading knob, MHz (or its own unit where
/// that is not a frequency).
pub fn clocks(profile: &Profile, events: &[Line]) -> Vec<(String, Vec<(f64, f64)>)> {
    let leads: Vec<_> = profile.axes.gpu.iter().chain(&profile.axes.cpu).map(|axis| &axis.lead).collect();
    series(events, |m| {
        let seen = leads.iter().filter_map(|lead| Some((lead, m.knobs.get(*lead)?.seen_mean?)));
        seen.map(|(lead, mean)| (lead.to_string(), mean / 1e3)).collect()
    })
}

fn series(
    events: &[Line],
    values: impl Fn(&Measurement) -> Vec<(String, f64)>,
) -> Vec<(String, Vec<(f64, f64)>)> {
    let mut all: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for (trial, m) in measurements(events).enumerate() {
        for (name, value) in values(m) {
            all.entry(name).or_default().push((trial as f64 + 1.0, value));
        }
    }
    all.into_iter().collect()
}

/// The axis values of a spot: the one that is drawn along, and the other one.
pub fn along(point: Point, gpu: bool) -> (Option<Opp>, Option<Opp>) {
    if gpu { (point.gpu, point.cpu) } else { (point.cpu, point.gpu) }
}
