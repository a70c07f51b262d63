//! A small device in memory whose nodes behave like drivers, for the unit tests of knobs, guard and companions.

use crate::profile::{DriverSpec, KnobSpec, Role, Use};
use crate::sysfs::{NodeError, NodePath, Nodes};
use crate::trial::KnobId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

/// How a pair of bounds answers a write that crosses the other bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crossing {
    /// EINVAL (kernels up to 5.2).
    Refuse,
    /// The minimum is shown lowered to the maximum, and remembered (freq QoS).
    Clip,
    /// The other bound goes back to the end of its range (Pixel Mali).
    Reset,
}

#[derive(Clone, Debug)]
enum Node {
    Text(String),
    Sentence { value: String, show: fn(&str) -> String },
    Bound { pair: usize, upper: bool },
    Level { pair: usize, fastest: bool },
}

#[derive(Clone, Debug)]
struct Pair {
    crossing: Crossing,
    hardware: (u64, u64),
    min: u64,
    max: u64,
}

#[derive(Clone, Debug)]
struct Levels {
    count: u64,
    fastest: u64,
    slowest: u64,
}

#[derive(Default)]
struct State {
    nodes: BTreeMap<String, Node>,
    pairs: Vec<Pair>,
    levels: Vec<Levels>,
    caps: BTreeMap<String, u64>,
    ignored: BTreeSet<String>,
    failing: BTreeMap<String, i32>,
    writes: Vec<(String, String)>,
    refusals: u32,
}

/// The device.
#[derive(Default)]
pub(crate) struct Fake(Mutex<State>);

/// A knob of a profile with nothing but a name and a driver.
pub(crate) fn spec(id: &str, driver: DriverSpec) -> KnobSpec {
    KnobSpec { id: KnobId(id.into()), role: Role::Cpu, usage: Use::Search, prior: Vec::new(), driver }
}

/// A cpufreq policy with two CPUs. `refuses`: as kernels up to 5.2 do.
pub(crate) fn cpufreq_policy(fake: &Fake, policy: usize, table: &str, refuses: bool) {
    let dir = format!("/sys/devices/system/cpu/cpufreq/policy{policy}");
    fake.pair(
        &format!("{dir}/scaling_min_freq"),
        &format!("{dir}/scaling_max_freq"),
        300_000,
        900_000,
        refuses,
    );
    for (name, text) in [
        ("scaling_available_frequencies", table.to_owned()),
        ("cpuinfo_min_freq", "300000\n".into()),
        ("scaling_cur_freq", "300000\n".into()),
        ("related_cpus", format!("{policy} {}\n", policy + 1)),
        ("affected_cpus", format!("{policy} {}\n", policy + 1)),
    ] {
        fake.text(&format!("{dir}/{name}"), &text);
    }
}

impl Fake {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// A node that keeps what is written to it.
    pub fn text(&self, path: &str, text: &str) {
        self.state().nodes.insert(path.into(), Node::Text(text.into()));
    }

    /// A node that keeps a value and shows a sentence about it.
    pub fn sentence(&self, path: &str, value: &str, show: fn(&str) -> String) {
        self.state().nodes.insert(path.into(), Node::Sentence { value: value.into(), show });
    }

    /// A pair of bounds that refuses (`refuses`) or clips crossing writes.
    pub fn pair(&self, min: &str, max: &str, low: u64, high: u64, refuses: bool) {
        self.bounds(min, max, (low, high), if refuses { Crossing::Refuse } else { Crossing::Clip });
    }

    /// A pair of bounds whose crossing writes reset the other bound.
    pub fn resetting_pair(&self, min: &str, max: &str, low: u64, high: u64) {
        self.bounds(min, max, (low, high), Crossing::Reset);
    }

    fn bounds(&self, min: &str, max: &str, hardware: (u64, u64), crossing: Crossing) {
        let mut state = self.state();
        let pair = state.pairs.len();
        state.pairs.push(Pair { crossing, hardware, min: hardware.0, max: hardware.1 });
        state.nodes.insert(min.into(), Node::Bound { pair, upper: false });
        state.nodes.insert(max.into(), Node::Bound { pair, upper: true });
    }

    /// A pair of kgsl power levels.
    pub fn power_levels(&self, slowest: &str, fastest: &str, count: u64) {
        let mut state = self.state();
        let pair = state.levels.len();
        state.levels.push(Levels { count, fastest: 0, slowest: count - 1 });
        state.nodes.insert(slowest.into(), Node::Level { pair, fastest: false });
        state.nodes.insert(fastest.into(), Node::Level { pair, fastest: true });
    }

    /// Somebody else caps the pair whose maximum node this is.
    pub fn cap(&self, max: &str, value: u64) {
        self.state().caps.insert(max.into(), value);
    }

    /// Writes "succeed" and do nothing.
    pub fn ignore_writes(&self, path: &str) {
        self.state().ignored.insert(path.into());
    }

    /// Writes fail with `errno`; 0 lets them through again.
    pub fn fail_writes(&self, path: &str, errno: i32) {
        self.state().failing.insert(path.into(), errno);
    }

    /// What was written to a node last.
    pub fn last_write(&self, path: &str) -> String {
        let state = self.state();
        let last = state.writes.iter().rfind(|(written, _)| written == path);
        last.map(|(_, text)| text.clone()).unwrap_or_default()
    }

