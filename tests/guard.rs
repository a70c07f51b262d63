//! The guard over real processes: an agent that is killed, frozen, robbed; a restorer that is killed first. After
//! each the originals are back. Prints how long restoring took (`--nocapture`).
//!
//! The device is a directory of plain files. The agent is this very test binary, run again as `stand_in`.
#![cfg(test)]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use opptune::clock::BootClock;
use opptune::device::Device;
use opptune::engine::EngineError;
use opptune::guard::{Guard, GuardError, LastRestore, Launch, restore_from};
use opptune::knob;
use opptune::profile::{DriverSpec, KnobSpec, Role, Use};
use opptune::sysfs::{NoProperties, RootedNodes};
use opptune::trial::{KnobId, Origin};
use opptune::units::Opp;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest wait for anything that must happen.
const DEADLINE: Duration = Duration::from_secs(60);
/// Directory of the device that a stand-in agent is given.
const DEVICE: &str = "OPPTUNE_TEST_DEVICE";
/// Name of the lease in milliseconds for it.
const LEASE: &str = "OPPTUNE_TEST_LEASE_MS";
const POLICY: &str = "sys/devices/system/cpu/cpufreq/policy0";

/// A device of plain files with one policy, and its state directory.
struct Phone(TempDir);

impl Phone {
    fn new() -> Self {
        let phone = Phone(tempfile::tempdir().unwrap());
        for (name, text) in [
            ("scaling_available_frequencies", "300000 600000 900000"),
            ("related_cpus", "0 1"),
            ("affected_cpus", "0 1"),
            ("cpuinfo_min_freq", "300000"),
            ("scaling_cur_freq", "300000"),
            ("scaling_min_freq", "300000"),
            ("scaling_max_freq", "900000"),
        ] {
            phone.write(&format!("{POLICY}/{name}"), text);
        }
        phone.reboot("first-boot");
        phone
    }

    fn root(&self) -> PathBuf {
        self.0.path().join("root")
    }

    fn state(&self) -> PathBuf {
        self.0.path().join("state")
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    fn reboot(&self, boot_id: &str) {
        self.write("proc/sys/kernel/random/boot_id", boot_id);
    }

    fn range(&self) -> (String, String) {
        let read = |name| fs::read_to_string(self.root().join(POLICY).join(name)).unwrap().trim().to_owned();
        (read("scaling_min_freq"), read("scaling_max_freq"))
    }

    fn pinned(&self) -> bool {
        self.range() == ("600000".into(), "600000".into())
    }

    fn original(&self) -> bool {
        self.range() == ("300000".into(), "900000".into())
    }

    fn clean(&self) -> bool {
        self.original() && !self.state().join("restore.json").exists()
    }

    fn nodes(&self) -> RootedNodes {
        RootedNodes::new(self.root(), Duration::from_secs(2))
    }

    fn device(&self) -> Device {
        device(&self.root())
    }

    fn take(&self, holder: &str, steal: Option<&str>) -> Result<Guard, GuardError> {
        let launch = launch(&self.root());
        Guard::take_with(&self.device(), &self.state(), holder, steal, DEADLINE, launch)
    }

    fn last_restore(&self) -> LastRestore {
        serde_json::from_slice(&fs::read(self.state().join("last-restore.json")).unwrap()).unwrap()
    }
}

fn device(root: &Path) -> Device {
    Device {
        nodes: Arc::new(RootedNodes::new(root, Duration::from_secs(2))),
        properties: Arc::new(NoProperties),
        clock: Arc::new(BootClock),
        engine: Box::new(|_, _| Err(EngineError::Cancelled)),
        origin: Origin::Measured,
        outlives_agent: true,
        work_rate: None,
        begin_trial: Box::new(|_| ()),
    }
}

fn launch(root: &Path) -> Launch {
    let program = env!("CARGO_BIN_EXE_opptune-agent").into();
    Launch { program, prefix: Vec::new(), root: root.to_owned() }
}

/// Saves, then pins the policy at its middle.
fn pin(guard: &mut Guard, device: &Device) {
    let spec = KnobSpec {
        id: KnobId("cpu".into()),
        role: Role::Cpu,
        usage: Use::Search,
        prior: Vec::new(),
        driver: DriverSpec::Cpufreq { policy: 0 },
    };
    let mut knob = knob::open(&spec, &*device.nodes).unwrap();
    guard.save(knob.snapshot(&*device.nodes).unwrap()).unwrap();
    knob.pin(&*device.nodes, Opp(600_000)).unwrap();
}

/// Not a test: the agent that the tests kill. Does nothing unless it was started by one of them.
#[test]
fn stand_in() {
    let Ok(dir) = std::env::var(DEVICE) else { return };
    let lease = Duration::from_millis(std::env::var(LEASE).unwrap().parse().unwrap());
    let dir = Path::new(&dir);
    let device = device(&dir.join("root"));
    let launch = launch(&dir.join("root"));
    let mut guard = Guard::take_with(&device, &dir.join("state"), "stand-in", None, lease, launch).unwrap();
    pin(&mut guard, &device);
    println!("pinned");
    loop {
        guard.feed().unwrap();
        std::thread::sleep(lease / 10);
    }
}

/// A stand-in agent that has pinned.
struct Agent(Child);

impl Agent {
    fn start(phone: &Phone, lease: Duration) -> Self {
        let agent = Agent::spawn(phone, lease);
        until("the policy is pinned", || phone.pinned());
        agent
    }

