//! Runs that the device does alone: started, looked at, brought home.

use super::CliError;
use super::runner::{Job, place_model};
use super::target::{AgentArgs, dial};
use crate::campaign::journal;
use crate::campaign::ledger::Ledger;
use crate::transport::{Dial, Transport};
use crate::untethered::{RUN_PLAN, files};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

const QUICK: Duration = Duration::from_secs(30);
/// Where a run directory here says where the run is.
const FILE: &str = "detached.json";
/// What a run directory on a device may hold beside its samples.
const FILES: [&str; 5] = ["journal.jsonl", "environment.json", "table.toml", files::LOG, files::PULSES];

/// A run on a device.
#[derive(Debug, Serialize, Deserialize)]
pub struct Detached {
    link: String,
    dir: String,
}

/// What a run that is left to a device waits for.
#[derive(Clone, Debug, clap::Args)]
pub struct Waits {
    /// With --detach: begin once the cable is gone; not at all if it is still there after so many seconds
    #[arg(long, value_name = "SECONDS", requires = "detach")]
    unplug_within: Option<u64>,
    /// With --detach: seconds to wait before the first load (after the cable is gone), for starting a meter
    #[arg(long, value_name = "SECONDS", default_value_t = 0, requires = "detach")]
    delay: u64,
    /// With --detach: bursts of load before the first trial, by which a meter's trace is aligned (pulses.json)
    #[arg(long, value_name = "N", default_value_t = 0, requires = "detach")]
    pulses: u32,
}

impl Waits {
    fn words(&self) -> Vec<String> {
        let unplug = self.unplug_within.map(|seconds| format!("--unplug-within={seconds}"));
        let rest = [format!("--delay={}", self.delay), format!("--pulses={}", self.pulses)];
        unplug.into_iter().chain(rest).collect()
    }
}

/// How far a run on a device is.
pub struct Progress {
    /// Whether its process is there.
    pub running: bool,
    /// Whether it is complete.
    pub completed: bool,
    /// Trials that are done.
    pub trials: usize,
}

impl Progress {
    /// In a word.
    pub fn word(&self) -> &'static str {
        match (self.completed, self.running) {
            (true, _) => "complete",
            (false, true) => "running",
            (false, false) => "stopped",
        }
    }
}

/// Puts all that the run needs on the device, and starts it there.
pub async fn start(job: &Job, agent: &AgentArgs, waits: &Waits) -> Result<Detached, CliError> {
    let link = job.config.device.link.clone();
    let device = dial(&link, agent).await?;
    let model = place_model(&device, &job.config.engine).await?;
    let program = device.place_agent().await?;
    let name = job.run.path().file_name().unwrap_or_default().to_string_lossy();
    // Run directories elsewhere, or of other hosts, may have the same name.
    let began = jiff::Timestamp::now().as_millisecond();
    let dir = format!("{}/runs/{name}-{began}", device.survey().await?.place);
    job.run.write_inputs(&job.config, &job.profile)?;
    send_inputs(&device, job.run.path(), &dir).await?;
    let mut argv = program;
    argv.extend([RUN_PLAN, "--dir", &dir].map(Into::into));
    argv.extend(waits.words());
    argv.extend(agent.steal.iter().flat_map(|holder| ["--steal".into(), holder.clone()]));
    argv.extend(model.into_iter().flat_map(|path| ["--model".into(), path]));
    argv.extend(agent.agent_arg.iter().cloned());
    let words: Vec<_> = argv.iter().map(String::as_str).collect();
    let started = device.transport().run_as_agent(&words, QUICK).await?;
    started.succeeded(&device.transport().device(), "starting the run")?;
    let detached = Detached { link, dir };
    detached.save(job.run.path())?;
    Ok(detached)
}

async fn send_inputs(device: &Dial, run: &Path, dir: &str) -> Result<(), CliError> {
    let link = device.transport();
    let made = link.run(&["sh", "-c", &format!("umask 077; mkdir -p {dir}")], QUICK).await?;
    made.succeeded(&link.device(), "making a run directory")?;
    for name in ["config.toml", "profile.toml"] {
        link.push(&run.join(name), 0, &format!("{dir}/{name}"), &|_| ()).await?;
    }
    Ok(())
}

