//! `opptune merge`: one run of several.

use super::{CliError, Exit, report, table};
use crate::campaign::{Run, RunDir, merge};
use std::path::PathBuf;

/// Join runs of identical devices and conditions into one
///
/// Trials are pooled and every setting is decided anew. Runs that differ in device, model, engine or conditions
/// are refused, and what differs is named.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  opptune merge results/RUN1 results/RUN2")]
pub struct Args {
    /// The run directories
    #[arg(required = true, num_args = 2..)]
    runs: Vec<PathBuf>,
    /// Where the new run directory goes
    #[arg(long, value_name = "DIR", default_value = "results")]
    results: PathBuf,
}

impl Args {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let load = |path: &PathBuf| Run::load(&RunDir::open(path)?);
        let runs = self.runs.iter().map(load).collect::<Result<Vec<_>, _>>()?;
        let merged = merge(&runs)?;
        let name = format!("{}-merged", merged.config.name);
        let dir = RunDir::create(&self.results, RunDir::today(), &merged.profile.name, &name)?;
        merged.save(&dir)?;
        table::print(&merged.table()?);
        report::write(&dir)?;
        println!("run directory: {}", dir.path().display());
        Ok(Exit::Done)
    }
}
