//! The frequency table of a run: a pure function of its journal.

use super::axes::DeviceAxes;
use super::config::{StrategyKind, SweepConfig};
use super::journal::{Event, Line};
use super::ledger::{Decision, Ledger, samples};
use super::outcome::CampaignError;
use crate::profile::Profile;
use crate::table::{self, Entry, Expected, Method, Table};
use crate::trial::{Combination, Purpose, Setting, Stage};
use std::collections::BTreeMap;

/// The table of a journal.
///
/// # Errors
/// [`CampaignError::Incomplete`] when no setting of the run is decided yet; [`CampaignError::Axes`] when the
/// profile is not the run's.
pub fn table_of(lines: &[Line], config: &SweepConfig, profile: &Profile) -> Result<Table, CampaignError> {
    let table = tabulate(&Ledger::of(lines), config, profile)?;
    let build = lines.iter().find_map(|line| match &line.event {
        Event::Created { build, .. } => Some(build.clone()),
        _ => None,
    });
    let incomplete = || CampaignError::Incomplete {
        run: config.name.clone(),
        lacks: "has no setting that is decided, so there is no table yet; go on with `opptune resume RUN`"
            .into(),
    };
    let mut table = table.ok_or_else(incomplete)?;
    table.method.build = build.unwrap_or(table.method.build);
    Ok(table)
}

/// The table of what is decided; `None` when nothing is.
pub(super) fn tabulate(
    ledger: &Ledger,
    config: &SweepConfig,
    profile: &Profile,
) -> Result<Option<Table>, CampaignError> {
    let Some(opened) = ledger.first() else { return Ok(None) };
    let Some(energy) = &opened.energy else { return Ok(None) };
    let axes = DeviceAxes::new(profile, &opened.knobs)?;
    let entries = entries(ledger, config, &axes);
    let mut conditions = conditions(opened, config, profile);
    conditions.insert("trials-given-up".into(), ledger.given_up().count().to_string());
    Ok((!entries.is_empty()).then(|| Table {
        schema: table::SCHEMA,
        run: config.name.clone(),
        origin: opened.origin,
        energy: energy.kind,
        device: opened.device.clone(),
        engine: opened.engine.clone().unwrap_or_default(),
        method: method(config),
        conditions,
        units: opened.knobs.iter().map(|knob| (knob.id.clone(), knob.unit)).collect(),
        entries,
    }))
}

fn method(config: &SweepConfig) -> Method {
    let strategy = match config.search.strategy {
        StrategyKind::TwoStep => "two-step",
        StrategyKind::Exhaustive => "exhaustive",
    };
    Method { strategy: strategy.into(), seed: config.search.seed, build: env!("CARGO_PKG_VERSION").into() }
}

/// What the agent found when the run began, and how it was measured.
fn conditions(
    opened: &crate::protocol::Opened,
    config: &SweepConfig,
    profile: &Profile,
) -> BTreeMap<String, String> {
    let measure = &config.measure;
    let mut all = opened.conditions.clone();
    let mut add = |key: &str, value: String| all.insert(key.to_owned(), value);
    add("profile", profile.name.clone());
    add("repeats", measure.repeats.to_string());
    add("baseline-repeats", measure.baseline_repeats.to_string());
    add("min-window-ms", measure.min_window_ms.to_string());
    add("decode-prompt-tokens", config.settings.decode_prompt.to_string());
    let source = opened.energy.as_ref();
    if let Some(source) = source {
        add("energy-source", source.name.clone());
    }
    if let Some(attached) = source.and_then(|s| s.external_power) {
        add("external-power", attached.to_string());
    }
    if profile.accept_thermal_risk {
        add("thermal-control", "altered by the profile (accept-thermal-risk)".into());
    }
    all
}

/// The entries of all settings that are decided, decode first, each stage by length.
fn entries(ledger: &Ledger, config: &SweepConfig, axes: &DeviceAxes) -> Vec<Entry> {
    let of = |stage| {
        let mut lengths: Vec<u32> = config
            .settings
            .list()
            .into_iter()
            .filter(|s| s.stage == stage)
            .filter(|s| ledger.decision(*s).is_some())
            .map(|s| s.tokens)
            .collect();
        lengths.sort_unstable();
        let ranges = table::ranges(stage, &lengths);
        lengths
            .into_iter()
            .zip(ranges)
            .filter_map(move |(tokens, range)| entry(ledger, axes, Setting { stage, tokens }, range))
    };
    of(Stage::Decode).chain(of(Stage::Prefill)).collect()
}

fn entry(
    ledger: &Ledger,
    axes: &DeviceAxes,
    setting: Setting,
    (from_tokens, to_tokens): (u32, Option<u32>),
) -> Option<Entry> {
    let Decision { goal, best, inferences } = ledger.decision(setting)?.clone();
    let baseline_pins = axes.baseline();
    let baseline = expected(ledger, setting, &baseline_pins, Purpose::Baseline)?;
    let pins = best.map_or(baseline_pins, |(point, _)| axes.combination(point));
    let reached = best.and_then(|_| expected(ledger, setting, &pins, Purpose::Search));
    Some(Entry {
        stage: setting.stage,
        from_tokens,
        to_tokens,
        measured_tokens: setting.tokens,
        pins,
        goal,
        met: best.is_some(),
        expected: reached.unwrap_or_else(|| baseline.clone()),
        baseline,
        inferences,
    })
}

fn expected(ledger: &Ledger, setting: Setting, pins: &Combination, purpose: Purpose) -> Option<Expected> {
    let (latency, energy) = samples(ledger.repeats(setting, pins, purpose));
    Expected::of(&latency, &energy)
}
