//! `opptune status`: how far a detached run is.

use super::detached::{Detached, Progress};
use super::target::AgentArgs;
use super::{CliError, Exit, block_on};
use std::path::PathBuf;

/// Say how far a run is that was started with `sweep --detach`
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  opptune status results/2026-01-31-pixel-7-night")]
pub struct Args {
    /// The run directory
    run: PathBuf,
    #[command(flatten)]
    agent: AgentArgs,
}

impl Args {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let progress = block_on(Detached::bring_home(&self.run, &self.agent))?;
        println!("{}: {} trials done", progress.word(), progress.trials);
        if !progress.begun {
            println!("{}", Progress::NOT_BEGUN);
            return Ok(Exit::Done);
        }
        println!("bring it home with: opptune collect {}", self.run.display());
        Ok(Exit::Done)
    }
}