impl Detached {
    fn save(&self, run: &Path) -> Result<(), CliError> {
        let file = run.join(FILE);
        let written = serde_json::to_vec_pretty(self).map_err(Into::into);
        written.and_then(|text| std::fs::write(&file, text)).map_err(|error| io("write", &file, error))
    }

    /// What a run directory here says.
    fn load(run: &Path) -> Result<Self, CliError> {
        let file = run.join(FILE);
        let text = std::fs::read(&file).map_err(|error| io("read", &file, error))?;
        serde_json::from_slice(&text).map_err(|error| io("read", &file, error.into()))
    }

    /// Brings home what there is of the run `run` left to a device, and says how far it is.
    pub async fn bring_home(run: &Path, agent: &AgentArgs) -> Result<Progress, CliError> {
        let detached = Self::load(run)?;
        let device = detached.device(agent).await?;
        detached.fetch(&device, run).await
    }

    /// The device it runs on.
    async fn device(&self, agent: &AgentArgs) -> Result<Dial, CliError> {
        dial(&self.link, agent).await
    }

    /// Brings home what there is and says how far it is.
    async fn fetch(&self, device: &Dial, run: &Path) -> Result<Progress, CliError> {
        // Asked first: a run that ends in between has written everything by the time it is fetched.
        let running = self.running(device).await?;
        let link = device.transport();
        // The place above is the login's alone; the run may be root's.
        let open = link.run_as_agent(&["chmod", "-R", "go+rX", &self.dir], QUICK).await?;
        open.succeeded(&link.device(), "opening the run directory")?;
        for name in FILES {
            self.fetch_file(link, name, run).await?;
        }
        for name in self.samples(link).await? {
            self.fetch_file(link, &format!("samples/{name}"), run).await?;
        }
        let file = run.join("journal.jsonl");
        let lines = if file.exists() {
            journal::read(&file).map_err(crate::campaign::CampaignError::from)?.lines
        } else {
            Vec::new()
        };
        let ledger = Ledger::of(&lines);
        Ok(Progress { running, completed: ledger.completed(), trials: ledger.finished().count() })
    }

    /// Whether the process that wrote its id still is the run.
    async fn running(&self, device: &Dial) -> Result<bool, CliError> {
        let link = device.transport();
        let pid = link.run_as_agent(&["cat", &format!("{}/{}", self.dir, files::PID)], QUICK).await?.stdout;
        let Ok(pid) = pid.trim().parse::<u32>() else { return Ok(false) };
        let looked =
            link.run_as_agent(&["grep", "-q", RUN_PLAN, &format!("/proc/{pid}/cmdline")], QUICK).await?;
        Ok(looked.status == Some(0))
    }

    /// Names of sample files, whole ones. A device cannot make the host write anywhere else.
    async fn samples(&self, link: &dyn Transport) -> Result<Vec<String>, CliError> {
        let listed = link.run(&["ls", "-1", &format!("{}/samples", self.dir)], QUICK).await?;
        let plain = |name: &&str| {
            name.ends_with(".csv")
                && !name.starts_with('.')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-@+".contains(c))
        };
        let names = if listed.status == Some(0) { listed.stdout.as_str() } else { "" };
        Ok(names.lines().map(str::trim).filter(plain).map(Into::into).collect())
    }

    /// A file that is not there yet is left out; one that is there replaces ours in one step.
    async fn fetch_file(&self, link: &dyn Transport, name: &str, run: &Path) -> Result<(), CliError> {
        let remote = format!("{}/{name}", self.dir);
        if link.run(&["test", "-f", &remote], QUICK).await?.status != Some(0) {
            return Ok(());
        }
        let file = run.join(name);
        let beside = PathBuf::from(format!("{}.part", file.display()));
        link.pull(&remote, &beside).await?;
        std::fs::rename(&beside, &file).map_err(|error| io("write", &file, error))
    }
}

fn io(doing: &str, file: &Path, error: std::io::Error) -> CliError {
    CliError::Io { doing: format!("{doing} {}", file.display()), error }
}
