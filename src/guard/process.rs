//! Other processes on the device, told apart from later ones with the same id.

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// A process by its id and the time it started (clock ticks since boot, field 22 of `/proc/PID/stat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Process {
    pub id: i32,
    started: u64,
}

impl Process {
    /// This process.
    pub fn this() -> Self {
        let id = std::process::id() as i32;
        Process { id, started: state_and_start(id).map_or(0, |(_, started)| started) }
    }

    /// The process that has this id now.
    pub fn with_id(id: i32) -> Option<Self> {
        state_and_start(id).map(|(_, started)| Process { id, started })
    }

    /// Whether it still runs (a zombie does not).
    pub fn alive(&self) -> bool {
        state_and_start(self.id)
            .is_some_and(|(state, started)| started == self.started && !matches!(state, 'Z' | 'X'))
    }

    /// Sends a signal, if it still runs. A failure means that it is gone, or not ours to end; either shows in
    /// what follows.
    pub fn signal(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.id) else { return };
        // The descriptor is opened first: whatever it refers to cannot be replaced between check and signal.
        let handle = pidfd_open(pid, PidfdFlags::empty());
        if self.alive() {
            let _ = match handle {
                Ok(handle) => pidfd_send_signal(handle, signal),
                // Kernels before 5.3 have no pidfd; the window left is between two system calls.
                Err(_) => kill_process(pid, signal),
            };
        }
    }
}

/// State and start time, behind the parenthesised name (which may itself hold spaces and parentheses).
fn state_and_start(id: i32) -> Option<(char, u64)> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_known_until_it_ends() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = Process::with_id(child.id() as i32).unwrap();
        assert!(process.alive());
        let earlier = Process { started: process.started + 1, ..process };
        earlier.signal(Signal::KILL);
        assert!(child.try_wait().unwrap().is_none(), "a namesake is not hit");
        process.signal(Signal::KILL);
        child.wait().unwrap();
        assert!(!process.alive());
        assert!(Process::this().alive());
    }
}
