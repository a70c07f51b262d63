//! `opptune agent`: this program as the agent of the machine it runs on, so that a local sweep needs no other.

use std::process::ExitCode;

/// Be the agent of this machine (started by opptune itself)
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// Arguments of the agent
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

impl Args {
    pub(super) fn run(self) -> ExitCode {
        crate::untethered::main_as(&["agent"], self.args.into_iter())
    }
}
