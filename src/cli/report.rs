//! `opptune report`: the HTML report of a run.

use super::{CliError, Exit};
use crate::campaign::{Run, RunDir};
use crate::report;
use std::path::PathBuf;

/// Write the report of a run: one HTML file with tables and plots
///
/// A sweep writes it at its end; this writes it again, from the journal.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  opptune report results/2026-01-31-pixel-7-night")]
pub struct Args {
    /// The run directory
    run: PathBuf,
}

impl Args {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        println!("{}", write(&RunDir::open(&self.run)?)?.display());
        Ok(Exit::Done)
    }
}

/// Writes `report.html` into a run directory.
pub(super) fn write(dir: &RunDir) -> Result<PathBuf, CliError> {
    let run = Run::load(dir)?;
    let table = run.table().ok();
    let name = dir.path().file_name().unwrap_or_default().to_string_lossy();
    let page = report::render(&report::Run {
        name: &name,
        config: &run.config,
        profile: &run.profile,
        events: &run.lines,
        table: table.as_ref(),
    });
    let file = dir.path().join("report.html");
    std::fs::write(&file, page)
        .map_err(|error| CliError::Io { doing: format!("write {}", file.display()), error })?;
    Ok(file)
}
