//! Runs campaigns in front of a person: progress, signals, result, exit code.

use super::progress::Progress;
use super::target::{AgentArgs, dial};
use super::{CliError, Exit, block_on, report, table};
use crate::campaign::config::SweepConfig;
use crate::campaign::{Campaign, End, Outcome, RunDir};
use crate::engine::{EngineKind, EngineSpec, resolve_model};
use crate::profile::Profile;
use crate::transport::Dial;
use indicatif::MultiProgress;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// One campaign to run.
pub struct Job {
    /// Its configuration, the link included.
    pub config: SweepConfig,
    /// Its profile.
    pub profile: Profile,
    /// Where it lives; if there is a journal, it goes on where that ends.
    pub run: RunDir,
}

/// Runs campaigns side by side and tells how they ended. The exit code is the worst of theirs.
pub fn run_all(jobs: &[Job], agent: &AgentArgs) -> Result<Exit, CliError> {
    let screen = MultiProgress::new();
    let ends = block_on(async {
        let cancel = cancel_on_signals()?;
        let all = jobs.iter().map(|job| run(job, agent, &screen, prefix(job, jobs), cancel.clone()));
        Ok(futures_util::future::join_all(all).await)
    })?;
    let mut worst = Exit::Done;
    for (job, end) in jobs.iter().zip(ends) {
        let prefix = prefix(job, jobs);
        worst = worst.or_worse(tell(job, end, &prefix).unwrap_or_else(|error| {
            eprintln!("{prefix}error: {error}");
            error.exit()
        }));
    }
    Ok(worst)
}

/// What tells the lines about a job from those about others, where there are others.
fn prefix(job: &Job, jobs: &[Job]) -> String {
    if jobs.len() > 1 { format!("{}: ", job.config.device.link) } else { String::new() }
}

async fn run(
    job: &Job,
    agent: &AgentArgs,
    screen: &MultiProgress,
    prefix: String,
    cancel: CancellationToken,
) -> Result<Outcome, CliError> {
    let link = &job.config.device.link;
    let mut progress = Progress::new(screen, job.profile.clone(), prefix);
    let device = Arc::new(dial(link, agent).await?);
    let model = place_model(&device, &job.config.engine).await?;
    let campaign = Campaign::new(job.config.clone(), job.profile.clone(), job.run.clone(), device)?;
    let campaign = campaign.steal_from(agent.steal.clone()).model_on_device(model);
    let outcome = campaign.run(cancel, &mut progress).await;
    progress.finish();
    Ok(outcome?)
}

/// Sees to it that the device has the model, and says where; engines without a model file need none.
pub(super) async fn place_model(device: &Dial, engine: &EngineSpec) -> Result<Option<String>, CliError> {
    match engine.kind {
        EngineKind::Spin | EngineKind::Twin => Ok(None),
        EngineKind::Llama => {
            let file = resolve_model(&engine.model).map_err(|error| CliError::Usage(error.to_string()))?;
            Ok(Some(device.place_model(&file).await?.path))
        }
    }
}

/// A token that is cancelled by the first SIGINT, SIGTERM or SIGHUP.
fn cancel_on_signals() -> Result<CancellationToken, CliError> {
    let cancel = CancellationToken::new();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let mut signals =
            signal(kind).map_err(|error| CliError::Io { doing: "listen for signals".into(), error })?;
        let cancel = cancel.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                cancel.cancel();
            }
        });
    }
    Ok(cancel)
}

/// Prints how a run ended: table, directory, and what to type next.
fn tell(job: &Job, end: Result<Outcome, CliError>, prefix: &str) -> Result<Exit, CliError> {
    let path = job.run.path().display();
    let outcome = match end {
        Ok(outcome) => outcome,
        Err(error) => {
            eprintln!("{prefix}error: {error}\n{prefix}run directory: {path}");
            return Ok(error.exit());
        }
    };
    if let Some(found) = &outcome.table {
        if !prefix.is_empty() {
            println!("{prefix}");
        }
        table::print(found);
    }
    report::write(&job.run)?;
    println!("{prefix}run directory: {path}");
    if outcome.resumable() {
        let why = outcome.end.why();
        eprintln!("{prefix}{}: {why}\n{prefix}go on with: opptune resume {path}", ended(&outcome.end));
    }
    for line in outcome.restored.iter().flat_map(|report| &report.differs) {
        eprintln!("{prefix}not put back: {line}");
    }
    Ok(Exit::of(outcome.exit_code()))
}

fn ended(end: &End) -> &'static str {
    match end {
        End::Done | End::Unreachable { .. } => "complete",
        End::Unavailable { .. } => "the device is gone",
        End::Refused { .. } => "a gate refused",
        End::Interrupted { .. } => "interrupted",
    }
}
