//! `opptune clean`: remove what was pushed to a device.

use super::target::{AgentArgs, dial};
use super::{CliError, Exit, block_on};

/// Remove the agent and the models that opptune put on a device
///
/// Refused while an agent runs there or something is still to be restored.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  opptune clean --device adb:SERIAL")]
pub struct Args {
    /// The device: adb, adb:SERIAL or ssh:[USER@]HOST[:PORT]
    #[arg(long, value_name = "LINK")]
    device: String,
    #[command(flatten)]
    agent: AgentArgs,
}

impl Args {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        block_on(async { Ok(dial(&self.device, &self.agent).await?.clean().await?) })?;
        println!("{}: nothing of opptune is left", self.device);
        Ok(Exit::Done)
    }
}
