//! The entries as comma-separated values, for spreadsheets and scripts.

use super::{Entry, Expected, Spread, Table, TableError};
use crate::search::Goal;
use crate::trial::{Choice, KnobId};
use std::collections::BTreeSet;

impl Table {
    /// The entries as CSV: one row per entry, one column per knob that any entry pins, named `KNOB (unit)`.
    ///
    /// # Errors
    /// [`TableError::Export`].
    pub fn to_csv(&self) -> Result<String, TableError> {
        let fault = |why: String| TableError::Export { format: "CSV", why };
        let mut writer = ::csv::Writer::from_writer(Vec::new());
        for row in self.rows() {
            writer.write_record(row).map_err(|e| fault(e.to_string()))?;
        }
        let bytes = writer.into_inner().map_err(|e| fault(e.to_string()))?;
        String::from_utf8(bytes).map_err(|e| fault(e.to_string()))
    }

    /// Head and rows of the CSV.
    fn rows(&self) -> Vec<Vec<String>> {
        let knobs = self.pinned();
        let mut head = words(&["run", "origin", "energy", "stage", "from_tokens", "to_tokens"]);
        head.extend(knobs.iter().map(|id| format!("{id} ({})", self.unit_word(id))));
        head.extend(words(&["goal", "within", "met"]));
        for who in ["", "baseline_"] {
            let of = |name: &str| ["", "_low", "_high"].map(|end| format!("{who}{name}{end}"));
            head.extend(of("latency_ms"));
            head.extend(of("energy_mj"));
        }
        head.extend(words(&["n", "inferences"]));
        let rows = self.entries.iter().map(|entry| self.row(entry, &knobs));
        std::iter::once(head).chain(rows).collect()
    }

    fn row(&self, entry: &Entry, knobs: &[&KnobId]) -> Vec<String> {
        let mut row = vec![self.run.clone(), self.origin.to_string(), self.energy.to_string()];
        row.extend([entry.stage.to_string(), entry.from_tokens.to_string()]);
        row.push(entry.to_tokens.map_or_else(String::new, |to| to.to_string()));
        row.extend(knobs.iter().map(|id| match entry.pins.of(id) {
            Choice::Governor => "governor".to_owned(),
            Choice::Pin(opp) => opp.0.to_string(),
        }));
        let (goal, within) = match entry.goal {
            Goal::LowestLatency { within } => ("lowest-latency", within.0),
            Goal::LowestEnergy { within } => ("lowest-energy", within.0),
        };
        row.extend([goal.to_owned(), within.to_string(), entry.met.to_string()]);
        row.extend(numbers(&entry.expected));
        row.extend(numbers(&entry.baseline));
        row.extend([entry.expected.latency_ms.n.to_string(), entry.inferences.to_string()]);
        row
    }

    /// Knobs that any entry pins.
    fn pinned(&self) -> Vec<&KnobId> {
        let all = self.entries.iter().flat_map(|e| e.pins.0.iter());
        let pinned = all.filter(|(_, choice)| matches!(choice, Choice::Pin(_))).map(|(id, _)| id);
        pinned.collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn unit_word(&self, id: &KnobId) -> &'static str {
        self.units.get(id).map_or("?", |unit| unit.word())
    }
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|&word| word.to_owned()).collect()
}

/// Latency and energy, each as median, low, high; empty where there is none.
fn numbers(expected: &Expected) -> Vec<String> {
    let of = |spread: Option<Spread>| match spread {
        Some(s) => [s.median, s.low, s.high].map(|v| v.to_string()),
        None => Default::default(),
    };
    [of(Some(expected.latency_ms)), of(expected.energy_mj)].concat()
}
