//! The entries of a frequency table as text, for terminals and pages alike.

use crate::stats::relative;
use crate::table::{Entry, Expected, Spread, Table, range_text};
use crate::trial::{Choice, EnergyKind, KnobId, Origin, Stage};
use crate::units::OppUnit;

/// One entry as text, cell by cell under [`headings`].
pub fn cells(table: &Table, entry: &Entry) -> Vec<String> {
    let mut cells = vec![entry.stage.to_string(), range_text(entry)];
    cells.extend(knobs(table).map(|(knob, unit)| pin(entry, knob, unit)));
    let (here, there) = (&entry.expected, &entry.baseline);
    cells.push(latency(entry.stage, here));
    cells.push(change(Some(here.latency_ms), Some(there.latency_ms)));
    cells.push(energy(here));
    cells.push(change(here.energy_mj, there.energy_mj));
    cells.push(entry.inferences.to_string());
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
    all.extend(["latency", "vs governors", energy, "vs governors", "inferences"].map(String::from));
    all
}

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

/// What an entry is tuned for, and whether it was reached.
pub fn note(entry: &Entry) -> Option<String> {
    (!entry.met).then(|| {
        format!(
            "{} {}: no combination is within the budget; left to the default governors",
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
    match stage {
        Stage::Prefill => format!("TTFT {:.1} ms", expected.latency_ms.median),
        Stage::Decode => format!("TPOT {:.1} ms", expected.latency_ms.median),
    }
}

fn energy(expected: &Expected) -> String {
    expected.energy_mj.map_or("unavailable".into(), |e| format!("{:.1} mJ/token", e.median))
}

fn change(here: Option<Spread>, there: Option<Spread>) -> String {
    match (here, there) {
        (Some(h), Some(t)) if t.median > 0.0 => format!("{:+.1} %", relative(h.median, t.median) * 100.0),
        _ => "-".into(),
    }
}
