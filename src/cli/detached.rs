//! Runs that the device does alone: started, looked at, brought home.

use super::CliError;
use super::runner::{Job, place_model};
use super::target::{AgentArgs, dial};
use crate::campaign::journal;
use crate::campaign::ledger::Ledger;
use crate::transport::{Dial, Output, Transport, TransportError};
use crate::untethered::{RUN_PLAN, files};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

const QUICK: Duration = Duration::from_secs(30);
/// Where a run directory here says where the run is.
const FILE: &str = "detached.json";
/// What a run directory on a device may hold beside its samples.
const FILES: [&str; 4] = ["journal.jsonl", "environment.json", "table.toml", files::LOG];

/// A run on a device.
#[derive(Debug, Serialize, Deserialize)]
pub struct Detached {
    link: String,
    dir: String,
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
pub async fn start(job: &Job, agent: &AgentArgs, delay_s: u64) -> Result<Detached, CliError> {
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
    argv.extend([RUN_PLAN, "--dir", &dir, "--delay", &delay_s.to_string()].map(Into::into));
    argv.extend(model.into_iter().flat_map(|path| ["--model".into(), path]));
    argv.extend(agent.agent_arg.iter().cloned());
    let words: Vec<_> = argv.iter().map(String::as_str).collect();
    succeeded(&device, "starting the run", device.transport().run_as_agent(&words, QUICK).await?)?;
    let detached = Detached { link, dir };
    detached.save(job.run.path())?;
    Ok(detached)
}

async fn send_inputs(device: &Dial, run: &Path, dir: &str) -> Result<(), CliError> {
    let link = device.transport();
    succeeded(device, "making a run directory", link.run(&["mkdir", "-p", dir], QUICK).await?)?;
    succeeded(device, "making a run directory", link.run(&["chmod", "700", dir], QUICK).await?)?;
    for name in ["config.toml", "profile.toml"] {
        link.push(&run.join(name), 0, &format!("{dir}/{name}"), &|_| ()).await?;
    }
    Ok(())
}

fn succeeded(device: &Dial, doing: &str, output: Output) -> Result<Output, TransportError> {
    if output.status == Some(0) {
        return Ok(output);
    }
    let name = device.transport().device();
    let why = format!("{}{}", output.stdout, output.stderr).replace(char::is_control, " ");
    let next = format!("Look at the device with: opptune doctor --device {name}");
    Err(TransportError::refused(&name, doing, why.trim(), next))
}

impl Detached {
    fn save(&self, run: &Path) -> Result<(), CliError> {
        let file = run.join(FILE);
        let written = serde_json::to_vec_pretty(self).map_err(Into::into);
        written.and_then(|text| std::fs::write(&file, text)).map_err(|error| io("write", &file, error))
    }

    /// What a run directory here says.
    pub fn load(run: &Path) -> Result<Self, CliError> {
        let file = run.join(FILE);
        let text = std::fs::read(&file).map_err(|error| io("read", &file, error))?;
        serde_json::from_slice(&text).map_err(|error| io("read", &file, error.into()))
    }

    /// The device it runs on.
    pub async fn device(&self, agent: &AgentArgs) -> Result<Dial, CliError> {
        dial(&self.link, agent).await
    }

    /// Brings home what there is and says how far it is.
    pub async fn fetch(&self, device: &Dial, run: &Path) -> Result<Progress, CliError> {
        // Asked first: a run that ends in between has written everything by the time it is fetched.
        let running = self.running(device).await?;
        let link = device.transport();
        // The place above is the login's alone; the run may be root's.
        let open = link.run_as_agent(&["chmod", "-R", "go+rX", &self.dir], QUICK).await?;
        succeeded(device, "opening the run directory", open)?;
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

    /// Names of sample files. A device cannot make the host write anywhere else.
    async fn samples(&self, link: &dyn Transport) -> Result<Vec<String>, CliError> {
        let listed = link.run(&["ls", "-1", &format!("{}/samples", self.dir)], QUICK).await?;
        let plain = |name: &&str| {
            !name.is_empty()
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
