//! A simulated device with one knob of each family, and what may happen to it.

use super::super::*;
use crate::guard::{Place, put_back};
use crate::profile::Profile;
use crate::protocol::RestoreReport;
use crate::sysfs::NoProperties;
use crate::twin::{CONTROL, Entry, Twin};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// A family and the quirks it is tried with.
pub struct Family {
    pub name: &'static str,
    driver: &'static str,
    domain: &'static str,
}

/// Driver and domain of a simulated device with one knob.
pub const FAMILIES: &[Family] = &[
    Family {
        name: "cpufreq, up to 5.2",
        driver: "{ cpufreq = { policy = 4 } }",
        domain: "cpus = [4, 5]\ntable = [300000, 600000, 900000]\nboost = [1200000]\n\
                 quirks = { limits = 'legacy', list = 'missing', dcvsh = true }",
    },
    Family {
        name: "cpufreq, 5.4 to 5.10",
        driver: "{ cpufreq = { policy = 4 } }",
        domain: "cpus = [4, 5]\ntable = [300000, 600000, 900000]\nquirks = { limits = 'qos', list = 'descending' }",
    },
    Family {
        name: "cpufreq, from 5.15",
        driver: "{ cpufreq = { policy = 4 } }",
        domain: "cpus = [4, 5]\ntable = [300000, 600000, 900000]\nquirks = { no-hardware-clock = true }",
    },
    Family {
        name: "pixel-mali",
        driver: "{ pixel-mali = { node = '/sys/devices/platform/*.mali' } }",
        domain: "node = '/sys/devices/platform/28000000.mali'\ntable = [151000, 572000, 848000]\n\
                 quirks = { devicetree = [151000, 572000] }",
    },
    Family {
        name: "kgsl",
        driver: "{ kgsl = { node = '/sys/class/kgsl/kgsl-3d0' } }",
        domain: "table = [220000, 550000, 719000]",
    },
    Family {
        name: "gpufreq-v1",
        driver: "{ gpufreq-v1 = { node = '/proc/gpufreq' } }",
        domain: "table = [400000, 700000, 900000]",
    },
    Family {
        name: "gpufreq-v2",
        driver: "{ gpufreq-v2 = { node = '/proc/gpufreqv2' } }",
        domain: "table = [400000, 700000, 900000]\nquirks = { duplicates = [700000] }",
    },
    Family {
        name: "gpex",
        driver: "{ gpex = { node = '/sys/kernel/gpu' } }",
        domain: "table = [260000, 598000, 702000]",
    },
    Family {
        name: "devfreq in Hz, old",
        driver: "{ devfreq = { node = '/sys/class/devfreq/gpu', unit = 'hz' } }",
        domain: "table = [200000, 600000, 6400000]\nquirks = { limits = 'legacy', list = 'descending' }",
    },
    Family {
        name: "devfreq in kHz, without a list",
        driver: "{ devfreq = { node = '/sys/class/devfreq/sgpu', unit = 'khz' } }",
        domain: "table = [509000, 700000, 980000]\nquirks = { list = 'empty' }",
    },
    Family {
        name: "devfreq in MB/s",
        driver: "{ devfreq = { node = '/sys/class/devfreq/soc:qcom,cpubw', unit = 'mbps' } }",
        domain: "table = [762, 2288, 12784]",
    },
    Family {
        name: "mif",
        driver: "{ mif = { node = '/sys/class/devfreq/*.devfreq_mif' } }",
        domain: "node = '/sys/class/devfreq/17000010.devfreq_mif'\ntable = [421000, 1716000, 3172000]",
    },
    Family {
        name: "bus-dcvs",
        driver: "{ bus-dcvs = { node = '/sys/devices/system/cpu/bus_dcvs/DDR' } }",
        domain: "table = [547000, 2092000, 4224000]\nquirks = { monitors = ['gold', 'prime'] }",
    },
    Family { name: "cpu-quota, v1", driver: "{ cpu-quota = { levels = [500, 1000, 2000] } }", domain: "" },
    Family { name: "cpu-quota, v2", driver: "{ cpu-quota = { levels = [500, 1000, 2000] } }", domain: "" },
];

