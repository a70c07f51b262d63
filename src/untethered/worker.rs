//! The device's side: a launcher that returns at once, and the worker it leaves behind.

use super::{LOCK, LOG, PLAN, Phase, Plan, STATUS, Status, UntetheredError, load, save, wait};
use crate::agent::{Options, default_state_dir, serve};
use crate::campaign::{Campaign, Observer, Outcome, RunDir, Update};
use crate::device::this_machine;
use crate::guard::Launch;
use crate::guard::restorer::leave_home;
use crate::sysfs::Nodes;
use crate::transport::memory::Memory;
use lexopt::prelude::*;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// For the worker to say that it is there. It is a process start; a loaded phone takes a while.
const START: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);
const USAGE: u8 = 2;
/// The exit code of a run that a gate refused.
const REFUSED: u8 = 4;

#[derive(Clone, Debug)]
struct Order {
    dir: PathBuf,
    root: PathBuf,
    state_dir: PathBuf,
    /// Set for the process that is left behind.
    worker: bool,
}

impl Order {
    fn parse(args: &[String]) -> Result<Self, lexopt::Error> {
        let mut parser = lexopt::Parser::from_args(args);
        let mut dir = None;
        let mut order =
            Order { dir: PathBuf::new(), root: "/".into(), state_dir: default_state_dir(), worker: false };
        while let Some(arg) = parser.next()? {
            match arg {
                Long("dir") => dir = Some(parser.value()?.into()),
                Long("root") => order.root = parser.value()?.into(),
                Long("state-dir") => order.state_dir = parser.value()?.into(),
                Long("worker") => order.worker = true,
                other => return Err(other.unexpected()),
            }
        }
        order.dir = dir.ok_or("--dir is missing")?;
        Ok(order)
    }

    fn words(&self) -> [&std::ffi::OsStr; 6] {
        let [dir, root, state] = ["--dir", "--root", "--state-dir"].map(AsRef::as_ref);
        [dir, self.dir.as_ref(), root, self.root.as_ref(), state, self.state_dir.as_ref()]
    }
}

/// `run-plan --dir D`: leaves a worker behind and returns when it stands on its own.
pub(super) fn main(prefix: &[&str], args: &[String]) -> ExitCode {
    let order = match Order::parse(args) {
        Ok(order) => order,
        Err(error) => return usage(&error),
    };
    let ended = if order.worker { work(prefix, &order) } else { launch(prefix, &order) };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("opptune-agent: {error}");
            ExitCode::FAILURE
        }
    }
}

/// `plan-status --dir D`: prints [`Status`].
pub(super) fn print_status(args: &[String]) -> ExitCode {
    let order = match Order::parse(args) {
        Ok(order) => order,
        Err(error) => return usage(&error),
    };
    let seen = load::<Status>(&order.dir.join(STATUS)).map(|status| {
        let running = lock(&order.dir).is_ok_and(|lock| lock.is_none());
        serde_json::to_string(&Status { running, ..status })
    });
    match seen {
        Ok(Ok(text)) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Ok(Err(error)) => usage(&error),
        Err(error) => usage(&error),
    }
}

fn usage(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("opptune-agent: {error}");
    ExitCode::from(USAGE)
}

/// The lock a worker holds as long as it lives; `None` when it does.
fn lock(dir: &Path) -> Result<Option<File>, UntetheredError> {
    let path = dir.join(LOCK);
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600);
    let file = options.open(&path).map_err(UntetheredError::io("open", &path))?;
    Ok(file.try_lock().is_ok().then_some(file))
}

fn launch(prefix: &[&str], order: &Order) -> Result<u8, UntetheredError> {
    let _: Plan = load(&order.dir.join(PLAN))?;
    if lock(&order.dir)?.is_none() {
        return Err(UntetheredError::NotStarted("it is running already".into()));
    }
    let path = order.dir.join(LOG);
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
    let log = log.map_err(UntetheredError::io("write", &path))?;
    let failed = |e: std::io::Error| UntetheredError::NotStarted(e.to_string());
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(prefix).arg("run-plan").args(order.words()).arg("--worker");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let child = command.spawn().map_err(failed)?;
    await_worker(child, order, &path)?;
    println!("started");
    Ok(0)
}

/// Returns once the worker holds its lock and has written its first status.
fn await_worker(mut child: Child, order: &Order, log: &Path) -> Result<(), UntetheredError> {
    let end = Instant::now() + START;
    while Instant::now() < end {
        let up = order.dir.join(STATUS).exists() && lock(&order.dir)?.is_none();
        // One that has ended already has run: its status tells how.
        match child.try_wait() {
            _ if up => return Ok(()),
            Ok(Some(status)) if !status.success() && !order.dir.join(STATUS).exists() => {
                let said = std::fs::read_to_string(log).unwrap_or_default();
                return Err(UntetheredError::NotStarted(said.trim().to_owned()));
            }
            Ok(Some(_)) if order.dir.join(STATUS).exists() => return Ok(()),
            _ => std::thread::sleep(LOOK),
        }
    }
    Err(UntetheredError::NotStarted(format!("no sign of life within {START:?}")))
}