    fn spawn(phone: &Phone, lease: Duration) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "stand_in", "--nocapture"])
            .env(DEVICE, phone.0.path())
            .env(LEASE, lease.as_millis().to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Agent(child)
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
    }

    fn ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Its restorers that run.
    fn restorers(&self) -> BTreeSet<i32> {
        let mark = format!("--agent-pid\0{}\0", self.0.id());
        let of_agent = |pid: &i32| {
            fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains(&mark))
        };
        let all = fs::read_dir("/proc").unwrap();
        all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter(of_agent).collect()
    }

    fn restorer(&self) -> Pid {
        Pid::from_raw(*self.restorers().first().unwrap())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "{what}: not within {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    start.elapsed()
}

const LONG: Duration = Duration::from_secs(600);

#[test]
fn a_killed_agent_is_restored_by_its_restorer() {
    let phone = Phone::new();
    let agent = Agent::start(&phone, LONG);
    agent.signal(Signal::SIGKILL);
    let took = until("the originals are back", || phone.clean());
    let last = phone.last_restore();
    println!("agent killed: back after {took:?}, of which restoring took {} ms", last.report.took_ms);
    assert_eq!(last.report.restored, 2);
    assert!(last.why.contains("ended without restoring"), "{last:?}");
    until("the restorer leaves", || agent.restorers().is_empty());
}

#[test]
fn a_frozen_agent_is_ended_and_restored_after_its_lease() {
    let phone = Phone::new();
    let lease = Duration::from_secs(2);
    let mut agent = Agent::start(&phone, lease);
    agent.signal(Signal::SIGSTOP);
    let took = until("the originals are back", || phone.clean());
    println!("agent frozen: back after {took:?} (lease {lease:?})");
    assert!(agent.ended(), "an agent that thaws would pin again");
    assert!(phone.last_restore().why.contains("silent"));
}

#[test]
fn a_killed_restorer_is_replaced_before_the_agent_dies() {
    let phone = Phone::new();
    let agent = Agent::start(&phone, Duration::from_secs(2));
    let first = agent.restorer();
    kill(first, Signal::SIGKILL).unwrap();
    until("another restorer stands by", || {
        agent.restorers().iter().any(|pid| *pid != first.as_raw()) && phone.pinned()
    });
    agent.signal(Signal::SIGKILL);
    let took = until("the originals are back", || phone.clean());
    println!("restorer killed, then the agent: back after {took:?}");
}

#[test]
fn a_restorer_is_not_ended_by_what_ends_sessions() {
    let phone = Phone::new();
    let agent = Agent::start(&phone, LONG);
    let restorer = agent.restorer();
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        kill(restorer, signal).unwrap();
    }
    let session = |pid: u32| nix::unistd::getsid(Some(Pid::from_raw(pid as i32))).unwrap();
    assert_ne!(session(restorer.as_raw() as u32), session(agent.0.id()), "not in the agent's session");
    assert!(phone.pinned());
    agent.signal(Signal::SIGKILL);
    until("the originals are back", || phone.clean());
}

#[test]
fn a_device_left_dirty_is_restored_before_anything_is_saved() {
    let phone = Phone::new();
    let agent = Agent::start(&phone, LONG);
    kill(agent.restorer(), Signal::SIGKILL).unwrap();
    agent.signal(Signal::SIGKILL);
    until("both are gone", || agent.restorers().is_empty());
    drop(agent);
    assert!(phone.pinned(), "nobody was left to restore it");
    let mut guard = phone.take("second", None).unwrap();
    assert_eq!(guard.restored_first().unwrap().restored, 2);
    assert!(phone.original());
    pin(&mut guard, &phone.device());
    assert!(guard.restore().complete());
    assert!(phone.original(), "the dirty state was not taken for the original");
}

