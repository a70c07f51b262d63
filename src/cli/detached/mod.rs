//! Runs that the device does alone: started, looked at, brought home.

mod home;
#[cfg(test)]
mod tests;

pub use home::Progress;

use super::CliError;
use super::runner::{Job, place_model};
use super::target::{AgentArgs, dial};
use crate::transport::Dial;
use crate::untethered::RUN_PLAN;
use crate::whole_file;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

const QUICK: Duration = Duration::from_secs(30);
/// Where a run directory here says where the run is.
const FILE: &str = "detached.json";

/// A run on a device.
#[derive(Debug, Serialize, Deserialize)]
pub struct Detached {
    link: String,
    dir: String,
    state: State,
}

/// What this host knows of a run's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    /// It is being put on the device. A host that dies now leaves this behind; the device knows the rest.
    Starting,
    /// The device said that it runs it.
    Started,
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
    // Before the device has anything of it: a host that dies in between still finds the run again.
    let mut detached = Detached { link, dir, state: State::Starting };
    detached.save(job.run.path())?;
    send_inputs(&device, job.run.path(), &detached.dir).await?;
    let argv = [program, order(&detached.dir, agent, waits, model)].concat();
    let words: Vec<_> = argv.iter().map(String::as_str).collect();
    let started = device.transport().run_as_agent(&words, QUICK).await?;
    started.succeeded(&device.transport().device(), "starting the run")?;
    detached.state = State::Started;
    detached.save(job.run.path())?;
    Ok(detached)
}

/// What the agent is told after its own name.
fn order(dir: &str, agent: &AgentArgs, waits: &Waits, model: Option<String>) -> Vec<String> {
    let mut words: Vec<String> = [RUN_PLAN, "--dir", dir].map(Into::into).into();
    words.extend(waits.words());
    words.extend(agent.steal.iter().flat_map(|holder| ["--steal".into(), holder.clone()]));
    words.extend(model.into_iter().flat_map(|path| ["--model".into(), path]));
    words.extend(agent.agent_arg.iter().cloned());
    words
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
        let text = serde_json::to_vec_pretty(self).map_err(Into::into);
        text.and_then(|text| whole_file::write(&file, text)).map_err(|error| io("write", &file, error))
    }

    /// What a run directory here says.
    fn load(run: &Path) -> Result<Self, CliError> {
        let file = run.join(FILE);
        let text = match std::fs::read(&file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(CliError::Usage(format!(
                    "{} is no run that was left to a device: it has no {FILE}. Nothing of it was put on one; start one \
                     with `opptune sweep --detach`",
                    run.display()
                )));
            }
            text => text.map_err(|error| io("read", &file, error))?,
        };
        serde_json::from_slice(&text).map_err(|error| io("read", &file, error.into()))
    }
}

fn io(doing: &str, file: &Path, error: std::io::Error) -> CliError {
    CliError::Io { doing: format!("{doing} {}", file.display()), error }
}