impl Family {
    /// Its driver answers EINVAL to a minimum above the maximum.
    fn refuses(&self) -> bool {
        self.domain.contains("limits = 'legacy'")
    }

    fn profile(&self) -> Profile {
        let prior = if self.domain.contains("'empty'") { "prior = [509000, 700000, 980000]" } else { "" };
        let (cgroup, mounts) = match self.name.ends_with("v2") {
            true => ("v2", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0"),
            false => ("v1", "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0"),
        };
        let text = format!(
            "schema = 1\nname = 'one-knob'\ntitle = 'one knob'\naccuracy = 'twin'\nprovenance = ['test']\n\
             [[knob]]\nid = 'knob'\nrole = 'gpu'\n{prior}\ndriver = {}\n[axes]\ngpu = {{ lead = 'knob' }}\n\
             [twin]\nidle-mw = 1.0\ncompanions = {{ cgroup = '{cgroup}', cooling = true }}\n\
             files = {{ '/proc/mounts' = '{mounts}', '/proc/self/cgroup' = '4:cpu:/' }}\n\
             [twin.engine]\ncpu = 'knob'\noverlap = 3.0\nsync-busy = 0.5\n[twin.domains.knob]\n{}\n",
            self.driver, self.domain
        );
        toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }
}

/// What may happen between two pins.
#[derive(Clone, Debug)]
pub enum Event {
    /// Pinned at this share of the table.
    Pin(usize),
    /// Pinned, but the access with this number fails.
    PinBroken(usize, usize),
    /// Pinned by somebody who dies before the access with this number.
    PinCut(usize, usize),
    /// A kernel client caps the domain at this share, or lets go.
    Clamp(Option<usize>),
    /// Writes succeed and do nothing, or work again.
    Deaf(bool),
    /// A daemon opens the range.
    Meddled,
    /// The CPUs go offline or come back.
    Online(bool),
    /// Restored, by whoever.
    Restore,
    /// Restored, but the access with this number fails.
    RestoreBroken(usize),
    /// Restored by somebody who dies before the access with this number.
    RestoreCut(usize),
}

pub fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..4_usize).prop_map(Event::Pin),
        2 => (0..4_usize, 0..8_usize).prop_map(|(at, access)| Event::PinBroken(at, access)),
        2 => proptest::option::of(0..4_usize).prop_map(Event::Clamp),
        1 => any::<bool>().prop_map(Event::Deaf),
        1 => Just(Event::Meddled),
        1 => any::<bool>().prop_map(Event::Online),
        2 => (0..4_usize, 0..8_usize).prop_map(|(at, access)| Event::PinCut(at, access)),
        2 => Just(Event::Restore),
        1 => (0..8_usize).prop_map(Event::RestoreBroken),
        1 => (0..8_usize).prop_map(Event::RestoreCut),
    ]
}

/// What becomes of accesses.
#[derive(Clone, Copy)]
enum Fuse {
    Whole,
    /// After so many accesses one fails.
    Breaks(usize),
    /// After so many accesses all fail: whoever makes them is dead.
    Cut(usize),
}

/// Nodes of which accesses can be made to fail, and which see every write.
pub struct Watched<'a> {
    inner: &'a dyn Nodes,
    fuse: Mutex<Fuse>,
    /// A crossing write is refused and nothing but such a write is.
    strict: Mutex<bool>,
    /// Number last written to each node.
    numbers: Mutex<BTreeMap<String, u64>>,
}

impl<'a> Watched<'a> {
    pub fn new(inner: &'a dyn Nodes, strict: bool) -> Self {
        let (fuse, strict) = (Mutex::new(Fuse::Whole), Mutex::new(strict));
        Watched { inner, fuse, strict, numbers: Mutex::default() }
    }

    /// Does something of which the access with this number and all that follow fail.
    pub fn cut<T>(&self, access: usize, act: impl FnOnce() -> T) -> T {
        self.with(Fuse::Cut(access), act)
    }

    fn with<T>(&self, fuse: Fuse, act: impl FnOnce() -> T) -> T {
        *self.fuse.lock().unwrap() = fuse;
        let outcome = act();
        *self.fuse.lock().unwrap() = Fuse::Whole;
        outcome
    }

