//! One device, one measurement: an exclusive lock per state directory.
//!
//! The lock is an advisory one of the kernel on an open file (flock), so it ends with its holder however that
//! ends. The file's text says who holds it; the text of a dead holder means nothing.

use super::GuardError;
use super::process::Process;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long to wait for a holder that is about to let go: a restorer at work, a robbed agent that restores.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a robbed holder may take to restore and leave by itself before it is killed.
const GRACE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

/// Who holds the lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    name: String,
    process: Process,
    /// Only restoring: gone in a moment.
    restoring: bool,
}

/// The lock; ends when dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// Who has the lock of an agent.
#[derive(Debug)]
pub(super) enum Heir {
    /// We do.
    Us(Lock),
    /// Somebody else took the device, and with it the duty to restore it.
    Others,
    /// The agent still holds it.
    Nobody,
}

impl Lock {
    /// Takes the lock for `name`, from `steal_from` if that is who holds it.
    ///
    /// # Errors
    /// [`GuardError::Held`], [`GuardError::NotTheHolder`].
    pub fn take(dir: &Path, name: &str, steal_from: Option<&str>) -> Result<Lock, GuardError> {
        Lock::acquire(dir, name, false, steal_from)
    }

    /// Takes the lock to restore only, from `steal_from` if that is who holds it.
    ///
    /// # Errors
    /// [`GuardError::Held`], [`GuardError::NotTheHolder`].
    pub fn take_to_restore(dir: &Path, steal_from: Option<&str>) -> Result<Lock, GuardError> {
        Lock::acquire(dir, "opptune-agent restore", true, steal_from)
    }

    fn acquire(dir: &Path, name: &str, restoring: bool, steal: Option<&str>) -> Result<Lock, GuardError> {
        let start = Instant::now();
        let mut asked_to_leave = None;
        loop {
            if let Some(lock) = attempt(dir, name, restoring)? {
                return Ok(lock);
            }
            let holder = holder(dir);
            if let Some(holder) = holder.as_ref().filter(|h| h.process.alive() && !h.restoring) {
                rob(holder, steal, &mut asked_to_leave)?;
            }
            if start.elapsed() > PATIENCE {
                return Err(held(holder));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Takes over from `agent` (`None`: it is gone), waiting for at most `patience`.
    ///
    /// # Errors
    /// [`GuardError::State`] when the lock file cannot be used.
    pub fn inherit(dir: &Path, agent: Option<Process>, patience: Duration) -> Result<Heir, GuardError> {
        let start = Instant::now();
        loop {
            if let Some(lock) = attempt(dir, "restorer", true)? {
                return Ok(Heir::Us(lock));
            }
            match holder(dir) {
                Some(holder) if Some(holder.process) != agent && holder.process.alive() => {
                    return Ok(Heir::Others);
                }
                _ if start.elapsed() > patience => return Ok(Heir::Nobody),
                _ => std::thread::sleep(PAUSE),
            }
        }
    }
}

/// Asks the holder to leave (it restores on SIGTERM), then makes it.
fn rob(holder: &Holder, steal: Option<&str>, asked: &mut Option<Instant>) -> Result<(), GuardError> {
    match (steal, asked.map(|at| at.elapsed())) {
        (None, _) => return Err(held(Some(holder.clone()))),
        (Some(name), _) if name != holder.name => {
            return Err(GuardError::NotTheHolder { named: name.into(), holder: holder.name.clone() });
        }
        (_, None) => {
            holder.process.signal(Signal::TERM);
            *asked = Some(Instant::now());
        }
        (_, Some(waited)) if waited > GRACE => holder.process.signal(Signal::KILL),
        _ => {}
    }
    Ok(())
}

fn held(holder: Option<Holder>) -> GuardError {
    let (holder, pid) = holder.map_or(("somebody unknown".into(), 0), |h| (h.name, h.process.id));
    GuardError::Held { holder, pid }
}

fn path(dir: &Path) -> PathBuf {
    dir.join("lock")
}

fn holder(dir: &Path) -> Option<Holder> {
    let mut text = String::new();
    File::open(path(dir)).ok()?.take(4096).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn attempt(dir: &Path, name: &str, restoring: bool) -> Result<Option<Lock>, GuardError> {
    let file = path(dir);
    let wrong = |e| GuardError::state("lock", &file, e);
    let mut options = OpenOptions::new();
    let opened = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&file);
    let mut opened = opened.map_err(wrong)?;
    match opened.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(e)) => return Err(wrong(e)),
        Ok(()) => {}
    }
    let holder = Holder { name: name.into(), process: Process::this(), restoring };
    let text = serde_json::to_vec(&holder).unwrap_or_default();
    opened.set_len(0).and_then(|()| opened.write_all(&text)).map_err(wrong)?;
    Ok(Some(Lock { _file: opened }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_is_exclusive_and_names_its_holder() {
        let dir = tempfile::tempdir().unwrap();
        let first = Lock::take(dir.path(), "night run", None).unwrap();
        let refused = Lock::take(dir.path(), "other", None).unwrap_err().to_string();
        assert!(refused.contains("night run") && refused.contains("--steal"), "{refused}");
        let wrong = Lock::take(dir.path(), "other", Some("day run")).unwrap_err();
        assert!(matches!(wrong, GuardError::NotTheHolder { .. }), "{wrong}");
        drop(first);
        Lock::take(dir.path(), "other", Some("night run")).unwrap();
    }

    #[test]
    fn a_restorer_knows_its_agent_from_others() {
        let dir = tempfile::tempdir().unwrap();
        let heir = |agent| Lock::inherit(dir.path(), agent, Duration::from_millis(20)).unwrap();
        let held = Lock::take(dir.path(), "agent", None).unwrap();
        let (us, other) = (Some(Process::this()), Process::with_id(1));
        assert!(matches!(heir(us), Heir::Nobody));
        assert!(matches!(heir(other), Heir::Others) && matches!(heir(None), Heir::Others));
        drop(held);
        assert!(matches!(heir(us), Heir::Us(_)));
    }
}
