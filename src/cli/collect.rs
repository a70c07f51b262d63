//! `opptune collect`: bring a detached run home.

use super::detached::{Detached, Progress};
use super::target::AgentArgs;
use super::{CliError, Exit, block_on, report, table};
use crate::campaign::RunDir;
use crate::table::Table;
use std::path::PathBuf;

/// Bring home a run that was started with `sweep --detach`
///
/// The run directory is then what a sweep over a link would have left. Nothing is removed from the device;
/// `opptune clean` does that.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  opptune collect results/2026-01-31-pixel-7-night")]
pub struct Args {
    /// The run directory
    run: PathBuf,
    #[command(flatten)]
    agent: AgentArgs,
}

impl Args {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let progress = block_on(Detached::bring_home(&self.run, &self.agent))?;
        let path = self.run.display();
        if !progress.begun {
            println!("{}: {}", progress.word(), Progress::NOT_BEGUN);
            return Ok(Exit::Interrupted);
        }
        if progress.trials == 0 {
            println!("{}: nothing was measured yet; its log: {path}/log", progress.word());
            return Ok(Exit::Interrupted);
        }
        let run = RunDir::open(&self.run)?;
        if run.table().exists() {
            table::print(&Table::load(&run.table())?);
        }
        report::write(&run)?;
        println!("{}: {} trials\nrun directory: {path}", progress.word(), progress.trials);
        if progress.completed {
            return Ok(Exit::Done);
        }
        match progress.running {
            true => eprintln!("collect it again later: opptune collect {path}"),
            false => eprintln!("finish it over the link with: opptune resume {path}"),
        }
        Ok(Exit::Interrupted)
    }
}
