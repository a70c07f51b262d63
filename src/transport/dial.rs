//! From the name of a link to a running agent: places it on the device if it is not there, and starts it.

use super::adb::{Adb, Server};
use super::local::Local;
use super::push::{self, OnProgress, Parcel, Placed, Survey};
use super::{AgentStream, Connector, LinkSpec, Transport, TransportError, agent_file};
use async_trait::async_trait;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;

const QUICK: Duration = Duration::from_secs(20);
/// What an agent is told to be when it is dialled.
const SERVE: &str = "serve";

/// How an agent is started.
#[derive(Clone)]
pub struct DialOptions {
    /// The agent binary; `None`: see `--agent` in the README.
    pub agent: Option<PathBuf>,
    /// Arguments of the agent, after `serve`.
    pub args: Vec<String>,
    /// Told of files on their way to the device.
    pub progress: Arc<OnProgress<'static>>,
}

impl Default for DialOptions {
    fn default() -> Self {
        DialOptions { agent: None, args: Vec::new(), progress: Arc::new(|_, _, _| ()) }
    }
}

/// A device and what starts agents on it.
pub struct Dial {
    transport: Box<dyn Transport>,
    /// Whether programs and models must be copied to the device first.
    away: bool,
    options: DialOptions,
    survey: OnceCell<Survey>,
}

impl Dial {
    /// The device a link names. Nothing is started or copied yet.
    ///
    /// # Errors
    /// [`TransportError`] when the link names no device, or more than one.
    pub async fn new(link: &LinkSpec, options: DialOptions) -> Result<Self, TransportError> {
        Ok(match link {
            LinkSpec::Local => Dial { away: false, ..Dial::over(Box::new(Local), options) },
            LinkSpec::Adb { serial } => {
                let adb = Adb::find(Server::from_env()?, serial.as_deref()).await?;
                Dial::over(Box::new(adb), options)
            }
            LinkSpec::Ssh { .. } => Dial::over(ssh(link)?, options),
        })
    }

    /// A device away from here, over a transport that is already there.
    pub fn over(transport: Box<dyn Transport>, options: DialOptions) -> Self {
        Dial { transport, away: true, options, survey: OnceCell::new() }
    }

    /// The link below.
    pub fn transport(&self) -> &dyn Transport {
        &*self.transport
    }

    /// What the device says of itself.
    ///
    /// # Errors
    /// [`TransportError`].
    pub async fn survey(&self) -> Result<&Survey, TransportError> {
        self.survey.get_or_try_init(|| push::survey(&*self.transport)).await
    }

    /// Sees to it that the device has a model file, and says where.
    ///
    /// # Errors
    /// [`TransportError`]; what arrived is kept for the next time.
    pub async fn place_model(&self, file: &Path) -> Result<Placed, TransportError> {
        if self.away {
            return self.place(file, false).await;
        }
        let path = file.display().to_string();
        Ok(Placed { path, sha256: String::new(), sent: 0 })
    }

    /// The words that start the agent on the device, which has it afterwards.
    ///
    /// # Errors
    /// [`TransportError`]; an agent of the wrong architecture is refused before it is sent.
    pub async fn place_agent(&self) -> Result<Vec<String>, TransportError> {
        let device = self.transport.device();
        let me =
            std::env::current_exe().map_err(|e| TransportError::lost(&device, "finding this program", e))?;
        if !self.away {
            return Ok(match &self.options.agent {
                Some(path) => vec![path.display().to_string()],
                None => vec![me.display().to_string(), "agent".into()],
            });
        }
        let survey = self.survey().await?;
        let agent = agent_file::find(&device, self.options.agent.as_deref(), survey, &me)?;
        let placed = self.place(&agent.path, true).await?;
        Ok([vec![placed.path], agent.prefix].concat())
    }

    async fn place(&self, file: &Path, program: bool) -> Result<Placed, TransportError> {
        let survey = self.survey().await?;
        push::place(&*self.transport, survey, Parcel { file, program }, &*self.options.progress).await
    }

    /// Removes all that opptune has put on the device.
    ///
    /// # Errors
    /// [`TransportError::Refused`] while the device is in use or has something to restore.
    pub async fn clean(&self) -> Result<(), TransportError> {
        let survey = self.survey().await?;
        self.check_no_run(&survey.place).await?;
        for dir in &survey.state_dirs {
            self.check_unused(dir).await?;
        }
        push::remove(&*self.transport, survey).await
    }

    /// A detached run holds no lock while it waits for its cable to go.
    async fn check_no_run(&self, place: &str) -> Result<(), TransportError> {
        let script = format!(
            "for p in {place}/runs/*/pid; do test -e $p && grep -q run-plan /proc/$(cat $p)/cmdline && echo $p; done"
        );
        let running = self.transport.run_as_agent(&["sh", "-c", &script], QUICK).await?.stdout;
        if running.trim().is_empty() {
            return Ok(());
        }
        let next = "Wait for it to end (see: opptune status RUN), and collect it first";
        let device = self.transport.device();
        Err(TransportError::refused(&device, "cleaning up", "a detached run is on it", next))
    }

    async fn check_unused(&self, state_dir: &str) -> Result<(), TransportError> {
        let (owed, lock) = (format!("{state_dir}/restore.json"), format!("{state_dir}/lock"));
        let device = self.transport.device();
        let refused =
            |why: &str, next: String| Err(TransportError::refused(&device, "cleaning up", why, next));
        let status =
            async |argv: &[&str]| self.transport.run_as_agent(argv, QUICK).await.map(|output| output.status);
        if status(&["test", "-e", &owed]).await? == Some(0) {
            return refused("it has values to restore", format!("Type: opptune restore --device {device}"));
        }
        let has_lock = status(&["test", "-e", &lock]).await? == Some(0);
        if has_lock && status(&["flock", "-n", &lock, "true"]).await? == Some(1) {
            return refused("an agent is using it", "Wait for it to end, or take it with --steal".into());
        }
        Ok(())
    }
}

#[cfg(feature = "ssh")]
fn ssh(link: &LinkSpec) -> Result<Box<dyn Transport>, TransportError> {
    Ok(Box::new(super::ssh::Ssh::new(link)?))
}

#[cfg(not(feature = "ssh"))]
fn ssh(link: &LinkSpec) -> Result<Box<dyn Transport>, TransportError> {
    let next = "Build it with: cargo build --release --features ssh";
    Err(TransportError::refused(&link.to_string(), "connecting", "this build has no ssh", next))
}

#[async_trait]
impl Connector for Dial {
    fn device(&self) -> String {
        self.transport.device()
    }

    async fn connect(&self) -> Result<AgentStream, TransportError> {
        let mut argv = self.place_agent().await?;
        argv.push(SERVE.into());
        argv.extend(self.options.args.iter().cloned());
        self.transport.open_agent(&argv).await
    }
}
