//! `opptune resume`: go on with a run.

use super::runner::{Job, run_all};
use super::target::AgentArgs;
use super::{CliError, Exit};
use crate::campaign::RunDir;
use std::path::PathBuf;

/// Go on with a run that was cut short
///
/// Everything it needs is in the run directory. Trials that are done are not run again; a complete run only gets
/// its table and report written anew.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  opptune resume results/2026-01-31-pixel-7-night")]
pub struct Args {
    /// The run directory
    run: PathBuf,
    #[command(flatten)]
    agent: AgentArgs,
}

impl Args {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let run = RunDir::open(&self.run)?;
        let job = Job { config: run.config()?, profile: run.profile()?, run };
        run_all(&[job], &self.agent)
    }
}
