//! A mounted device with its originals, and the processes that work on it.

use crate::support::{Mounted, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use opptune::guard::{RestoreStep, Target};
use opptune::knob;
use opptune::profile::{DriverSpec, Role};
use opptune::sysfs::Nodes;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The agent's lease; its restorer waits for two.
pub const LEASE: Duration = Duration::from_millis(1000);

const AGENT: &str = env!("CARGO_BIN_EXE_opptune-agent");

/// Thousands of short trials: a sweep that does not end by itself.
const CONFIG: &str = r#"
schema = 1
name = "killed"
device = { profile = "@PROFILE@" }
engine = { kind = "spin", threads = 1 }
settings = { decode = [2], prefill = [] }
search = { strategy = "exhaustive", budget = { absolute = 1e9 } }
measure = { repeats = 50, baseline-repeats = 1, min-window-ms = 30, min-updates = 1 }
retry = { lease-ms = @LEASE@ }
"#;

/// An agent behind a process that is its link.
const LINKED: &str = "#!/bin/sh\nsh -c 'echo $$ >\"$0\"; exec cat' '@PID@' | '@AGENT@' \"$@\"\n";

pub struct Device {
    mounted: Mounted,
    dir: tempfile::TempDir,
    originals: BTreeMap<PathBuf, String>,
}

impl Device {
    pub fn new(twin: &str) -> Self {
        let (mounted, dir) = (Mounted::new(twin), tempfile::tempdir().unwrap());
        let mut device = Device { mounted, dir, originals: BTreeMap::new() };
        device.narrow();
        device.originals = device.nodes();
        let profile = device.mounted.profile_file();
        let config = CONFIG.replace("@PROFILE@", profile.to_str().unwrap());
        let config = config.replace("@LEASE@", &LEASE.as_millis().to_string());
        fs::write(device.file("sweep.toml"), config).unwrap();
        let pid = device.file("link.pid");
        let linked = LINKED.replace("@PID@", pid.to_str().unwrap()).replace("@AGENT@", AGENT);
        fs::write(device.file("linked-agent"), linked).unwrap();
        fs::set_permissions(device.file("linked-agent"), fs::Permissions::from_mode(0o755)).unwrap();
        device
    }

    /// Somebody else has narrowed CPUs and GPU before we came: originals that are not the ends of the range. Memory
    /// moves by itself: other domains vote for it, and a monitor may re-assert its own range.
    fn narrow(&self) {
        let nodes = self.mounted.nodes();
        for spec in self.mounted.profile().knobs {
            if spec.role != Role::Memory && !matches!(spec.driver, DriverSpec::CpuQuota { .. }) {
                let mut knob = knob::open(&spec, &nodes).unwrap();
                let second = knob.info().opps[1];
                let _ = knob.pin(&nodes, second);
            }
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Every node that can be written, as it reads. Which processes are in which cgroup is no original.
    fn nodes(&self) -> BTreeMap<PathBuf, String> {
        let (mut found, mut dirs) = (BTreeMap::new(), vec![self.mounted.root()]);
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap()) {
                let (path, name) = (entry.path(), entry.file_name());
                let members = name == "cgroup.procs" || name == "tasks" || name == "control";
                let meta = entry.metadata().unwrap();
                if meta.is_dir() {
                    dirs.push(path);
                } else if meta.permissions().mode() & 0o222 != 0 && !members {
                    let text = fs::read_to_string(&path).unwrap_or_else(|e| e.kind().to_string());
                    found.insert(path, text);
                }
            }
        }
        found
    }

    /// What differs from the originals.
    pub fn difference(&self) -> Vec<String> {
        let now = self.nodes();
        let paths: std::collections::BTreeSet<&PathBuf> = now.keys().chain(self.originals.keys()).collect();
        let differing = paths.into_iter().filter(|path| now.get(*path) != self.originals.get(*path));
        let show = |path: &PathBuf| {
            format!("{}: was {:?}, is {:?}", path.display(), self.originals.get(path), now.get(path))
        };
        differing.map(show).collect()
    }

    /// Whether the device is known to be changed: originals are owed.
    pub fn owed(&self) -> bool {
        self.state().join("restore.json").exists()
    }

    fn state(&self) -> PathBuf {
        let [_, state] = self.mounted.agent_args();
        state.trim_start_matches("--state-dir=").into()
    }

    /// The originals that are owed; none if the device is clean or the file is just being removed.
    fn originals_owed(&self) -> Vec<RestoreStep> {
        let text = fs::read(self.state().join("restore.json")).unwrap_or_default();
        let file = serde_json::from_slice::<serde_json::Value>(&text).unwrap_or_default();
        serde_json::from_value(file["steps"].clone()).unwrap_or_default()
    }

    /// Whether a knob is moved from its original.
    pub fn pinned(&self) -> bool {
        let nodes = self.mounted.nodes();
        let moved = |step: &RestoreStep| match &step.target {
            Target::Node(path) => nodes.read(path).is_ok_and(|text| !step.check.holds(text.trim())),
            Target::Cgroup { dir, .. } => nodes.exists(dir),
            Target::Property(_) | Target::Wakelock(_) => false,
        };
        self.originals_owed().iter().any(|step| !step.owner.starts_with("companion ") && moved(step))
    }

    /// An agent's command.
    pub fn agent(&self) -> Command {
        let mut command = Command::new(AGENT);
        command.args(self.mounted.agent_args());
        command
    }

    /// A command of the host about this device, with the program of its agent.
    fn host(&self, word: &str, agent: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_opptune"));
        command.arg(word).args(self.mounted.agent_args().map(|arg| format!("--agent-arg={arg}")));
        command.arg("--agent").arg(agent).stdin(Stdio::null());
        command
    }

    /// `opptune restore`.
    pub fn restore_by_host(&self) -> Command {
        self.host("restore", AGENT)
    }

    /// Starts a sweep. Its agent is behind a process of its own if the link is to be cut.
    pub fn sweep(&self, number: u64, linked: bool) -> Sweep {
        let _ = fs::remove_file(self.file("link.pid"));
        let results = self.file(&format!("results-{number}"));
        let agent = if linked { self.file("linked-agent") } else { AGENT.into() };
        let mut command = self.host("sweep", agent);
        command.arg(self.file("sweep.toml")).arg("--results").arg(&results);
        let log = fs::File::create(self.file("host.log")).unwrap();
        let host = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        Sweep { host, results }
    }

    /// What the host said last.
    pub fn log(&self) -> String {
        fs::read_to_string(self.file("host.log")).unwrap_or_default()
    }

    /// The process between host and agent.
    pub fn link(&self) -> Option<i32> {
        fs::read_to_string(self.file("link.pid")).ok()?.trim().parse().ok()
    }

    pub fn agents(&self) -> Vec<i32> {
        self.processes(false)
    }

    pub fn restorers(&self) -> Vec<i32> {
        self.processes(true)
    }

    /// Agents of this device, or their restorers, that run.
    fn processes(&self, restorers: bool) -> Vec<i32> {
        let state = self.state();
        let ours = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            line.starts_with(AGENT)
                && line.contains(state.to_str().unwrap())
                && line.contains("\0restorer\0") == restorers
        };
        let all = fs::read_dir("/proc").unwrap();
        all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter(ours).collect()
    }
}

