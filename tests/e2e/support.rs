//! Shared by the end-to-end tests: the binaries, run directories, and a directory tree of node files.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Longest wait for anything; reached only when something is broken.
const DEADLINE: Duration = Duration::from_secs(120);

/// The host binary with arguments, run from the package's root as the README says.
pub fn opptune<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(args: I) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_opptune"));
    command.args(args).current_dir(env!("CARGO_MANIFEST_DIR"));
    command
}

/// All that a program said.
pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Waits until `condition` holds.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < end, "waited {DEADLINE:?} until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The one run directory below `results`, once its journal is there.
pub fn run_dir_in(results: &Path) -> Option<PathBuf> {
    let run = fs::read_dir(results).ok()?.next()?.ok()?.path();
    run.join("journal.jsonl").exists().then_some(run)
}

/// The whole lines of a run's journal.
pub fn journal(run: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(run.join("journal.jsonl")).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A device made of plain files: one cpufreq policy and one devfreq GPU. Writes stick, nothing else happens;
/// its pins are held for ever and its clocks say what was written.
pub struct Tree {
    dir: tempfile::TempDir,
    originals: BTreeMap<PathBuf, String>,
}

const POLICY: &str = "sys/devices/system/cpu/cpufreq/policy0";
const GPU: &str = "sys/class/devfreq/gpu";

impl Tree {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (node, text) in [
            (format!("{POLICY}/related_cpus"), "0 1"),
            (format!("{POLICY}/affected_cpus"), "0 1"),
            (format!("{POLICY}/scaling_available_frequencies"), "600000 1200000 1800000"),
            (format!("{POLICY}/scaling_governor"), "schedutil"),
            (format!("{POLICY}/cpuinfo_min_freq"), "600000"),
            (format!("{POLICY}/cpuinfo_max_freq"), "1800000"),
            (format!("{POLICY}/scaling_min_freq"), "600000"),
            (format!("{POLICY}/scaling_max_freq"), "1800000"),
            (format!("{GPU}/available_frequencies"), "200000000 400000000 800000000"),
            (format!("{GPU}/governor"), "simple_ondemand"),
            (format!("{GPU}/min_freq"), "200000000"),
            (format!("{GPU}/max_freq"), "800000000"),
        ] {
            let file = dir.path().join("root").join(node);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{text}\n")).unwrap();
        }
        // A clock that says what the maximum was set to.
        for (dir_of, clock, maximum) in
            [(POLICY, "scaling_cur_freq", "scaling_max_freq"), (GPU, "cur_freq", "max_freq")]
        {
            symlink(maximum, dir.path().join("root").join(dir_of).join(clock)).unwrap();
        }
        let mut tree = Tree { dir, originals: BTreeMap::new() };
        tree.originals = tree.nodes();
        fs::write(tree.profile(), PROFILE).unwrap();
        fs::write(tree.config(), CONFIG.replace("@PROFILE@", tree.profile().to_str().unwrap())).unwrap();
        tree
    }

    /// The same without a clock of the GPU, so that nothing tells whether its pin held.
    pub fn without_gpu_clock() -> Self {
        let mut tree = Tree::new();
        fs::remove_file(tree.dir.path().join("root").join(GPU).join("cur_freq")).unwrap();
        tree.originals = tree.nodes();
        tree
    }

    /// Plugs a USB cable in or out; the node that says so.
    pub fn cable(&self, plugged: bool) -> PathBuf {
        let usb = self.dir.path().join("root/sys/class/power_supply/usb");
        fs::create_dir_all(&usb).unwrap();
        fs::write(usb.join("type"), "USB\n").unwrap();
        fs::write(usb.join("online"), if plugged { "1\n" } else { "0\n" }).unwrap();
        usb.join("online")
    }

    /// Its profile.
    pub fn profile(&self) -> PathBuf {
        self.dir.path().join("tree.toml")
    }

    /// A sweep of it that takes a few seconds.
    pub fn config(&self) -> PathBuf {
        self.dir.path().join("sweep.toml")
    }

    /// A sweep of it that takes minutes.
    pub fn long_config(&self) -> PathBuf {
        let file = self.dir.path().join("long.toml");
        let text = fs::read_to_string(self.config()).unwrap();
        fs::write(&file, text.replace("repeats = 2", "repeats = 200")).unwrap();
        file
    }

    /// The directory of its nodes and its agent's state, which are called `root` and `state` there.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Arguments that put an agent on this tree.
    pub fn own_args(&self) -> Vec<String> {
        let path = |name: &str| self.dir.path().join(name).to_str().unwrap().to_owned();
        vec![format!("--root={}", path("root")), format!("--state-dir={}", path("state"))]
    }

    /// Arguments of `opptune` that put its agent on this tree.
    pub fn agent_args(&self) -> Vec<String> {
        self.own_args().into_iter().map(|arg| format!("--agent-arg={arg}")).collect()
    }

    fn nodes(&self) -> BTreeMap<PathBuf, String> {
        [POLICY, GPU]
            .iter()
            .flat_map(|dir| fs::read_dir(self.dir.path().join("root").join(dir)).unwrap())
            .map(|entry| entry.unwrap().path())
            .map(|file| (file.clone(), fs::read_to_string(file).unwrap().trim().to_owned()))
            .collect()
    }

    /// Whether any node differs from its original.
    pub fn changed(&self) -> bool {
        self.nodes() != self.originals
    }

    /// What differs, for messages.
    pub fn difference(&self) -> String {
        let now = self.nodes();
        let differs = self.originals.iter().filter(|(file, text)| now.get(*file) != Some(text));
        differs
            .map(|(file, text)| format!("{}: was {text}, is {:?}\n", file.display(), now.get(file)))
            .collect()
    }
}

const PROFILE: &str = r#"
schema = 1
name = "tree"
title = "A directory of node files"
accuracy = "from-sources"
provenance = ["the end-to-end tests"]
axes = { gpu = { lead = "gpu" }, cpu = { lead = "cpu" } }
energy = [{ modelled = { idle-mw = 1000.0, active-mw-per-cpu = 2000.0 } }]

[[knob]]
id = "cpu"
role = "cpu"
driver = { cpufreq = { policy = 0 } }

[[knob]]
id = "gpu"
role = "gpu"
driver = { devfreq = { node = "/sys/class/devfreq/gpu" } }
"#;

const CONFIG: &str = r#"
schema = 1
name = "tree"
device = { profile = "@PROFILE@" }
engine = { kind = "spin", threads = 1 }
settings = { decode = [8], prefill = [16] }
search = { strategy = "exhaustive", budget = { absolute = 1e6 } }
measure = { repeats = 2, baseline-repeats = 1, min-window-ms = 200, min-updates = 1 }
"#;
