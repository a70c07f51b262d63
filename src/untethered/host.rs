//! The host's side: put a run on the device, ask how it is, bring it home.

use super::{LOCK, LOG, PLAN, Plan, STATUS, Status, UntetheredError, load, save};
use crate::campaign::RunDir;
use crate::transport::words::is_plain;
use crate::transport::{AgentStream, Dial, Transport, TransportError};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// In the run directory while its run is on a device.
const DETACHED: &str = "detached.json";
/// For the device to start a worker, to list and to hash.
const SLOW: Duration = Duration::from_secs(120);
/// Longest silence while a file is on its way.
const STALL: Duration = Duration::from_secs(30);
/// Largest file of a run that is believed. A night's journal has a few megabytes.
const MAX_FILE: u64 = 512 << 20;

/// Where the run of a run directory is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detached {
    /// The link to the device.
    pub link: String,
    /// Its directory there.
    pub dir: String,
    /// The words that start the agent there.
    pub agent: Vec<String>,
}

impl Detached {
    /// Where the run of the directory `run` is.
    ///
    /// # Errors
    /// [`UntetheredError::NotDetached`] when it is not on a device.
    pub fn of(run: &Path) -> Result<Self, UntetheredError> {
        let path = run.join(DETACHED);
        if path.exists() { load(&path) } else { Err(UntetheredError::NotDetached(run.to_owned())) }
    }
}

/// What was brought home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collected {
    /// How the run was when it was collected.
    pub status: Status,
    /// The files, relative to the run directory.
    pub files: Vec<String>,
}

/// Puts the run in `run` (with its inputs, not begun) on the device and starts it there. The model must be
/// there already.
///
/// # Errors
/// [`UntetheredError`]. When the run did not start, nothing of the device was changed.
pub async fn detach(dial: &Dial, link: &str, run: &RunDir, plan: &Plan) -> Result<Detached, UntetheredError> {
    let agent = dial.place_agent().await?;
    let name = run.path().file_name().and_then(|n| n.to_str()).filter(|n| is_plain(n)).unwrap_or("run");
    let dir = format!("{}/runs/{name}", dial.survey().await?.place);
    let plan_file = run.path().join(PLAN);
    save(plan, &plan_file)?;
    let device = dial.transport();
    let made = device.run(&["mkdir", "-p", &dir], SLOW).await?;
    made.succeeded(&device.device(), "making the run's directory")?;
    for file in ["config.toml", "profile.toml", PLAN] {
        device.push(&run.path().join(file), 0, &format!("{dir}/{file}"), &|_| ()).await?;
    }
    let detached = Detached { link: link.into(), dir, agent };
    // Before the start: a run that has started can always be found again.
    save(&detached, &run.path().join(DETACHED))?;
    let order = ["run-plan", "--dir", detached.dir.as_str()];
    let start: Vec<&str> = words(&detached.agent, &order).chain(dial.agent_args()).collect();
    let started = ask(device, "starting the run", &start).await;
    if let Err(error) = started {
        let path = run.path().join(DETACHED);
        std::fs::remove_file(&path).map_err(UntetheredError::io("remove", &path))?;
        return Err(error.into());
    }
    Ok(detached)
}

/// How a run on the device is.
///
/// # Errors
/// [`UntetheredError`].
pub async fn status(device: &dyn Transport, detached: &Detached) -> Result<Status, UntetheredError> {
    let order = ["plan-status", "--dir", detached.dir.as_str()];
    let argv: Vec<&str> = words(&detached.agent, &order).collect();
    let said = ask(device, "asking for the run's status", &argv).await?;
    let damaged = |e: serde_json::Error| UntetheredError::Damaged {
        path: Path::new(&detached.dir).join(STATUS),
        why: e.to_string(),
    };
    serde_json::from_str(said.trim()).map_err(damaged)
}

/// Brings the files of a run that is over home to `run`, verifies them, and then removes them from the device.
///
/// # Errors
/// [`UntetheredError::NotOver`] while it runs; [`UntetheredError`]. Until everything is home, nothing is removed.
pub async fn collect(
    device: &dyn Transport,
    detached: &Detached,
    run: &Path,
) -> Result<Collected, UntetheredError> {
    let status = status(device, detached).await?;
    if status.running {
        return Err(UntetheredError::NotOver { done: status.done, about: status.about });
    }
    let files = list(device, &detached.dir).await?;
    for file in &files {
        bring(device, &format!("{}/{file}", detached.dir), &run.join(file)).await?;
    }
    ask(device, "removing the run", &["rm", "-rf", &detached.dir]).await?;
    for file in [DETACHED, PLAN] {
        let path = run.join(file);
        std::fs::remove_file(&path).map_err(UntetheredError::io("remove", &path))?;
    }
    Ok(Collected { status, files })
}

