//! Starts the run as a process that outlives what started it: adbd, sshd, a shell.

use super::order::Order;
use super::{RUN_PLAN, files};
use crate::agent::this_machine;
use crate::sysfs::cgroup::hierarchies;
use crate::whole_file;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// How long the run may take to say that it is there.
const START: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);

/// Starts `words` again in a process of its own, and waits until it has left everything behind.
pub(super) fn start(prefix: &[&str], words: &[String], order: &Order) -> ExitCode {
    match spawn(prefix, words, &order.dir).and_then(|child| wait(child, &order.dir)) {
        Ok(id) => {
            println!("running as process {id}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let dir = order.dir.display();
            eprintln!(
                "opptune-agent: cannot start the run in {dir}: {error}. Its log says more: {dir}/{}",
                files::LOG
            );
            ExitCode::FAILURE
        }
    }
}

fn spawn(prefix: &[&str], words: &[String], dir: &Path) -> io::Result<Child> {
    match std::fs::remove_file(dir.join(files::PID)) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => (),
    }
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(dir.join(files::LOG))?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(prefix).arg(RUN_PLAN).args(words).arg("--here");
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
    command.spawn()
}

fn wait(mut child: Child, dir: &Path) -> io::Result<u32> {
    let end = Instant::now() + START;
    while !dir.join(files::PID).exists() {
        if let Some(status) = child.try_wait()? {
            return Err(io::Error::other(format!("it ended at once, {status}")));
        }
        if Instant::now() > end {
            return Err(io::Error::other(format!("it is not there after {START:?}")));
        }
        std::thread::sleep(LOOK);
    }
    Ok(child.id())
}

/// Leaves the session and the control groups of what started this process (init kills adbd's group with it),
/// and says so by writing the process id.
pub(super) fn leave(dir: &Path) -> io::Result<()> {
    // Fails only where it is so already.
    let _ = nix::unistd::setsid();
    let nodes = this_machine(Path::new("/")).nodes;
    let id = std::process::id().to_string();
    for hierarchy in hierarchies(&*nodes).unwrap_or_default() {
        // A hierarchy that does not let go of us is no reason not to run: most devices have none that matters.
        let _ = nodes.write(&hierarchy.mount.join("cgroup.procs"), &id);
    }
    whole_file::write(&dir.join(files::PID), id)
}
