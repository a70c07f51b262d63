//! Test doubles of the machine below the agent.

use crate::clock::{Clock, Ticker};
use crate::sysfs::{NodeError, NodePath, Nodes};
use crate::units::BootNanos;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Node files in a map. What is not there answers ENOENT; `!22` answers errno 22.
#[derive(Default)]
pub struct MapNodes(Mutex<BTreeMap<String, String>>);

impl MapNodes {
    pub fn new(files: &[(&str, &str)]) -> Self {
        let nodes = MapNodes::default();
        files.iter().for_each(|(path, text)| nodes.set(path, text));
        nodes
    }

    pub fn set(&self, path: &str, text: &str) {
        self.0.lock().unwrap().insert(path.into(), text.into());
    }
}

fn answer(op: &str, path: &NodePath, text: Option<String>) -> Result<String, NodeError> {
    let text = text.ok_or_else(|| NodeError::from_errno(op, path, libc::ENOENT))?;
    match text.strip_prefix('!').and_then(|errno| errno.parse().ok()) {
        Some(errno) => Err(NodeError::from_errno(op, path, errno)),
        None => Ok(text),
    }
}

impl Nodes for MapNodes {
    fn read(&self, path: &NodePath) -> Result<String, NodeError> {
        answer("read", path, self.0.lock().unwrap().get(path.as_str()).cloned())
    }

    fn write(&self, path: &NodePath, text: &str) -> Result<(), NodeError> {
        let mut files = self.0.lock().unwrap();
        answer("write", path, files.get(path.as_str()).cloned())?;
        files.insert(path.to_string(), format!("{text}\n"));
        Ok(())
    }

    fn list(&self, dir: &NodePath) -> Result<Vec<String>, NodeError> {
        let below = format!("{}/", dir.as_str().trim_end_matches('/'));
        let files = self.0.lock().unwrap();
        let mut names: Vec<String> = files
            .keys()
            .filter_map(|path| Some(path.strip_prefix(&below)?.split('/').next()?.to_owned()))
            .collect();
        names.dedup();
        if names.is_empty() { Err(NodeError::from_errno("list", dir, libc::ENOENT)) } else { Ok(names) }
    }

    fn exists(&self, path: &NodePath) -> bool {
        self.read(path).is_ok() || self.list(path).is_ok()
    }

    fn make_dir(&self, dir: &NodePath) -> Result<(), NodeError> {
        Err(NodeError::from_errno("make", dir, libc::EPERM))
    }

    fn remove_dir(&self, dir: &NodePath) -> Result<(), NodeError> {
        Err(NodeError::from_errno("remove", dir, libc::EPERM))
    }
}

type Tick = Box<dyn FnMut() + Send>;

struct Periodic {
    id: u64,
    period: u64,
    due: u64,
    tick: Arc<Mutex<Tick>>,
}

#[derive(Default)]
struct Steps {
    now: u64,
    ids: u64,
    ticks: Vec<Periodic>,
}

/// Time that passes only when somebody sleeps.
#[derive(Clone, Default)]
pub struct StepClock(Arc<Mutex<Steps>>);

impl StepClock {
    fn due_before(&self, end: u64) -> Option<Arc<Mutex<Tick>>> {
        let mut steps = self.0.lock().unwrap();
        let next = steps.ticks.iter_mut().filter(|t| t.due <= end).min_by_key(|t| t.due)?;
        let (due, tick) = (next.due, next.tick.clone());
        next.due += next.period;
        steps.now = due;
        Some(tick)
    }
}

impl Clock for StepClock {
    fn now(&self) -> BootNanos {
        BootNanos(self.0.lock().unwrap().now)
    }

    fn sleep(&self, span: Duration) {
        let end = self.now().plus(span).0;
        while let Some(tick) = self.due_before(end) {
            (*tick.lock().unwrap())();
        }
        self.0.lock().unwrap().now = end;
    }

    fn every(&self, period: Duration, tick: Tick) -> Ticker {
        let mut steps = self.0.lock().unwrap();
        let (id, period) = (steps.ids, period.as_nanos() as u64);
        steps.ids += 1;
        let due = steps.now + period;
        steps.ticks.push(Periodic { id, period, due, tick: Arc::new(Mutex::new(tick)) });
        let steps = self.0.clone();
        Ticker::new(move || steps.lock().unwrap().ticks.retain(|t| t.id != id))
    }
}