/// The files of a run on the device that belong home.
async fn list(device: &dyn Transport, dir: &str) -> Result<Vec<String>, UntetheredError> {
    let said = ask(device, "listing the run's files", &["find", dir, "-type", "f"]).await?;
    let paths = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let names = paths.map(|path| path.strip_prefix(dir).unwrap_or(path).trim_start_matches('/'));
    let stays = [PLAN, LOCK, "config.toml", "profile.toml"];
    let names: Vec<&str> = names.filter(|name| !stays.contains(name)).collect();
    match names.iter().find(|name| !is_part_of_a_run(name)) {
        Some(foreign) => Err(UntetheredError::Foreign(foreign.chars().take(80).collect())),
        None => Ok(names.into_iter().map(Into::into).collect()),
    }
}

/// Names come from the device: only those a run has are written to.
fn is_part_of_a_run(name: &str) -> bool {
    let known = ["journal.jsonl", "environment.json", "table.toml", STATUS, LOG];
    known.contains(&name)
        || name
            .strip_prefix("samples/")
            .is_some_and(|file| is_plain(file) && !file.contains('/') && !file.starts_with('.'))
}

/// Copies one file, with the rights the run has, and verifies it.
async fn bring(device: &dyn Transport, from: &str, to: &Path) -> Result<(), UntetheredError> {
    let wanted = ask(device, "verifying a file", &["sha256sum", from]).await?;
    let agent = device.open_agent(&["cat".into(), from.into()]).await?;
    let part = PathBuf::from(format!("{}.part", to.display()));
    let got = receive(agent, &part).await.map_err(|e| lost(device, from, e))?;
    if wanted.split_whitespace().next() != Some(got.as_str()) {
        return Err(lost(device, from, "what arrived is not what was sent").into());
    }
    std::fs::rename(&part, to).map_err(UntetheredError::io("write", to))
}

fn lost(device: &dyn Transport, from: &str, why: impl ToString) -> TransportError {
    TransportError::lost(&device.device(), format!("copying {from}"), why)
}

/// Writes all that comes to a file, and says its SHA-256.
async fn receive(mut agent: AgentStream, to: &Path) -> std::io::Result<String> {
    use sha2::{Digest, Sha256};
    let mut file = tokio::fs::File::create(to).await?;
    let (mut hash, mut size, mut buffer) = (Sha256::new(), 0, vec![0; 64 << 10]);
    loop {
        let read = tokio::time::timeout(STALL, agent.stream.read(&mut buffer));
        let n = read.await.map_err(|_| std::io::Error::other(format!("nothing came for {STALL:?}")))??;
        if n == 0 {
            file.sync_all().await?;
            return Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect());
        }
        size += n as u64;
        if size > MAX_FILE {
            return Err(std::io::Error::other("it is larger than any run's"));
        }
        hash.update(&buffer[..n]);
        file.write_all(&buffer[..n]).await?;
    }
}

fn words<'a>(first: &'a [String], then: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    first.iter().map(String::as_str).chain(then.iter().copied())
}

/// What a command answers, with the rights the run has; it must succeed.
async fn ask(device: &dyn Transport, doing: &str, argv: &[&str]) -> Result<String, TransportError> {
    let output = device.run_as_agent(argv, SLOW).await?;
    Ok(output.succeeded(&device.device(), doing)?.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_cannot_name_a_file_that_no_run_has() {
        for name in ["journal.jsonl", "table.toml", "samples/decode-8.jsonl", "status.json"] {
            assert!(is_part_of_a_run(name), "{name}");
        }
        let evil = ["../x", "samples/../../x", "samples/.x", "/etc/passwd", "config.toml", "samples/a b", ""];
        for name in evil {
            assert!(!is_part_of_a_run(name), "{name}");
        }
    }

    #[test]
    fn a_directory_that_was_not_detached_says_so() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(Detached::of(dir.path()), Err(UntetheredError::NotDetached(_))));
    }
}
