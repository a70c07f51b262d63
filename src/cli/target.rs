//! Which device a command is about, and how its agent is started.

use super::{CliError, session::Session};
use crate::profile::{self, Profile};
use crate::protocol::{Fingerprint, Opened};
use crate::transport::local::Local;
use crate::transport::{AgentStream, Connector, LinkSpec, Transport, TransportError, parse_link};
use std::path::PathBuf;
use std::sync::Arc;

/// The device and its agent, as every command that talks to one takes them.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Device")]
pub struct AgentArgs {
    /// Agent to run on the device [default: this program on `local`, a pushed opptune-agent elsewhere]
    #[arg(long, value_name = "PATH")]
    pub agent: Option<PathBuf>,
    /// Argument passed on to the agent, for labs: --agent-arg=--root=/tmp/tree
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
        Session::start(&*connect(&self.device, &self.agent).await?).await
    }

    /// Starts an agent to look at the device without taking it. A simulated device is not there to be looked at
    /// until it is taken: its profile makes it.
    pub async fn session_to_look(&self) -> Result<Session, CliError> {
        match self.profile()? {
            Some(profile) if profile.twin.is_some() => Ok(self.open().await?.0),
            _ => self.session().await,
        }
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

/// What starts agents on the device at the other end of `link`.
pub async fn connect(link: &str, agent: &AgentArgs) -> Result<Arc<dyn Connector>, CliError> {
    match parse_link(link)? {
        LinkSpec::Local => Ok(Arc::new(Direct { transport: Local, argv: local_argv(agent)? })),
        other => Err(CliError::Usage(format!("{other}: not wired yet"))),
    }
}

/// On this machine the agent is this very program, so that nothing needs to be built or pushed first.
fn local_argv(agent: &AgentArgs) -> Result<Vec<String>, CliError> {
    let mut argv = match &agent.agent {
        Some(path) => vec![path.display().to_string()],
        None => {
            let me = std::env::current_exe()
                .map_err(|error| CliError::Io { doing: "find this program's own path".into(), error })?;
            vec![me.display().to_string(), "agent".into()]
        }
    };
    argv.extend(agent.agent_arg.iter().cloned());
    Ok(argv)
}

struct Direct<T> {
    transport: T,
    argv: Vec<String>,
}

#[async_trait::async_trait]
impl<T: Transport> Connector for Direct<T> {
    fn device(&self) -> String {
        self.transport.device()
    }

    async fn connect(&self) -> Result<AgentStream, TransportError> {
        self.transport.open_agent(&self.argv).await
    }
}
