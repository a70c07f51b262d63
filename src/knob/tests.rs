//! Every family against the twin's drivers: whatever is pinned, clamped, rewritten, refused and restored in
//! whatever order, in the end every node is what it was.

use super::*;
use crate::guard::{Place, put_back};
use crate::profile::Profile;
use crate::sysfs::NoProperties;
use crate::twin::{CONTROL, Entry, Twin};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// A family and the quirks it is tried with.
struct Family {
    name: &'static str,
    driver: &'static str,
    domain: &'static str,
}

/// Driver and domain of a simulated device with one knob.
const FAMILIES: &[Family] = &[
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
enum Event {
    /// Pinned at this share of the table.
    Pin(usize),
    /// Pinned, but the access with this number fails.
    PinBroken(usize, usize),
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
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..4_usize).prop_map(Event::Pin),
        2 => (0..4_usize, 0..8_usize).prop_map(|(at, access)| Event::PinBroken(at, access)),
        2 => proptest::option::of(0..4_usize).prop_map(Event::Clamp),
        1 => any::<bool>().prop_map(Event::Deaf),
        1 => Just(Event::Meddled),
        1 => any::<bool>().prop_map(Event::Online),
        2 => Just(Event::Restore),
    ]
}

/// Nodes of which one access can be made to fail, and which see every write.
struct Watched<'a> {
    inner: &'a dyn Nodes,
    /// Accesses until one fails.
    fuse: Mutex<Option<usize>>,
    /// Number last written to each node.
    numbers: Mutex<BTreeMap<String, u64>>,
}

impl<'a> Watched<'a> {
    fn new(inner: &'a dyn Nodes) -> Self {
        Watched { inner, fuse: Mutex::new(None), numbers: Mutex::default() }
    }

    fn burn(&self, op: &str, path: &NodePath) -> Result<(), NodeError> {
        let mut fuse = self.fuse.lock().unwrap();
        let blown = *fuse == Some(0);
        *fuse = fuse.and_then(|left| left.checked_sub(1));
        if blown { Err(NodeError::from_errno(op, path, libc::EIO)) } else { Ok(()) }
    }

    /// No write ever asks for a minimum above the maximum that was asked for, or the reverse.
    fn in_order(&self, path: &NodePath, text: &str) {
        let Ok(value) = text.parse::<u64>() else { return };
        let path = path.to_string();
        let mut numbers = self.numbers.lock().unwrap();
        let lower = ["min_freq", "devfreq_min", "min_clock"].iter().any(|name| path.contains(name));
        let upper = ["max_freq", "devfreq_max", "max_clock"].iter().any(|name| path.contains(name));
        // 0 frees a lock: for a maximum that is no bound.
        let value = if upper && value == 0 { u64::MAX } else { value };
        let other = if lower { path.replace("min", "max") } else { path.replace("max", "min") };
        match numbers.get(&other) {
            Some(&max) if lower => assert!(value <= max, "{path}: {value} is above {max}"),
            Some(&min) if upper => assert!(value >= min, "{path}: {value} is below {min}"),
            _ => {}
        }
        numbers.insert(path, value);
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
        self.inner.write(path, text)
    }

    fn list(&self, dir: &NodePath) -> Result<Vec<String>, NodeError> {
        self.inner.list(dir)
    }

    fn exists(&self, path: &NodePath) -> bool {
        self.inner.exists(path)
    }

    fn make_dir(&self, dir: &NodePath) -> Result<(), NodeError> {
        self.inner.make_dir(dir)
    }

    fn remove_dir(&self, dir: &NodePath) -> Result<(), NodeError> {
        self.inner.remove_dir(dir)
    }
}

/// A simulated device with one knob, held.
struct Bench {
    twin: Twin,
    knob: Box<dyn Knob>,
    saved: Vec<RestoreStep>,
}

impl Bench {
    fn new(family: &Family) -> Self {
        let profile = family.profile();
        let twin = Twin::new(&profile, 1).unwrap_or_else(|e| panic!("{}: {e}", family.name));
        for root in ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"] {
            // Where this process is before anybody moves it, on devices with cgroups.
            let _ = twin.write(&format!("{root}/cgroup.procs"), &std::process::id().to_string());
        }
        let nodes = twin.device().nodes;
        let knob = open(&profile.knobs[0], &*nodes).unwrap_or_else(|e| panic!("{}: {e}", family.name));
        let saved = knob.snapshot(&*nodes).unwrap();
        Bench { twin, knob, saved }
    }

    fn step(&self, at: usize) -> Opp {
        let opps = &self.knob.info().opps;
        opps[at % opps.len()]
    }

    fn restore(&self, nodes: &dyn Nodes) -> crate::protocol::RestoreReport {
        let clock = self.twin.device().clock;
        put_back(&self.saved, Place { nodes, properties: &NoProperties, clock: &*clock })
    }

    /// Not every event exists on every device; those that do not are refused by the twin.
    fn happen(&mut self, event: &Event, nodes: &Watched) {
        let (clock, twin) = (self.twin.device().clock, self.twin.clone());
        match event {
            Event::Pin(at) => {
                let wanted = self.step(*at);
                if let Ok(got) = self.knob.pin(nodes, wanted) {
                    assert_eq!(got, wanted);
                    assert_eq!(self.knob.glimpse(nodes).range, Some((wanted, wanted)));
                }
            }
            Event::PinBroken(at, access) => {
                *nodes.fuse.lock().unwrap() = Some(*access);
                let _ = self.knob.pin(nodes, self.step(*at));
                *nodes.fuse.lock().unwrap() = None;
            }
            Event::Clamp(at) => {
                let clamp = at.map_or("unclamp knob".into(), |at| format!("clamp knob {}", self.step(at).0));
                let _ = twin.control(&clamp);
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
            }
            Event::Restore => drop(self.restore(nodes)),
        }
    }

    /// Nothing interferes any more.
    fn calm(&mut self, nodes: &Watched) {
        for event in [Event::Clamp(None), Event::Deaf(false), Event::Online(true)] {
            self.happen(&event, nodes);
        }
        self.twin.device().clock.sleep(Duration::from_millis(50));
    }

    /// Every writable node of the device, as it reads.
    fn nodes(&self) -> BTreeMap<String, Result<String, i32>> {
        let mut found = BTreeMap::new();
        let mut dirs = vec![String::new()];
        while let Some(dir) = dirs.pop() {
            let shown = if dir.is_empty() { "/" } else { &dir };
            for path in self.twin.list(shown).unwrap().iter().map(|name| format!("{dir}/{name}")) {
                match self.twin.entry(&path) {
                    Some(Entry::File(mode)) if mode & 0o222 != 0 && path != CONTROL => {
                        found.insert(path.clone(), self.twin.read(&path));
                    }
                    Some(Entry::Directory) => dirs.push(path),
                    _ => {}
                }
            }
        }
        found
    }
}

