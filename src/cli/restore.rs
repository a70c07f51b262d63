//! `opptune restore`: put a device back by hand.

use super::target::Target;
use super::{CliError, Exit, block_on, error::say_restored};
use crate::protocol::{ToAgent, ToHost};

/// Put a device back to what it was before opptune changed it
///
/// Needed only if a run could not do it itself (exit code 7, a reboot in between). Uses the originals that the
/// agent saved on the device; doing it twice is harmless.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  opptune restore --device adb:SERIAL")]
pub struct Args {
    #[command(flatten)]
    target: Target,
}

impl Args {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        if let Some(twin) = self.target.profile()?.filter(|profile| profile.twin.is_some()) {
            println!("{} is simulated: it ends with its agent, so there is nothing to put back", twin.name);
            return Ok(Exit::Done);
        }
        let report = block_on(async {
            let mut session = self.target.session().await?;
            match session.ask(ToAgent::Restore { steal_from: self.target.agent.steal.clone() }).await? {
                ToHost::Restored(report) => Ok((session.bye().await?, report).1),
                other => Err(session.odd(format!("the agent answered restore with {other:?}"))),
            }
        })?;
        say_restored(&report)
    }
}
