//! Reading and writing `table.toml`.

use super::{Entry, SCHEMA, Table};
use crate::whole_file;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Why a table cannot be used. Each names the file and the key.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file cannot be read or written.
    #[error("cannot {doing} {}: {error}. Give the table.toml of a run directory, or the directory itself", file.display())]
    Io {
        /// `read` or `write`.
        doing: &'static str,
        /// The file.
        file: PathBuf,
        /// The system's answer.
        error: std::io::Error,
    },
    /// The file is not what the schema says.
    #[error("{}: {error}", file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// Line, key and what was expected.
        error: Box<toml::de::Error>,
    },
    /// The file was written by another version of the tool.
    #[error("{}: `schema` is {found}, this build reads {SCHEMA}. Write the table again with `opptune table build RUN`", file.display())]
    Schema {
        /// The file.
        file: PathBuf,
        /// What it says.
        found: u32,
    },
    /// A value makes no sense.
    #[error("{}: `{key}` {why}", file.display())]
    Value {
        /// The file.
        file: PathBuf,
        /// The key.
        key: String,
        /// What is wrong and what to do.
        why: String,
    },
    /// The table cannot be put into a format.
    #[error("cannot write the table as {format}: {why}")]
    Export {
        /// The format.
        format: &'static str,
        /// What its library said.
        why: String,
    },
}

/// Looked at first, so that a table of another version is told apart from a broken one.
#[derive(Deserialize)]
struct Version {
    schema: u32,
}

impl Table {
    /// Reads and validates a table.
    ///
    /// # Errors
    /// [`TableError`], naming file and key.
    pub fn load(file: &Path) -> Result<Self, TableError> {
        let text = std::fs::read_to_string(file).map_err(|error| TableError::Io {
            doing: "read",
            file: file.to_owned(),
            error,
        })?;
        Self::parse(&text, file)
    }

    /// Parses and validates a table; `file` is for errors only.
    ///
    /// # Errors
    /// [`TableError`], naming file and key.
    pub fn parse(text: &str, file: &Path) -> Result<Self, TableError> {
        let syntax = |error| TableError::Syntax { file: file.to_owned(), error: Box::new(error) };
        let version: Version = toml::from_str(text).map_err(syntax)?;
        if version.schema != SCHEMA {
            return Err(TableError::Schema { file: file.to_owned(), found: version.schema });
        }
        let table: Table = toml::from_str(text).map_err(syntax)?;
        match table.problem() {
            None => Ok(table),
            Some((key, why)) => Err(TableError::Value { file: file.to_owned(), key, why }),
        }
    }

    /// The table as TOML.
    ///
    /// # Errors
    /// [`TableError::Export`] when a number in it is too large for the format.
    pub fn to_toml(&self) -> Result<String, TableError> {
        toml::to_string_pretty(self).map_err(|e| TableError::Export { format: "TOML", why: e.to_string() })
    }

    /// The whole table as JSON, with the keys of `table.toml`.
    ///
    /// # Errors
    /// [`TableError::Export`].
    pub fn to_json(&self) -> Result<String, TableError> {
        serde_json::to_string_pretty(self)
            .map_err(|e| TableError::Export { format: "JSON", why: e.to_string() })
    }

    /// Writes the table in one step: readers see the old file or the new one, never a part.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn save(&self, file: &Path) -> Result<(), TableError> {
        let text = self.to_toml()?;
        whole_file::write(file, text).map_err(|error| TableError::Io {
            doing: "write",
            file: file.to_owned(),
            error,
        })
    }

    /// The first key whose value makes no sense, and why.
    fn problem(&self) -> Option<(String, String)> {
        let single = self.entries.iter().enumerate().find_map(|(i, entry)| {
            let (key, why) = entry_problem(entry)?;
            Some((format!("entry[{i}].{key}"), why))
        });
        single.or_else(|| self.entries.windows(2).enumerate().find_map(|(i, pair)| overlap(i, pair)))
    }
}

fn entry_problem(entry: &Entry) -> Option<(&'static str, String)> {
    if entry.from_tokens == 0 {
        return Some(("from-tokens", "is 0; token counts start at 1".into()));
    }
    if let Some(to) = entry.to_tokens.filter(|&to| to < entry.from_tokens) {
        return Some(("to-tokens", format!("is {to}, below from-tokens {}; swap them", entry.from_tokens)));
    }
    let spreads = [Some(entry.expected.latency_ms), entry.expected.energy_mj]
        .into_iter()
        .chain([Some(entry.baseline.latency_ms), entry.baseline.energy_mj]);
    let absurd = spreads.flatten().find(|s| !(s.low >= 0.0 && s.low <= s.median && s.median <= s.high));
    absurd.map(|s| {
        let why = format!("has low {} / median {} / high {}; they must ascend", s.low, s.median, s.high);
        ("expected", why)
    })
}

/// Entries must ascend by stage and range, so that every token count has one answer.
fn overlap(at: usize, pair: &[Entry]) -> Option<(String, String)> {
    let [before, after] = pair else { return None };
    let order = |entry: &Entry| super::decode_first(entry.stage);
    if order(before) < order(after) {
        return None;
    }
    let apart = before.stage == after.stage && before.to_tokens.is_some_and(|to| to < after.from_tokens);
    (!apart).then(|| {
        let range = format!("{} {}", after.stage, super::range_text(after));
        let other = format!("{} {}", before.stage, super::range_text(before));
        let why = format!(
            "overlaps or precedes the entry before it ({range} after {other}); \
                           list decode first and ranges upwards, without overlap"
        );
        (format!("entry[{}].from-tokens", at + 1), why)
    })
}
