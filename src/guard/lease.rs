//! The agent's end of the lease: a pipe to the restorer, fed while the agent lives.

use super::restorer::{FEED, GOODBYE, READY};
use super::{GuardError, Launch};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a restorer may take to stand by. It is a process start; a loaded phone takes a while.
const START: Duration = Duration::from_secs(10);
/// How long a dismissed restorer may take to leave before it is left to itself.
const LEAVE: Duration = Duration::from_secs(1);

/// A lease on a restorer.
pub(super) struct Lease {
    launch: Launch,
    state_dir: PathBuf,
    length: Duration,
    line: Mutex<Line>,
}

/// A restorer that stands by.
struct Line {
    pipe: PipeWriter,
    child: Child,
}

impl Lease {
    /// Starts a restorer and waits until it stands by.
    pub fn start(launch: Launch, state_dir: &Path, length: Duration) -> Result<Self, GuardError> {
        let line = Mutex::new(Line::open(&launch, state_dir, length)?);
        Ok(Lease { launch, state_dir: state_dir.to_owned(), length, line })
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renews the lease. A restorer that is gone, or has not read for so long that the pipe is full, is
    /// replaced.
    pub fn feed(&self) -> Result<(), GuardError> {
        let mut line = self.line();
        if line.pipe.write_all(&[FEED]).is_err() {
            let mut old =
                std::mem::replace(&mut *line, Line::open(&self.launch, &self.state_dir, self.length)?);
            // Reaps one that died; one that hangs finds the pipe closed and the device in our hands.
            let _ = old.child.try_wait();
        }
        Ok(())
    }

    /// Tells the restorer that it is not needed any more.
    pub fn goodbye(&self) {
        let mut line = self.line();
        // A restorer that is gone does not need to be told.
        let _ = line.pipe.write_all(&[GOODBYE]);
        // Its end of this pipe closes when it leaves.
        if line.child.stdout.take().is_some_and(|out| readable(&out, LEAVE)) {
            let _ = line.child.wait();
        }
    }
}

impl Line {
    fn open(launch: &Launch, state_dir: &Path, length: Duration) -> Result<Self, GuardError> {
        let failed = |why: String| GuardError::Restorer { program: launch.program.clone(), why };
        let (theirs, ours) = pipe().map_err(|e| failed(e.to_string()))?;
        fcntl(&ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(|e| failed(e.to_string()))?;
        let mut child =
            command(launch, state_dir, length, theirs).spawn().map_err(|e| failed(e.to_string()))?;
        match child.stdout.as_mut().map(stands_by) {
            Some(true) => Ok(Line { pipe: ours, child }),
            _ => {
                let _ = child.kill();
                let status = child.wait();
                Err(failed(format!("it did not say that it stands by within {START:?} ({status:?})")))
            }
        }
    }
}

fn stands_by(out: &mut std::process::ChildStdout) -> bool {
    let mut word = [0];
    readable(out, START) && out.read_exact(&mut word).is_ok() && word == [READY]
}

fn readable(out: &impl AsFd, within: Duration) -> bool {
    let timeout = PollTimeout::try_from(within).unwrap_or(PollTimeout::MAX);
    poll(&mut [PollFd::new(out.as_fd(), PollFlags::POLLIN)], timeout).is_ok_and(|ready| ready > 0)
}

fn command(launch: &Launch, state_dir: &Path, length: Duration, line: PipeReader) -> Command {
    let mut command = Command::new(&launch.program);
    command
        .args(&launch.prefix)
        .arg("restorer")
        .arg("--state-dir")
        .arg(state_dir)
        .arg("--root")
        .arg(&launch.root)
        .arg("--lease-ms")
        .arg(length.as_millis().to_string())
        .arg("--agent-pid")
        .arg(std::process::id().to_string())
        .stdin(Stdio::from(line))
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}
