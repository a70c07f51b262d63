//! `opptune completions`: shell completions.

use super::{Cli, CliError, Exit};
use clap::CommandFactory;
use clap_complete::Shell;

/// Print completions for a shell
///
/// For example: opptune completions bash > /etc/bash_completion.d/opptune
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    shell: Shell,
}

impl Args {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        clap_complete::generate(self.shell, &mut Cli::command(), "opptune", &mut std::io::stdout());
        Ok(Exit::Done)
    }
}