#[test]
fn every_family_pins_every_operating_point_and_comes_back() {
    for family in FAMILIES {
        let mut bench = Bench::new(family);
        let (before, device) = (bench.nodes(), bench.twin.device());
        let opps = bench.knob.info().opps.clone();
        let downwards = opps.iter().rev();
        for &opp in opps.iter().chain(downwards).chain([&opps[0], &opps[opps.len() - 1]]) {
            let got = bench.knob.pin(&*device.nodes, opp);
            assert_eq!(got.unwrap_or_else(|e| panic!("{}: {e}", family.name)), opp, "{}", family.name);
            device.clock.sleep(Duration::from_millis(50));
            let seen = bench.knob.glimpse(&*device.nodes);
            assert_eq!(seen.range, Some((opp, opp)), "{}", family.name);
            assert!(seen.clock.is_none_or(|clock| clock == opp), "{}: {seen:?} at {opp:?}", family.name);
        }
        let report = bench.restore(&*device.nodes);
        assert!(report.complete() && report.restored > 0, "{}: {report:?}", family.name);
        assert_eq!(bench.nodes(), before, "{}", family.name);
    }
}

#[test]
fn a_clamp_is_seen_wherever_a_family_can_tell() {
    // These have no node that tells of a foreign limit; the clock itself does, or nothing. The simulated gpex
    // shows its own lock only.
    const BLIND: &[&str] = &["gpufreq-v1", "gpex", "mif", "bus-dcvs", "cpu-quota, v1", "cpu-quota, v2"];
    for family in FAMILIES.iter().filter(|family| !BLIND.contains(&family.name)) {
        let mut bench = Bench::new(family);
        let device = bench.twin.device();
        let (low, top) = (bench.step(0), *bench.knob.info().opps.last().unwrap());
        bench.twin.control(&format!("clamp knob {}", low.0)).unwrap();
        let pinned = bench.knob.pin(&*device.nodes, top);
        device.clock.sleep(Duration::from_millis(50));
        let limits = bench.knob.glimpse(&*device.nodes).limits;
        let told = limits.iter().any(|limit| limit.max.is_some_and(|max| max < top));
        assert!(told, "{}: {limits:?}, pin gave {pinned:?}", family.name);
        bench.twin.control("unclamp knob").unwrap();
        assert!(bench.restore(&*device.nodes).complete(), "{}", family.name);
    }
}

#[test]
fn a_write_that_does_nothing_is_never_taken_for_a_pin() {
    for family in FAMILIES.iter().filter(|family| !family.name.starts_with("cpu-quota")) {
        let mut bench = Bench::new(family);
        let device = bench.twin.device();
        bench.twin.control("deaf knob").unwrap();
        let middle = bench.step(1);
        let answer = bench.knob.pin(&*device.nodes, middle);
        assert!(matches!(answer, Err(KnobError::DidNotStick { .. })), "{}: {answer:?}", family.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_interleaving_leaves_a_node_different(
        family in 0..FAMILIES.len(),
        found_pinned in proptest::option::of(0..4_usize),
        events in proptest::collection::vec(event(), 1..12),
    ) {
        let family = &FAMILIES[family];
        let mut bench = Bench::new(family);
        let device = bench.twin.device();
        let nodes = Watched::new(&*device.nodes);
        if let Some(at) = found_pinned.filter(|_| !family.name.starts_with("cpu-quota")) {
            bench.happen(&Event::Pin(at), &nodes);
            bench.saved = bench.knob.snapshot(&nodes).unwrap();
        }
        let before = bench.nodes();
        for event in &events {
            bench.happen(event, &nodes);
        }
        bench.calm(&nodes);
        let report = bench.restore(&nodes);
        prop_assert!(report.complete(), "{}: {:?}", family.name, report);
        prop_assert_eq!(bench.nodes(), before, "{}", family.name);
        prop_assert!(bench.restore(&nodes).complete(), "{}: a second time", family.name);
    }
}
