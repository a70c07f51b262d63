//! The agent's own binary over its standard input and output, on a directory of node files: whatever ends a
//! session, the nodes are back.

use crate::support::{Tree, opptune, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use opptune::engine::{EngineKind, EngineSpec};
use opptune::profile;
use opptune::protocol::{HostHello, OpenRequest, PROTOCOL_VERSION, ToAgent, ToHost};
use opptune::trial::{
    Choice, Combination, GateSpec, KnobId, Measurement, Purpose, Setting, Stage, TrialId, TrialSpec, Verdict,
};
use opptune::units::Opp;
use std::fs;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Longest wait for a frame; reached only when something is broken.
const DEADLINE: Duration = Duration::from_secs(60);
/// A lease that no test outlives by accident.
const LONG: u64 = 120_000;
/// A lease that ends soon, but not before a busy machine has pinned the nodes.
const SHORT: u64 = 4_000;

fn agent(args: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_opptune-agent"));
    command.args(args);
    command
}

fn run(args: &[&str]) -> Output {
    agent(&args.iter().map(ToString::to_string).collect::<Vec<_>>()).stdin(Stdio::null()).output().unwrap()
}

/// A host that speaks frames to a child.
struct Session {
    child: Child,
    to: Option<ChildStdin>,
    from: Receiver<ToHost>,
}

impl Session {
    fn start(tree: &Tree) -> Session {
        let mut child = agent(&tree.own_args())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (to, out) = (child.stdin.take(), child.stdout.take().unwrap());
        let (heard, from) = channel();
        std::thread::spawn(move || {
            let mut out = out;
            while let Some(frame) = read_frame(&mut out) {
                if heard.send(frame).is_err() {
                    return;
                }
            }
        });
        Session { child, to, from }
    }

    fn say(&mut self, message: &ToAgent) {
        let body = serde_json::to_vec(message).unwrap();
        self.write(&[&(body.len() as u32).to_be_bytes()[..], &body].concat());
    }

    fn write(&mut self, bytes: &[u8]) {
        self.to.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn hear(&mut self) -> ToHost {
        loop {
            match self.from.recv_timeout(DEADLINE).expect("a frame") {
                ToHost::Progress(_) | ToHost::Samples { .. } => {}
                other => return other,
            }
        }
    }

    /// A session with the tree open.
    fn open(tree: &Tree, lease_ms: u64) -> Session {
        let mut session = Session::start(tree);
        assert!(matches!(session.hear(), ToHost::Hello(_)));
        let hello = HostHello { protocol: PROTOCOL_VERSION, build: "test".into(), lease_ms };
        session.say(&ToAgent::Hello(hello));
        session.say(&ToAgent::Open(Box::new(request(tree))));
        let answer = session.hear();
        assert!(matches!(answer, ToHost::Opened(_)), "{answer:?}");
        session
    }

    /// A session in the middle of a trial with both knobs pinned.
    fn pinned(tree: &Tree, lease_ms: u64) -> Session {
        let mut session = Session::open(tree, lease_ms);
        session.say(&ToAgent::Run(Box::new(TrialSpec { min_window_ms: u64::MAX, ..trial() })));
        until("the nodes are pinned", || tree.changed());
        session
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    fn hang_up(&mut self) {
        self.to = None;
    }

    fn exit_code(&mut self) -> Option<i32> {
        until("the agent ends", || self.child.try_wait().unwrap().is_some());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A test that failed leaves no agent behind; one that ended has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_frame(from: &mut ChildStdout) -> Option<ToHost> {
    let mut length = [0; 4];
    from.read_exact(&mut length).ok()?;
    let mut body = vec![0; u32::from_be_bytes(length) as usize];
    from.read_exact(&mut body).ok()?;
    Some(serde_json::from_slice(&body).unwrap())
}

fn request(tree: &Tree) -> OpenRequest {
    let engine = EngineSpec {
        kind: EngineKind::Spin,
        model: String::new(),
        threads: 1,
        affinity: vec![],
        gpu_layers: 0,
    };
    OpenRequest {
        profile: profile::load(tree.profile().to_str().unwrap()).unwrap(),
        engine: Some(engine),
        seed: 1,
        steal_from: None,
        holder: "test".into(),
        energy: None,
    }
}

fn trial() -> TrialSpec {
    let pins = [("cpu", 1_200_000), ("gpu", 400_000)];
    let pins = pins.map(|(knob, opp)| (KnobId(knob.into()), Choice::Pin(Opp(opp))));
    TrialSpec {
        id: TrialId {
            setting: Setting { stage: Stage::Decode, tokens: 4 },
            combination: Combination(pins.into()),
            purpose: Purpose::Search,
            repeat: 0,
        },
        prompt_tokens: 4,
        seed: 1,
        gate: GateSpec::default(),
        min_window_ms: 50,
        min_updates: 1,
        max_passes: u32::MAX,
    }
}

fn measured(session: &mut Session) -> Box<Measurement> {
    session.say(&ToAgent::Run(Box::new(trial())));
    match session.hear() {
        ToHost::Finished(measurement) => measurement,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_session_measures_and_says_bye() {
    let tree = Tree::new();
    let mut session = Session::open(&tree, LONG);
    let measurement = measured(&mut session);
    assert!(tree.changed(), "the knobs stay pinned for the next trial");
    assert!(measurement.latency.tpot.unwrap().0 > 0.0);
    assert_eq!(measurement.energy.unwrap().source.kind.to_string(), "modelled");
    assert_eq!(measurement.knobs[&KnobId("cpu".into())].accepted, Some(Opp(1_200_000)));
    session.say(&ToAgent::Bye);
    let bye = session.hear();
    assert!(matches!(&bye, ToHost::Bye(report) if report.complete() && report.restored > 0), "{bye:?}");
    assert_eq!(session.exit_code(), Some(0));
    assert!(!tree.changed(), "{}", tree.difference());
}

#[test]
fn the_end_of_the_input_puts_the_nodes_back() {
    let tree = Tree::new();
    let mut session = Session::pinned(&tree, LONG);
    session.hang_up();
    assert_eq!(session.exit_code(), Some(0));
    assert!(!tree.changed(), "{}", tree.difference());
}

#[test]
fn signals_put_the_nodes_back() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let tree = Tree::new();
        let mut session = Session::pinned(&tree, LONG);
        session.signal(signal);
        assert_eq!(session.exit_code(), Some(6), "{signal}");
        assert!(!tree.changed(), "{signal}: {}", tree.difference());
    }
}

#[test]
fn a_host_that_falls_silent_loses_the_device() {
    let tree = Tree::new();
    let mut session = Session::pinned(&tree, SHORT);
    assert_eq!(session.exit_code(), Some(6));
    assert!(!tree.changed(), "{}", tree.difference());
}

#[test]
fn a_torn_frame_puts_the_nodes_back() {
    let tree = Tree::new();
    let mut session = Session::pinned(&tree, LONG);
    session.write(b"\xff\xff\xff\xffjunk");
    assert_eq!(session.exit_code(), Some(1));
    assert!(!tree.changed(), "{}", tree.difference());
}

#[test]
fn a_killed_agent_is_restored_after() {
    let tree = Tree::new();
    let session = Session::pinned(&tree, LONG);
    session.signal(Signal::SIGKILL);
    until("the restorer puts the nodes back", || !tree.changed());
}

#[test]
fn a_frozen_agent_is_restored_after() {
    let tree = Tree::new();
    let mut session = Session::pinned(&tree, SHORT);
    session.signal(Signal::SIGSTOP);
    until("the restorer puts the nodes back", || !tree.changed());
    assert_eq!(session.exit_code(), None, "the restorer ends a frozen agent, so that it cannot pin again");
}

#[test]
fn a_pin_without_any_clock_to_see_is_not_told_held() {
    let tree = Tree::without_gpu_clock();
    let measurement = measured(&mut Session::open(&tree, LONG));
    assert_eq!(measurement.knobs[&KnobId("cpu".into())].verdict, Verdict::Held);
    let verdict = &measurement.knobs[&KnobId("gpu".into())].verdict;
    assert!(matches!(verdict, Verdict::Unverifiable { .. }), "{verdict:?}");
}

#[test]
fn the_command_line_says_what_it_does_and_refuses_what_it_does_not_know() {
    let help = run(&["--help"]);
    assert!(help.status.success());
    assert!(String::from_utf8_lossy(&help.stdout).contains("restore"));
    assert!(String::from_utf8_lossy(&run(&["--version"]).stdout).contains(env!("CARGO_PKG_VERSION")));
    let wrong = run(&["--fast"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("--fast"));
}

#[test]
fn restoring_a_device_that_owes_nothing_is_fine() {
    let tree = Tree::new();
    let restored = agent(&tree.own_args()).arg("restore").output().unwrap();
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
}

/// A tree that is left pinned, and nobody to put it back.
fn left_changed() -> Tree {
    let tree = Tree::new();
    let session = Session::pinned(&tree, LONG);
    let restorers = || {
        let line = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let ours =
            |pid: &i32| tree.own_args().iter().all(|arg| line(pid).contains(arg.split('=').nth(1).unwrap()));
        let all = fs::read_dir("/proc").unwrap();
        let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(|pid| line(pid).contains("\0restorer\0") && ours(pid)).collect::<Vec<i32>>()
    };
    for restorer in restorers() {
        kill(Pid::from_raw(restorer), Signal::SIGKILL).unwrap();
    }
    drop(session);
    until("agent and restorer are gone", || restorers().is_empty());
    assert!(tree.changed());
    tree
}

#[test]
fn the_host_restores_a_device_that_was_left_changed() {
    let tree = left_changed();
    let mut restore = opptune(["restore"]);
    restore.args(tree.agent_args()).args(["--agent", env!("CARGO_BIN_EXE_opptune-agent")]);
    for put_back in ["4 values verified", "0 values verified"] {
        let output = restore.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(put_back), "{text}");
        assert!(!tree.changed(), "{}", tree.difference());
    }
}

#[test]
fn restoring_from_the_host_is_refused_while_the_device_is_measured_on() {
    let tree = Tree::new();
    let _session = Session::pinned(&tree, LONG);
    let mut restore = opptune(["restore"]);
    let output = restore.args(tree.agent_args()).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("held by `test`"), "{output:?}");
    assert!(tree.changed());
}

#[test]
fn a_restorer_that_comes_too_late_for_its_agent_restores() {
    let tree = left_changed();
    let gone = Command::new("true").spawn().and_then(|mut child| child.wait().map(|_| child.id())).unwrap();
    let words = ["restorer".into(), "--lease-ms=1".replace('=', " "), format!("--agent-pid {gone}")];
    let order = tree.own_args().iter().map(|arg| arg.replacen('=', " ", 1)).collect::<Vec<_>>();
    let words = words.iter().chain(&order).flat_map(|words| words.split(' ').map(str::to_owned));
    let output = agent(&words.collect::<Vec<_>>()).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(!tree.changed(), "{}", tree.difference());
}