    fn burn(&self, op: &str, path: &NodePath) -> Result<(), NodeError> {
        let mut fuse = self.fuse.lock().unwrap();
        let (next, blown) = match *fuse {
            Fuse::Whole | Fuse::Breaks(0) => (Fuse::Whole, matches!(*fuse, Fuse::Breaks(0))),
            Fuse::Breaks(left) => (Fuse::Breaks(left - 1), false),
            Fuse::Cut(left) => (Fuse::Cut(left.saturating_sub(1)), left == 0),
        };
        *fuse = next;
        if blown { Err(NodeError::from_errno(op, path, libc::EIO)) } else { Ok(()) }
    }

    /// No write ever asks for a minimum above the maximum that was asked for, or the reverse. Power levels count
    /// downwards.
    fn in_order(&self, path: &NodePath, text: &str) {
        let Ok(value) = text.parse::<u64>() else { return };
        let path = path.to_string();
        let mut numbers = self.numbers.lock().unwrap();
        let is = |names: [&str; 4]| names.iter().any(|name| path.contains(name));
        let lower = is(["min_freq", "devfreq_min", "min_clock", "max_pwrlevel"]);
        let upper = is(["max_freq", "devfreq_max", "max_clock", "min_pwrlevel"]);
        // 0 frees a lock: for a maximum that is no bound.
        let value = if upper && value == 0 && !path.contains("pwrlevel") { u64::MAX } else { value };
        let other =
            if path.contains("min") { path.replace("min", "max") } else { path.replace("max", "min") };
        match numbers.get(&other) {
            Some(&max) if lower => assert!(value <= max, "{path}: {value} is above {max}"),
            Some(&min) if upper => assert!(value >= min, "{path}: {value} is below {min}"),
            _ => {}
        }
        numbers.insert(path, value);
    }

    /// What the driver itself says of the order of writes.
    fn not_refused(&self, path: &NodePath, text: &str, answer: &Result<(), NodeError>) {
        let refused = matches!(answer, Err(error) if error.fault == crate::sysfs::NodeFault::Invalid);
        assert!(!(refused && *self.strict.lock().unwrap()), "{path}: {text} was refused");
    }
}

impl Nodes for Watched<'_> {
    fn read(&self, path: &NodePath) -> Result<String, NodeError> {
        self.burn("read", path)?;
        self.inner.read(path)
    }

    fn write(&self, path: &NodePath, text: &str) -> Result<(), NodeError> {
        self.burn("write", path)?;
        self.in_order(path, text);
        let answer = self.inner.write(path, text);
        self.not_refused(path, text, &answer);
        answer
    }

    fn list(&self, dir: &NodePath) -> Result<Vec<String>, NodeError> {
        self.inner.list(dir)
    }

    fn exists(&self, path: &NodePath) -> bool {
        self.inner.exists(path)
    }

    fn make_dir(&self, dir: &NodePath) -> Result<(), NodeError> {
        self.burn("make", dir)?;
        self.inner.make_dir(dir)
    }

    fn remove_dir(&self, dir: &NodePath) -> Result<(), NodeError> {
        self.burn("remove", dir)?;
        self.inner.remove_dir(dir)
    }
}

/// A simulated device with one knob, held.
pub struct Bench {
    pub twin: Twin,
    pub knob: Box<dyn Knob>,
    pub saved: Vec<RestoreStep>,
    refuses: bool,
    clamped: bool,
    offline: bool,
}

impl Bench {
    pub fn new(family: &Family) -> Self {
        let profile = family.profile();
        let twin = Twin::new(&profile, 1).unwrap_or_else(|e| panic!("{}: {e}", family.name));
        be_at_home(&twin);
        let nodes = twin.device().nodes;
        let knob = open(&profile.knobs[0], &*nodes).unwrap_or_else(|e| panic!("{}: {e}", family.name));
        let saved = knob.snapshot(&*nodes).unwrap();
        Bench { twin, knob, saved, refuses: family.refuses(), clamped: false, offline: false }
    }

    pub fn step(&self, at: usize) -> Opp {
        let opps = &self.knob.info().opps;
        opps[at % opps.len()]
    }

