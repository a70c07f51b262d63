//! Which device a command is about, and how its agent is started.

use super::{CliError, session::Session};
use crate::profile::{self, Profile};
use crate::protocol::{Fingerprint, Opened};
use crate::transport::{Dial, DialOptions, parse_link};
use std::path::PathBuf;
use std::sync::Arc;

/// The device and its agent, as every command that talks to one takes them.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Device")]
pub struct AgentArgs {
    /// Agent to run on the device [default: this program on `local`, a pushed opptune-agent elsewhere]
    #[arg(long, value_name = "PATH")]
    pub agent: Option<PathBuf>,
    /// Argument passed on to the agent, for labs: --agent-arg=--root=TREE
    #[arg(long, value_name = "ARG", hide_short_help = true, allow_hyphen_values = true)]
    pub agent_arg: Vec<String>,
    /// Take the device although HOLDER has locked it
    #[arg(long, value_name = "HOLDER")]
    pub steal: Option<String>,
}

/// One device.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Device")]
pub struct Target {
    /// The device: local, adb, adb:SERIAL or ssh:[USER@]HOST[:PORT]
    #[arg(long, value_name = "LINK", default_value = "local")]
    pub device: String,
    /// Profile to use: a name that `opptune devices` lists, or a .toml file
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<String>,
    #[command(flatten)]
    pub agent: AgentArgs,
}

impl Target {
    /// The profile that was named, if one was.
    pub fn profile(&self) -> Result<Option<Profile>, CliError> {
        Ok(self.profile.as_deref().map(profile::load).transpose()?)
    }

    /// Starts an agent on the device.
    pub async fn session(&self) -> Result<Session, CliError> {
        Session::start(&dial(&self.device, &self.agent).await?).await
    }

    /// Starts an agent to look at the device without taking it, with the profile that was named or else one that
    /// matches the device.
    pub async fn look(&self) -> Result<(Session, Option<Box<Profile>>), CliError> {
        let named = self.profile()?;
        let session = self.session().await?;
        let known = || profile::matching(&session.device).first().and_then(|name| profile::load(name).ok());
        let profile = named.or_else(known).map(Box::new);
        Ok((session, profile))
    }

    /// Starts an agent and takes the device with the profile that was named or the one that matches it.
    pub async fn open(&self) -> Result<(Session, Profile, Opened), CliError> {
        let named = self.profile()?;
        let mut session = self.session().await?;
        let profile = named.map_or_else(|| matched(&session.device), Ok)?;
        let opened = session.open(profile.clone(), self.agent.steal.clone()).await?;
        Ok((session, profile, opened))
    }
}

/// The one built-in profile that is for this device.
fn matched(device: &Fingerprint) -> Result<Profile, CliError> {
    let names = profile::matching(device);
    match &names[..] {
        [name] => Ok(profile::load(name)?),
        [] => Err(CliError::Usage(format!(
            "no profile is for this device (model `{}`, SoC `{}`). Give one with --profile; `opptune probe --write FILE` \
             makes one from what the device has",
            device.model, device.soc
        ))),
        several => Err(CliError::Usage(format!(
            "several profiles are for this device: {}. Choose one with --profile",
            several.join(", ")
        ))),
    }
}

/// The device at the other end of `link`, and what starts agents on it.
pub async fn dial(link: &str, agent: &AgentArgs) -> Result<Dial, CliError> {
    let device = link.to_owned();
    let options = DialOptions {
        agent: agent.agent.clone(),
        args: agent.agent_arg.clone(),
        progress: Arc::new(move |name, sent, total| push_progress(&device, name, sent, total)),
    };
    Ok(Dial::new(&parse_link(link)?, options).await?)
}

/// A line when a file begins to go to a device, and one when it is there.
fn push_progress(device: &str, name: &str, sent: u64, total: u64) {
    const MIB: f64 = 1024.0 * 1024.0;
    match sent {
        0 => eprintln!("{device}: pushing {name}, {:.1} MiB", total as f64 / MIB),
        _ if sent == total => eprintln!("{device}: pushed {name}"),
        _ => (),
    }
}
