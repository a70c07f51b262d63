//! `opptune sweep`: a new run.

use super::runner::{Job, run_all};
use super::target::AgentArgs;
use super::{CliError, Exit, block_on, detached};
use crate::campaign::RunDir;
use crate::campaign::config::{ConfigError, SweepConfig};
use crate::profile::{self, Profile, ProfileError};
use crate::transport::parse_link;
use std::path::PathBuf;

/// Sweep a device and write its frequency table
///
/// Measures the default governors, then searches the best CPU and GPU frequency for every stage and length that
/// FILE names. Prints the table and the directory that holds the run: configuration, journal, table, report.
/// Can be interrupted at any time and resumed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  opptune sweep examples/pixel-7-twin.toml
  opptune sweep my-phone.toml --device adb:SERIAL1 --device adb:SERIAL2")]
pub struct Args {
    /// The sweep configuration; examples/ has some that run as they are
    file: PathBuf,
    /// Where run directories go
    #[arg(long, value_name = "DIR", default_value = "results")]
    results: PathBuf,
    /// Seed, instead of the configuration's
    #[arg(long)]
    seed: Option<u64>,
    /// Profile, instead of the configuration's
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
    /// Device, instead of the configuration's: local, adb, adb:SERIAL or ssh:[USER@]HOST[:PORT]; more than once: side by side
    #[arg(long, value_name = "LINK")]
    device: Vec<String>,
    /// Leave the run to the device, which needs no host and no cable meanwhile; see `opptune status` and `collect`
    #[arg(long)]
    detach: bool,
    /// With --detach: seconds to wait before the first trial, for unplugging the cable
    #[arg(long, value_name = "SECONDS", default_value_t = 0, requires = "detach")]
    delay: u64,
    #[command(flatten)]
    agent: AgentArgs,
}

impl Args {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let jobs = self.jobs()?;
        if self.detach { self.leave_to_devices(&jobs) } else { run_all(&jobs, &self.agent) }
    }

    fn leave_to_devices(&self, jobs: &[Job]) -> Result<Exit, CliError> {
        for job in jobs {
            block_on(detached::start(job, &self.agent, self.delay))?;
            let path = job.run.path().display();
            println!("run directory: {path}\nthe device runs it now; see: opptune status {path}");
        }
        Ok(Exit::Done)
    }

    /// One run per device. What the command line says goes into the run's own configuration, so that a resume
    /// needs the directory alone.
    fn jobs(&self) -> Result<Vec<Job>, CliError> {
        let mut config = SweepConfig::load(&self.file)?;
        config.search.seed = self.seed.unwrap_or(config.search.seed);
        let profile = self.profile_for(&mut config)?;
        let job = |link: String| {
            let mut config = config.clone();
            config.device.link = link;
            let run = RunDir::create(&self.results, RunDir::today(), &profile.name, &config.name)?;
            Ok(Job { config, profile: profile.clone(), run })
        };
        self.links(&config)?.into_iter().map(job).collect()
    }

    fn profile_for(&self, config: &mut SweepConfig) -> Result<Profile, CliError> {
        if let Some(name) = &self.profile {
            config.device.profile = name.clone();
            return Ok(profile::load(name)?);
        }
        profile::load(&config.device.profile).map_err(|error| match error {
            ProfileError::Unknown { .. } | ProfileError::Unreadable { .. } => {
                self.wrong("device.profile", &error)
            }
            error => error.into(),
        })
    }

    /// The links of the command line or the configuration, all of them understood.
    fn links(&self, config: &SweepConfig) -> Result<Vec<String>, CliError> {
        if self.device.is_empty() {
            parse_link(&config.device.link).map_err(|error| self.wrong("device.link", &error))?;
            return Ok(vec![config.device.link.clone()]);
        }
        self.device.iter().try_for_each(|link| parse_link(link).map(drop))?;
        Ok(self.device.clone())
    }

    fn wrong(&self, key: &str, error: &dyn std::error::Error) -> CliError {
        ConfigError::Value { file: self.file.clone(), key: key.into(), why: format!("is wrong: {error}") }
            .into()
    }
}