#[test]
fn what_cannot_be_put_back_is_refused_and_named() {
    let phone = Phone::new();
    let mut guard = phone.take("first", None).unwrap();
    pin(&mut guard, &phone.device());
    let stuck = phone.root().join(POLICY).join("scaling_max_freq");
    fs::remove_file(&stuck).unwrap();
    let report = guard.restore();
    assert_eq!(report.differs.len(), 1, "{report:?}");
    assert!(report.differs[0].contains("scaling_max_freq: wanted `900000`"), "{report:?}");
    drop(guard);
    // The restorer tries once more in its turn; while it does, the device counts as held.
    until(
        "the second holder is told what differs",
        || matches!(phone.take("second", None).err(), Some(GuardError::Dirty { differs }) if differs.len() == 1),
    );
    fs::write(&stuck, "600000\n").unwrap();
    assert!(restore_from(&phone.state(), &phone.nodes(), &NoProperties, None).unwrap().complete());
    assert!(phone.clean());
}

#[test]
fn a_device_has_one_holder_and_is_stolen_by_name_only() {
    let phone = Phone::new();
    let mut agent = Agent::start(&phone, LONG);
    let refused = phone.take("second", None).err().unwrap().to_string();
    assert!(refused.contains("stand-in") && refused.contains(&agent.0.id().to_string()), "{refused}");
    let by_hand = restore_from(&phone.state(), &phone.nodes(), &NoProperties, None).unwrap_err();
    assert!(matches!(by_hand, GuardError::Held { .. }), "{by_hand}");
    assert!(matches!(phone.take("second", Some("nobody")), Err(GuardError::NotTheHolder { .. })));
    assert!(!agent.ended() && phone.pinned());
    let guard = phone.take("second", Some("stand-in")).unwrap();
    assert!(agent.ended() && phone.original(), "restored by its restorer or by us, before we hold it");
    drop(guard);
    assert!(phone.clean());
}

#[test]
fn a_device_is_restored_by_hand_out_of_the_hands_of_a_holder_that_is_named() {
    let phone = Phone::new();
    let mut agent = Agent::start(&phone, LONG);
    let by_hand = |steal| restore_from(&phone.state(), &phone.nodes(), &NoProperties, steal);
    assert!(matches!(by_hand(Some("nobody")), Err(GuardError::NotTheHolder { .. })));
    assert!(!agent.ended() && phone.pinned());
    assert!(by_hand(Some("stand-in")).unwrap().complete());
    assert!(agent.ended() && phone.original());
}

#[test]
fn a_session_that_ends_well_leaves_nothing_behind() {
    let phone = Phone::new();
    let mut guard = phone.take("first", None).unwrap();
    pin(&mut guard, &phone.device());
    guard.feed().unwrap();
    assert!(phone.state().join("restore.json").exists());
    drop(guard);
    assert!(phone.clean());
    assert!(!phone.state().join("last-restore.json").exists(), "the restorer had nothing to do");
    let again = restore_from(&phone.state(), &phone.nodes(), &NoProperties, None).unwrap();
    assert_eq!((again.restored, again.differs.len()), (0, 0));
}

#[test]
fn after_a_reboot_only_what_survives_it_is_owed() {
    let phone = Phone::new();
    let agent = Agent::start(&phone, LONG);
    kill(agent.restorer(), Signal::SIGKILL).unwrap();
    agent.signal(Signal::SIGKILL);
    until("both are gone", || agent.restorers().is_empty());
    drop(agent);
    phone.reboot("second-boot");
    let report = restore_from(&phone.state(), &phone.nodes(), &NoProperties, None).unwrap();
    assert_eq!(report.restored, 0, "nodes are back by themselves after a reboot");
    assert!(phone.pinned(), "so nothing was written");
    assert!(!phone.state().join("restore.json").exists());
}

#[test]
fn the_state_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let phone = Phone::new();
    let mut guard = phone.take("first", None).unwrap();
    pin(&mut guard, &phone.device());
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(phone.state()), 0o700);
    for file in ["lock", "restore.json"] {
        assert_eq!(mode(phone.state().join(file)), 0o600, "{file}");
    }
}

/// At whatever moment an agent dies, from before it holds anything to after it has pinned.
#[test]
fn no_moment_of_death_loses_an_original() {
    let phone = Phone::new();
    let mut slowest = Duration::ZERO;
    for trial in 0..30_u64 {
        let agent = Agent::spawn(&phone, LONG);
        std::thread::sleep(Duration::from_micros(trial * trial * 60));
        agent.signal(Signal::SIGKILL);
        slowest = slowest.max(until("the originals are back", || phone.clean()));
        until("the restorer leaves", || agent.restorers().is_empty());
    }
    println!("30 deaths: slowest restore {slowest:?}");
}

/// Reads the stand-in's output once, so that a failure in it is not silent.
#[test]
fn the_stand_in_pins() {
    let phone = Phone::new();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "stand_in", "--nocapture"])
        .env(DEVICE, phone.0.path())
        .env(LEASE, "60000")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("pinned")));
    child.kill().unwrap();
    child.wait().unwrap();
    until("the originals are back", || phone.clean());
}