/// Sends a signal to processes that may be gone already.
pub fn signal(pids: &[i32], signal: Signal) {
    for pid in pids {
        let _ = kill(Pid::from_raw(*pid), signal);
    }
}

/// A sweep that runs. Killed when dropped.
pub struct Sweep {
    host: Child,
    results: PathBuf,
}

impl Sweep {
    pub fn host(&self) -> i32 {
        self.host.id() as i32
    }

    pub fn ended(&mut self) -> bool {
        self.host.try_wait().unwrap().is_some()
    }

    /// The first event of this kind in the journal.
    pub fn event(&self, name: &str) -> Option<serde_json::Value> {
        let run = fs::read_dir(&self.results).ok()?.next()?.ok()?.path();
        let text = fs::read_to_string(run.join("journal.jsonl")).ok()?;
        let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        lines.into_iter().find(|line| line["event"] == name)
    }

    /// Ends the sweep as Ctrl-C does, and waits for its end.
    pub fn interrupt(&mut self) {
        signal(&[self.host()], Signal::SIGINT);
        until("the host ends", || self.ended());
    }
}

impl Drop for Sweep {
    fn drop(&mut self) {
        let _ = self.host.kill();
        let _ = self.host.wait();
        let _ = fs::remove_dir_all(Path::new(&self.results));
    }
}
