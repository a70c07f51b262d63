//! Carrying out restoring writes: best effort through failures, verified value by value.

use super::{Check, RestoreStep, Target};
use crate::clock::Clock;
use crate::protocol::RestoreReport;
use crate::sysfs::{NodeError, NodePath, Nodes, Properties, read_trimmed};
use std::time::Duration;

/// How often and how long apart a value is re-read before it counts as different: drivers and services apply
/// some changes late (devlib polls as long).
const LOOKS: usize = 10;
const PAUSE: Duration = Duration::from_millis(10);
/// How often the writes of an owner are carried out: a daemon that wrote in between loses the second time.
const ROUNDS: usize = 2;

const WAKE_LOCK: &str = "/sys/power/wake_lock";
const WAKE_UNLOCK: &str = "/sys/power/wake_unlock";

/// The device that is put back.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// Its node files.
    pub nodes: &'a dyn Nodes,
    /// Its properties.
    pub properties: &'a dyn Properties,
    /// Its clock.
    pub clock: &'a dyn Clock,
}

/// Carries out `steps`: owners in reverse order of their appearance, the steps of an owner in order. Goes on
/// through failures; what differs in the end is in the report.
pub fn put_back(steps: &[RestoreStep], place: Place) -> RestoreReport {
    let start = place.clock.now();
    let mut report = RestoreReport::default();
    for owner in owners(steps).into_iter().rev() {
        let own: Vec<&RestoreStep> = steps.iter().filter(|step| step.owner == owner).collect();
        let (restored, differs) = put_back_owner(&own, place);
        report.restored += restored;
        report.differs.extend(differs);
    }
    report.took_ms = place.clock.now().since(start).as_millis() as u64;
    report
}

fn owners(steps: &[RestoreStep]) -> Vec<&str> {
    let mut owners: Vec<&str> = Vec::new();
    for step in steps {
        if !owners.contains(&step.owner.as_str()) {
            owners.push(&step.owner);
        }
    }
    owners
}

type Written<'a> = (&'a RestoreStep, Result<(), NodeError>);

/// Number of values that are back, and what differs. Of several writes to the same target only the last one
/// decides; those before it open a range.
fn put_back_owner(steps: &[&RestoreStep], place: Place) -> (usize, Vec<String>) {
    let decides = |at: usize| !steps[at + 1..].iter().any(|later| later.target == steps[at].target);
    let mut outcome = (0, Vec::new());
    for _ in 0..ROUNDS {
        let written: Vec<Written> = steps.iter().map(|step| (*step, write(step, place))).collect();
        let decisive: Vec<Written> =
            written.into_iter().enumerate().filter(|(at, _)| decides(*at)).map(|(_, step)| step).collect();
        let differs = settle(&decisive, place);
        outcome = (decisive.len() - differs.len(), differs);
        if outcome.1.is_empty() {
            break;
        }
    }
    outcome
}

/// Looks until nothing differs, or often enough.
fn settle(steps: &[Written], place: Place) -> Vec<String> {
    let look = || steps.iter().filter_map(|(step, written)| difference(step, written, place)).collect();
    let mut differs: Vec<String> = look();
    for _ in 0..LOOKS {
        if differs.is_empty() {
            break;
        }
        place.clock.sleep(PAUSE);
        differs = look();
    }
    differs
}

fn write(step: &RestoreStep, place: Place) -> Result<(), NodeError> {
    match &step.target {
        Target::Node(path) => place.nodes.write(path, &step.write),
        Target::Property(name) => place.properties.set(name, &step.write),
        Target::Cgroup { dir, home } => empty(dir, home, place.nodes),
        Target::Wakelock(name) => place.nodes.write(&NodePath::fixed(WAKE_UNLOCK), name),
    }
}

/// Moves every process of a cgroup home. The removal is part of the look, because the kernel counts a killed
/// process as a member for a moment longer.
fn empty(dir: &NodePath, home: &NodePath, nodes: &dyn Nodes) -> Result<(), NodeError> {
    let members = nodes.read(&dir.join("cgroup.procs")).unwrap_or_default();
    members.lines().try_for_each(|id| nodes.write(&home.join("cgroup.procs"), id))
}

/// What differs, as a line for people: what, wanted, found.
fn difference(step: &RestoreStep, written: &Result<(), NodeError>, place: Place) -> Option<String> {
    let found = match (&step.target, &step.check) {
        (Target::Cgroup { dir, .. }, _) => return place.nodes.remove_dir(dir).err().map(|e| e.to_string()),
        (Target::Wakelock(name), _) => return still_held(name, place.nodes),
        (_, Check::Nothing) => return written.as_ref().err().map(|e| e.to_string()),
        (Target::Node(path), _) => read_trimmed(place.nodes, path),
        (Target::Property(name), _) => place.properties.get(name),
    };
    match found {
        Ok(text) if step.check.holds(&text) => None,
        Ok(text) => Some(format!("{}: wanted {}, found `{text}`", step.target, step.check)),
        Err(e) => Some(format!("{}: wanted {}, but {e}", step.target, step.check)),
    }
}

fn still_held(name: &str, nodes: &dyn Nodes) -> Option<String> {
    match read_trimmed(nodes, &NodePath::fixed(WAKE_LOCK)) {
        Ok(held) if held.split_whitespace().any(|lock| lock == name) => {
            Some(format!("{WAKE_LOCK}: wakelock `{name}` is still held"))
        }
        Ok(_) => None,
        Err(e) => Some(e.to_string()),
    }
}
