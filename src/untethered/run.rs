//! The campaign on the device, with the agent in the same process.

use super::order::Order;
use super::{detach, files, wait};
use crate::agent::this_machine;
use crate::agent::{Options, serve};
use crate::campaign::{Campaign, CampaignError, Outcome, RunDir, RunDirError};
use crate::guard::Launch;
use crate::transport::memory::Memory;
use std::fs::OpenOptions;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The device's name for itself.
const DEVICE: &str = "this device";

/// Why a plan cannot be run.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error(transparent)]
    Campaign(#[from] CampaignError),
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    #[error(
        "the run cannot be prepared: {0}. Nothing on the device was changed; start it again with `opptune sweep --detach`"
    )]
    Io(#[from] io::Error),
    #[error(
        "the cable was still there after {0:?}, so nothing was measured and nothing on the device was changed; \
         start it again with `opptune sweep --detach`"
    )]
    StillPlugged(Duration),
}

/// The exit code of a run that a gate refused.
const REFUSED: u8 = 4;

/// Runs the plan to its end. The exit code is that of a sweep.
pub(super) fn run(prefix: &[&str], order: &Order) -> ExitCode {
    match attempt(prefix, order) {
        Ok(outcome) => {
            eprintln!(
                "opptune-agent: ended: {}",
                if outcome.resumable() { outcome.end.why() } else { "complete" }
            );
            ExitCode::from(outcome.exit_code())
        }
        Err(error) => {
            eprintln!("opptune-agent: {error}");
            match error {
                RunError::StillPlugged(_) => ExitCode::from(REFUSED),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn attempt(prefix: &[&str], order: &Order) -> Result<Outcome, RunError> {
    // Everything this process and its restorer make is nobody else's.
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
    detach::leave(&order.dir)?;
    let launch = Launch::this_program(&order.root)?;
    let launch = Launch { prefix: prefix.iter().map(ToString::to_string).collect(), ..launch };
    let options = Options { launch, state_dir: order.state_dir.clone(), signals: false };
    let campaign = campaign(order, options)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let cancel = cancel_on_signals()?;
        tokio::select! {
            waited = prepare(order) => waited?,
            () = cancel.cancelled() => (),
        }
        Ok(campaign.run(cancel, &mut ()).await?)
    })
}

/// Waits for the cable and the meter, and gives the meter something to see.
async fn prepare(order: &Order) -> Result<(), RunError> {
    let nodes = this_machine(&order.root).nodes;
    if let Some(limit) = order.waits.unplug_within
        && !wait::for_unplug(&*nodes, limit).await
    {
        return Err(RunError::StillPlugged(limit));
    }
    wait::settle(&*nodes, order.waits.delay).await;
    if order.waits.pulses > 0 {
        let pulses: Vec<_> = (0..order.waits.pulses).map(|_| wait::pulse()).collect();
        let text = serde_json::to_vec_pretty(&pulses).map_err(io::Error::from)?;
        std::fs::write(order.dir.join(files::PULSES), text)?;
    }
    Ok(())
}

fn campaign(order: &Order, options: Options) -> Result<Campaign, RunError> {
    std::fs::create_dir_all(order.dir.join("samples"))?;
    OpenOptions::new().create(true).append(true).open(order.dir.join("journal.jsonl"))?;
    let run = RunDir::open(&order.dir)?;
    let connector = Memory::new(DEVICE, move |stream, log| {
        let options = options.clone();
        async move {
            if let Err(error) = serve(stream, options).await {
                log.add(format!("{error}\n").as_bytes());
            }
        }
    });
    let campaign = Campaign::resume(run, Arc::new(connector))?;
    Ok(campaign.model_on_device(order.model.clone()).steal_from(order.steal_from.clone()))
}

/// Stopped by SIGTERM and SIGINT; the hang-up of what started it is no reason to stop.
fn cancel_on_signals() -> io::Result<CancellationToken> {
    let cancel = CancellationToken::new();
    let mut hangups = signal(SignalKind::hangup())?;
    tokio::spawn(async move { while hangups.recv().await.is_some() {} });
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let (mut signals, cancel) = (signal(kind)?, cancel.clone());
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                cancel.cancel();
            }
        });
    }
    Ok(cancel)
}