fn work(prefix: &[&str], order: &Order) -> Result<u8, UntetheredError> {
    let device = this_machine(&order.root);
    leave_home(&*device.nodes);
    let mut lock = lock(&order.dir)?;
    // The launcher looks at the lock too, for an instant at a time.
    let end = Instant::now() + START;
    while lock.is_none() && Instant::now() < end {
        std::thread::sleep(LOOK);
        lock = self::lock(&order.dir)?;
    }
    let _lock = lock.ok_or_else(|| UntetheredError::NotStarted("it is running already".into()))?;
    let mut keeper = Keeper::new(&order.dir);
    keeper.phase(Phase::Starting)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| UntetheredError::NotStarted(e.to_string()))?;
    let outcome = runtime.block_on(run(prefix, order, &*device.nodes, &mut keeper));
    let code = match &outcome {
        Ok(outcome) => outcome.exit_code(),
        Err(UntetheredError::StillPlugged(_)) => REFUSED,
        Err(_) => 1,
    };
    let why = outcome.as_ref().map_or_else(ToString::to_string, |outcome| outcome.end.why().to_owned());
    keeper.end(code, why)?;
    Ok(code)
}

async fn run(
    prefix: &[&str],
    order: &Order,
    nodes: &dyn Nodes,
    keeper: &mut Keeper,
) -> Result<Outcome, UntetheredError> {
    let plan: Plan = load(&order.dir.join(PLAN))?;
    let cancel = cancel_on_signals()?;
    if plan.unplug_s > 0 {
        keeper.phase(Phase::WaitingForUnplug)?;
        if !wait::for_unplug(nodes, Duration::from_secs(plan.unplug_s)).await {
            return Err(UntetheredError::StillPlugged(plan.unplug_s));
        }
    }
    keeper.phase(Phase::Settling)?;
    wait::settle(nodes, Duration::from_secs(plan.settle_s)).await;
    for _ in 0..plan.pulses {
        keeper.status.pulses.push(wait::pulse());
    }
    keeper.phase(Phase::Running)?;
    let run = RunDir::planned(&order.dir).map_err(crate::campaign::CampaignError::from)?;
    let campaign = Campaign::resume(run, Arc::new(beside(prefix, order)?))?;
    let campaign = campaign.model_on_device(plan.model).steal_from(plan.steal_from);
    Ok(campaign.run(cancel, keeper).await?)
}

/// Starts the agent in this process, for the campaign beside it.
fn beside(prefix: &[&str], order: &Order) -> Result<Memory, UntetheredError> {
    let launch = Launch::this_program(&order.root).map_err(|e| UntetheredError::NotStarted(e.to_string()))?;
    let launch = Launch { prefix: prefix.iter().map(ToString::to_string).collect(), ..launch };
    let state_dir = order.state_dir.clone();
    Ok(Memory::new("this device", move |stream, log| {
        let options = Options { launch: launch.clone(), state_dir: state_dir.clone(), signals: false };
        async move {
            if let Err(error) = serve(stream, options).await {
                log.add(format!("{error}\n").as_bytes());
            }
        }
    }))
}

/// Ends the run, resumable, on SIGTERM and SIGINT. SIGHUP comes when adbd goes, and means nothing here.
fn cancel_on_signals() -> Result<CancellationToken, UntetheredError> {
    let cancel = CancellationToken::new();
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        let mut signals = signal(kind).map_err(|e| UntetheredError::NotStarted(e.to_string()))?;
        let cancel = cancel.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                if kind != SignalKind::hangup() {
                    cancel.cancel();
                }
            }
        });
    }
    Ok(cancel)
}

/// Keeps the status file.
struct Keeper {
    path: PathBuf,
    status: Status,
}

impl Keeper {
    fn new(dir: &Path) -> Self {
        Keeper { path: dir.join(STATUS), status: Status::default() }
    }

    fn phase(&mut self, phase: Phase) -> Result<(), UntetheredError> {
        self.status.phase = phase;
        save(&self.status, &self.path)
    }

    fn end(&mut self, code: u8, why: String) -> Result<(), UntetheredError> {
        if !why.is_empty() {
            self.status.news = why;
        }
        self.status.exit_code = Some(code);
        self.phase(Phase::Ended)
    }
}

impl Observer for Keeper {
    fn update(&mut self, news: Update<'_>) {
        match news {
            Update::Started { id, done, about, .. } => {
                (self.status.done, self.status.about) = (done, about);
                self.status.news = id.setting.to_string();
            }
            Update::Finished { done, about, .. } => (self.status.done, self.status.about) = (done, about),
            Update::Failed { failure, .. } => self.status.news = failure.to_string(),
            Update::LinkLost { why } | Update::Waiting { why, .. } => self.status.news = why.to_owned(),
            _ => return,
        }
        // For people only; the journal is what counts.
        let _ = save(&self.status, &self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worker_gets_the_launchers_order() {
        let words: Vec<String> = ["--dir", "/d", "--root=/r", "--state-dir", "/s"].map(Into::into).into();
        let order = Order::parse(&words).unwrap();
        assert_eq!(order.words(), ["--dir", "/d", "--root", "/r", "--state-dir", "/s"]);
        assert!(!order.worker && Order::parse(&["--dir=/d".into(), "--worker".into()]).unwrap().worker);
        assert!(Order::parse(&[]).unwrap_err().to_string().contains("--dir"));
    }

    #[test]
    fn a_lock_is_held_by_one() {
        let dir = tempfile::tempdir().unwrap();
        let held = lock(dir.path()).unwrap();
        assert!(held.is_some() && lock(dir.path()).unwrap().is_none());
        drop(held);
        assert!(lock(dir.path()).unwrap().is_some());
    }
}