    pub fn restore(&self, nodes: &dyn Nodes) -> RestoreReport {
        let clock = self.twin.device().clock;
        put_back(&self.saved, Place { nodes, properties: &NoProperties, clock: &*clock })
    }

    /// The device's nodes, watched.
    pub fn watch<'a>(&self, nodes: &'a dyn Nodes) -> Watched<'a> {
        Watched::new(nodes, self.refuses)
    }

    /// Not every event exists on every device; those that do not are refused by the twin.
    pub fn happen(&mut self, event: &Event, nodes: &Watched) {
        let (clock, twin) = (self.twin.device().clock, self.twin.clone());
        match event {
            Event::Pin(at) => {
                let wanted = self.step(*at);
                if let Ok(got) = self.knob.pin(nodes, wanted) {
                    assert_eq!(got, wanted);
                    assert_eq!(self.knob.glimpse(nodes).range, Some((wanted, wanted)));
                }
            }
            Event::PinBroken(at, access) => self.pin_with(*at, nodes, Fuse::Breaks(*access)),
            Event::PinCut(at, access) => self.pin_with(*at, nodes, Fuse::Cut(*access)),
            Event::Clamp(at) => {
                let clamp = at.map_or("unclamp knob".into(), |at| format!("clamp knob {}", self.step(at).0));
                let _ = twin.control(&clamp);
                self.clamped = at.is_some();
                self.disturb(nodes);
            }
            Event::Deaf(deaf) => {
                let _ = twin.control(if *deaf { "deaf knob" } else { "hear knob" });
            }
            Event::Meddled => {
                if twin.control("fight knob 5").is_ok() {
                    clock.sleep(Duration::from_millis(6));
                    twin.control("calm").unwrap();
                }
            }
            Event::Online(online) => {
                let word = if *online { "online" } else { "offline" };
                for cpu in [4, 5] {
                    let _ = twin.control(&format!("{word} {cpu}"));
                }
                self.offline = !online;
                self.disturb(nodes);
            }
            Event::Restore => drop(self.restore(nodes)),
            Event::RestoreBroken(access) => {
                // Goes on through the failure, so that its first round may ask for a minimum above the maximum.
                let other = Watched::new(nodes.inner, false);
                drop(other.with(Fuse::Breaks(*access), || self.restore(&other)));
            }
            Event::RestoreCut(access) => drop(nodes.cut(*access, || self.restore(nodes))),
        }
    }

    fn pin_with(&mut self, at: usize, nodes: &Watched, fuse: Fuse) {
        let wanted = self.step(at);
        // Whether it worked is seen by what follows.
        let _ = nodes.with(fuse, || self.knob.pin(nodes, wanted));
    }

    /// A driver that is clamped or offline may refuse for other reasons than the order of writes.
    fn disturb(&self, nodes: &Watched) {
        *nodes.strict.lock().unwrap() = self.refuses && !self.clamped && !self.offline;
    }

    /// Nothing interferes any more.
    pub fn calm(&mut self, nodes: &Watched) {
        for event in [Event::Clamp(None), Event::Deaf(false), Event::Online(true)] {
            self.happen(&event, nodes);
        }
        self.twin.device().clock.sleep(Duration::from_millis(50));
    }
}

/// Where this process is before anybody moves it, on devices with cgroups.
pub fn be_at_home(twin: &Twin) {
    for root in ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"] {
        let _ = twin.write(&format!("{root}/cgroup.procs"), &std::process::id().to_string());
    }
}

/// Every writable node of a device, as it reads.
pub fn writable(twin: &Twin) -> BTreeMap<String, Result<String, i32>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![String::new()];
    while let Some(dir) = dirs.pop() {
        let shown = if dir.is_empty() { "/" } else { &dir };
        for path in twin.list(shown).unwrap().iter().map(|name| format!("{dir}/{name}")) {
            match twin.entry(&path) {
                Some(Entry::File(mode)) if mode & 0o222 != 0 && path != CONTROL => {
                    found.insert(path.clone(), twin.read(&path));
                }
                Some(Entry::Directory) => dirs.push(path),
                _ => {}
            }
        }
    }
    found
}
