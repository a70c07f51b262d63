//! The restorer: a process of its own that puts the device back when the agent cannot.
//!
//! It holds the reading end of a pipe the agent feeds. The pipe closes when the agent dies, however it dies; it
//! goes silent when the agent is frozen. It must outlive what kills the agent: it leaves the agent's session
//! and process group (su and shells end those), moves to the root of every cgroup hierarchy (init kills the
//! cgroup of adbd's service), ignores the signals that end sessions, and keeps no file of the agent's open.

use super::lock::{Heir, Lock};
use super::process::Process;
use super::put_back::{Place, put_back};
use super::store::{LastRestore, Store};
use super::{GuardError, machine};
use crate::clock::BootClock;
use crate::sysfs::cgroup::hierarchies;
use crate::sysfs::{Nodes, RootedNodes};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use rustix::process::Signal as Kill;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The restorer stands by.
pub(super) const READY: u8 = b'r';
/// The agent lives.
pub(super) const FEED: u8 = b'.';
/// The agent has put everything back.
pub(super) const GOODBYE: u8 = b'q';

/// How long a killed agent may take to be gone.
const DEATH: Duration = Duration::from_secs(10);
/// Pauses between attempts while something differs: daemons and clamps that stand in the way come and go.
const RETRIES: [Duration; 4] =
    [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(20)];

/// The restorer's command line: `--state-dir D --root R --lease-ms N --agent-pid P`.
struct Order {
    state_dir: PathBuf,
    root: PathBuf,
    lease: Duration,
    agent: i32,
}

impl Order {
    fn parse(args: &[String]) -> Result<Self, String> {
        let value = |name: &str| {
            let at = args.iter().position(|arg| arg == name).ok_or(format!("{name} is missing"))?;
            args.get(at + 1).ok_or(format!("{name} has no value"))
        };
        let number = |name: &str| value(name)?.parse::<u64>().map_err(|e| format!("{name}: {e}"));
        Ok(Order {
            state_dir: value("--state-dir")?.into(),
            root: value("--root")?.into(),
            lease: Duration::from_millis(number("--lease-ms")?.max(1)),
            agent: i32::try_from(number("--agent-pid")?).map_err(|e| format!("--agent-pid: {e}"))?,
        })
    }
}

/// Runs the restorer with what follows `restorer` on the command line: stands by on standard input until the
/// agent says goodbye, dies or goes silent. Exit code 0: nothing is owed; 2: usage; 7: something differs.
pub fn run(args: &[String]) -> ExitCode {
    let order = match Order::parse(args) {
        Ok(order) => order,
        Err(why) => {
            eprintln!(
                "restorer: {why}. It is started by the agent; to restore by hand: opptune-agent restore"
            );
            return ExitCode::from(2);
        }
    };
    // An agent that is gone already is restored after like any other: it may have died while it replaced a
    // restorer that was killed.
    let agent = Process::with_id(order.agent);
    let (nodes, properties) = machine(&order.root);
    detach(&nodes);
    // Unbuffered: what a buffer holds back, poll does not see.
    let Ok(line) = std::io::stdin().as_fd().try_clone_to_owned() else { return ExitCode::FAILURE };
    let end = stand_by(line.into(), order.lease);
    let why = match end {
        End::Goodbye => return ExitCode::SUCCESS,
        End::Closed => "the agent ended without restoring".to_owned(),
        End::Silent => format!("the agent was silent for more than {:?}", order.lease),
    };
    if let (End::Silent, Some(agent)) = (&end, agent) {
        end_agent(agent);
    }
    match restore(
        &order,
        &end,
        agent,
        &why,
        Place { nodes: &nodes, properties: &*properties, clock: &BootClock },
    ) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(7),
        Err(_) => ExitCode::FAILURE,
    }
}

/// Leaves everything by which the agent's end could become ours. Each step is worth taking even if another
/// one fails, and none of them can be made up for: failures are left alone.
fn detach(nodes: &RootedNodes) {
    let ended_by = [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGPIPE];
    let _ = ended_by.into_iter().collect::<SigSet>().thread_block();
    let _ = nix::unistd::setsid();
    let _ = nix::unistd::chdir("/");
    for hierarchy in hierarchies(nodes).unwrap_or_default() {
        let _ = nodes.write(&hierarchy.mount.join("cgroup.procs"), &std::process::id().to_string());
    }
    let mut out = std::io::stdout();
    let _ = out.write_all(&[READY]).and_then(|()| out.flush());
}

/// How standing by ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Goodbye,
    Closed,
    Silent,
}

/// Waits for the end. Silence is counted on a clock that stands still while the device sleeps, since the agent
/// sleeps too; and if this process itself was stopped for longer, the agent may have been stopped with it and
/// gets another lease.
fn stand_by(mut line: File, lease: Duration) -> End {
    let mut heard = [0; 512];
    loop {
        let since = Instant::now();
        if !readable(&line, lease) {
            match since.elapsed() > lease * 2 {
                true => continue,
                false => return End::Silent,
            }
        }
        match line.read(&mut heard) {
            Ok(0) | Err(_) => return End::Closed,
            Ok(count) if heard[..count].contains(&GOODBYE) => return End::Goodbye,
            Ok(_) => {}
        }
    }
}

fn readable(line: &File, within: Duration) -> bool {
    let timeout = PollTimeout::try_from(within).unwrap_or(PollTimeout::MAX);
    poll(&mut [PollFd::new(line.as_fd(), PollFlags::POLLIN)], timeout).is_ok_and(|ready| ready > 0)
}

/// Kills a silent agent, so that it can never pin again once it thaws, and waits until it is gone.
fn end_agent(agent: Process) {
    agent.signal(Kill::KILL);
    let start = Instant::now();
    while agent.alive() && start.elapsed() < DEATH {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Restores, again after a while if something differs. The lock is held for each attempt only, so that a new
/// agent can take the device, and with it the duty to restore, in between. Whether nothing is owed any more.
fn restore(
    order: &Order,
    end: &End,
    agent: Option<Process>,
    why: &str,
    place: Place,
) -> Result<bool, GuardError> {
    let store = Store::open(&order.state_dir, place.nodes)?;
    for pause in RETRIES.into_iter().map(Some).chain([None]) {
        let lock = match Lock::inherit(&order.state_dir, agent, DEATH)? {
            Heir::Us(lock) => Some(lock),
            // Killed and not gone: it hangs in a driver and ends before it can run again.
            Heir::Nobody if *end == End::Silent => None,
            // An agent that lives although the line is closed has another restorer.
            Heir::Nobody | Heir::Others => return Ok(true),
        };
        if attempt(&store, why, place)? {
            return Ok(true);
        }
        drop(lock);
        pause.into_iter().for_each(std::thread::sleep);
    }
    Ok(false)
}

fn attempt(store: &Store, why: &str, place: Place) -> Result<bool, GuardError> {
    let steps = store.load()?;
    if steps.is_empty() {
        return Ok(true);
    }
    let report = put_back(&steps, place);
    let complete = report.complete();
    store.note(&LastRestore { why: why.into(), report })?;
    if complete {
        store.clear()?;
    }
    Ok(complete)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_checked() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let order = Order::parse(&words("--state-dir /s --root / --lease-ms 500 --agent-pid 7")).unwrap();
        assert_eq!((order.lease, order.agent), (Duration::from_millis(500), 7));
        assert!(Order::parse(&words("--state-dir /s --root /")).is_err());
        assert!(Order::parse(&words("--state-dir /s --root / --lease-ms x --agent-pid 7")).is_err());
    }
}
