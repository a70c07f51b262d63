//! The entries of a frequency table as text, for terminals and pages alike.

use crate::knob::KnobInfo;
use crate::profile::Profile;
use crate::search::{Goal, Point};
use crate::stats::relative;
use crate::table::{Entry, Expected, Spread, Table, range_text};
use crate::trial::{Choice, Combination, EnergyKind, KnobId, Measurement, Origin, Stage};
use crate::units::{Opp, OppUnit};

/// One entry as text, cell by cell under [`headings`].
pub fn cells(table: &Table, entry: &Entry) -> Vec<String> {
    let mut cells = vec![entry.stage.to_string(), range_text(entry)];
    cells.extend(knobs(table).map(|(knob, unit)| pin(entry, knob, unit)));
    let (here, there) = (&entry.expected, &entry.baseline);
    cells.push(latency(entry.stage, here));
    cells.push(change(Some(here.latency_ms), Some(there.latency_ms)));
    cells.push(energy(here));
    cells.push(change(here.energy_mj, there.energy_mj));
    cells.extend([here.latency_ms.n.to_string(), entry.inferences.to_string()]);
    cells
}

/// The headings of [`cells`]. Changes are against the device's default governors on the same setting.
pub fn headings(table: &Table) -> Vec<String> {
    let mut all = vec!["stage".into(), "tokens".into()];
    all.extend(knobs(table).map(|(knob, _)| knob.to_string()));
    let energy = match table.energy {
        EnergyKind::Modelled => "energy (modelled)",
        _ => "energy",
    };
    all.extend(["latency", "vs governors", energy, "vs governors", "n", "inferences"].map(String::from));
    all
}

/// What the cells are.
pub const LEGEND: &str = "\
Latency is the time to first token (TTFT) for prefill and the time per output token (TPOT) for decode; energy is per token.
Both are medians of n trials, in brackets their 95 % interval, or the lowest and highest where n is too small for one.
Changes are against the device's default governors on the same setting. Inferences are all trials the search spent.";

/// What a reader must know before any number of the table; empty when it is all measured.
pub fn warnings(origin: Origin, energy: Option<EnergyKind>) -> Vec<&'static str> {
    let mut all = Vec::new();
    if origin == Origin::Simulated {
        all.push("SIMULATED: every number here was computed by a twin; none was measured on a device.");
    }
    if energy == Some(EnergyKind::Modelled) {
        all.push("MODELLED ENERGY: energy comes from a declared power model; it was not measured.");
    }
    all
}

/// [`warnings`] for these trials.
pub fn warnings_of<'m>(mut trials: impl Iterator<Item = &'m Measurement>) -> Vec<&'static str> {
    let energy = |m: &Measurement| m.energy.as_ref().map(|e| e.source.kind);
    trials.next().map_or_else(Vec::new, |m| warnings(m.origin, energy(m)))
}

/// A point of the search space by its leading knobs: `gpu 701 MHz, cpu-big 1826 MHz`.
pub fn point(profile: &Profile, knobs: &[KnobInfo], point: Point) -> String {
    let axes = [(&profile.axes.gpu, point.gpu), (&profile.axes.cpu, point.cpu)];
    let pins = axes.into_iter().filter_map(|(axis, opp)| lead(knobs, &axis.as_ref()?.lead, opp?));
    pins.collect::<Vec<_>>().join(", ")
}

/// A combination by its leading knobs; `default governors` when none is pinned.
pub fn combination(profile: &Profile, knobs: &[KnobInfo], combination: &Combination) -> String {
    let axes = profile.axes.gpu.iter().chain(&profile.axes.cpu);
    let pins = axes.filter_map(|axis| match combination.of(&axis.lead) {
        Choice::Pin(opp) => lead(knobs, &axis.lead, opp),
        Choice::Governor => None,
    });
    let text = pins.collect::<Vec<_>>().join(", ");
    if text.is_empty() { "default governors".into() } else { text }
}

fn lead(knobs: &[KnobInfo], id: &KnobId, opp: Opp) -> Option<String> {
    let unit = knobs.iter().find(|knob| knob.id == *id)?.unit;
    Some(format!("{id} {}", opp.show(unit)))
}

/// What is tuned for, with its bound.
pub fn goal(goal: Goal) -> String {
    match goal {
        Goal::LowestLatency { within } => format!("lowest latency within {within} per token"),
        Goal::LowestEnergy { within } => format!("lowest energy within a latency of {within}"),
    }
}

/// What is to be said of an entry that met no goal.
pub fn note(entry: &Entry) -> Option<String> {
    (!entry.met).then(|| {
        format!(
            "{} {}: no combination that was tried is within the budget; left to the default governors",
            entry.stage,
            range_text(entry)
        )
    })
}

/// Knobs that at least one entry pins.
fn knobs(table: &Table) -> impl Iterator<Item = (&KnobId, OppUnit)> {
    let pinned = |knob: &KnobId| table.entries.iter().any(|e| e.pins.of(knob) != Choice::Governor);
    table.units.iter().filter(move |(knob, _)| pinned(knob)).map(|(knob, unit)| (knob, *unit))
}

fn pin(entry: &Entry, knob: &KnobId, unit: OppUnit) -> String {
    match entry.pins.of(knob) {
        Choice::Governor => "governor".into(),
        Choice::Pin(opp) => opp.show(unit),
    }
}

fn latency(stage: Stage, expected: &Expected) -> String {
    let name = match stage {
        Stage::Prefill => "TTFT",
        Stage::Decode => "TPOT",
    };
    format!("{name} {}", spread(expected.latency_ms, "ms"))
}

fn energy(expected: &Expected) -> String {
    expected.energy_mj.map_or("unavailable".into(), |e| spread(e, "mJ/token"))
}

/// `138.8 ms (136.2..140.1)`
fn spread(spread: Spread, unit: &str) -> String {
    let number = |value: f64| if value < 1e3 { format!("{value:.1}") } else { format!("{value:.0}") };
    format!("{} {unit} ({}..{})", number(spread.median), number(spread.low), number(spread.high))
}

fn change(here: Option<Spread>, there: Option<Spread>) -> String {
    match (here, there) {
        (Some(h), Some(t)) if t.median > 0.0 => format!("{:+.1} %", relative(h.median, t.median) * 100.0),
        _ => "-".into(),
    }
}