    /// Every node written to, in order.
    pub fn order(&self) -> Vec<String> {
        self.state().writes.iter().map(|(path, _)| path.clone()).collect()
    }

    /// The text of every node.
    pub fn everything(&self) -> BTreeMap<String, String> {
        let paths: Vec<String> = self.state().nodes.keys().cloned().collect();
        paths.into_iter().map(|p| (p.clone(), self.read(&NodePath::new(p).unwrap()).unwrap())).collect()
    }

    /// How many writes were refused because they crossed.
    pub fn refusals(&self) -> u32 {
        self.state().refusals
    }
}

impl State {
    fn shown(&self, pair: usize, upper: bool) -> u64 {
        let bounds = &self.pairs[pair];
        let is_max = |node: &Node| matches!(node, Node::Bound { pair: p, upper: true } if *p == pair);
        let name = self.nodes.iter().find(|(_, node)| is_max(node)).map(|(name, _)| name.as_str());
        let cap = name.and_then(|name| self.caps.get(name)).copied().unwrap_or(u64::MAX);
        // A Pixel lock shows itself only; everywhere else clamps are merged in.
        let max = if bounds.crossing == Crossing::Reset { bounds.max } else { bounds.max.min(cap) };
        if upper { max } else { bounds.min.min(max) }
    }

    fn set_bound(&mut self, pair: usize, upper: bool, value: u64) -> Result<(), i32> {
        let bounds = &mut self.pairs[pair];
        let crosses = if upper { value < bounds.min } else { value > bounds.max };
        match (bounds.crossing, crosses, upper) {
            (Crossing::Refuse, true, _) => {
                self.refusals += 1;
                return Err(libc::EINVAL);
            }
            (Crossing::Reset, true, true) => bounds.min = bounds.hardware.0,
            (Crossing::Reset, true, false) => bounds.max = bounds.hardware.1,
            _ => {}
        }
        *(if upper { &mut bounds.max } else { &mut bounds.min }) = value;
        Ok(())
    }

    fn set_level(&mut self, pair: usize, fastest: bool, value: u64) {
        let levels = &mut self.levels[pair];
        match fastest {
            true => levels.fastest = value.min(levels.slowest),
            false => levels.slowest = value.min(levels.count - 1).max(levels.fastest),
        }
    }
}

fn number(text: &str) -> Result<u64, i32> {
    text.trim().parse().map_err(|_| libc::EINVAL)
}

impl Nodes for Fake {
    fn read(&self, path: &NodePath) -> Result<String, NodeError> {
        let state = self.state();
        Ok(match state.nodes.get(path.as_str()) {
            None => return Err(NodeError::from_errno("read", path, libc::ENOENT)),
            Some(Node::Text(text)) => text.clone(),
            Some(Node::Sentence { value, show }) => show(value),
            Some(Node::Bound { pair, upper }) => format!("{}\n", state.shown(*pair, *upper)),
            Some(Node::Level { pair, fastest: true }) => format!("{}\n", state.levels[*pair].fastest),
            Some(Node::Level { pair, fastest: false }) => format!("{}\n", state.levels[*pair].slowest),
        })
    }

    fn write(&self, path: &NodePath, text: &str) -> Result<(), NodeError> {
        let mut state = self.state();
        let fail = |errno| Err(NodeError::from_errno("write", path, errno));
        match state.failing.get(path.as_str()) {
            Some(&errno) if errno != 0 => return fail(errno),
            _ => {}
        }
        state.writes.push((path.as_str().into(), text.into()));
        if state.ignored.contains(path.as_str()) {
            return Ok(());
        }
        let done = match state.nodes.get_mut(path.as_str()) {
            None => Err(libc::ENOENT),
            Some(Node::Text(kept)) => {
                *kept = text.into();
                Ok(())
            }
            Some(Node::Sentence { value, .. }) => {
                *value = text.into();
                Ok(())
            }
            Some(&mut Node::Bound { pair, upper }) => {
                number(text).and_then(|value| state.set_bound(pair, upper, value))
            }
            Some(&mut Node::Level { pair, fastest }) => {
                number(text).map(|value| state.set_level(pair, fastest, value))
            }
        };
        done.or_else(fail)
    }

    fn list(&self, dir: &NodePath) -> Result<Vec<String>, NodeError> {
        let prefix = format!("{}/", dir.as_str().trim_end_matches('/'));
        let state = self.state();
        let below = state.nodes.keys().filter_map(|path| path.strip_prefix(&prefix)?.split('/').next());
        let names: BTreeSet<String> = below.map(str::to_owned).collect();
        match names.is_empty() {
            true => Err(NodeError::from_errno("list", dir, libc::ENOENT)),
            false => Ok(names.into_iter().collect()),
        }
    }

    fn exists(&self, path: &NodePath) -> bool {
        self.state().nodes.contains_key(path.as_str()) || self.list(path).is_ok()
    }

    fn make_dir(&self, _dir: &NodePath) -> Result<(), NodeError> {
        Ok(())
    }

    fn remove_dir(&self, dir: &NodePath) -> Result<(), NodeError> {
        let prefix = format!("{dir}/");
        self.state().nodes.retain(|path, _| !path.starts_with(&prefix));
        Ok(())
    }
}
