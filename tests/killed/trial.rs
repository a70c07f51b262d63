//! One trial: a sweep, something that ends at a random instant, and whether the device comes back.

use crate::device::{Device, Sweep, signal};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

/// Longest wait for anything that must happen.
const DEADLINE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(3);
/// Between two looks at who runs; each walks /proc.
const CENSUS: Duration = Duration::from_millis(20);

/// From the start of an agent to what it does first with the device.
const NEXT: Duration = Duration::from_millis(60);

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Agent,
    Host,
    Both,
    AgentAndNext,
    RestorerThenAgent,
    Link,
    Frozen,
}

impl Event {
    pub const ALL: [Event; 7] = [
        Event::Agent,
        Event::Host,
        Event::Both,
        Event::AgentAndNext,
        Event::RestorerThenAgent,
        Event::Link,
        Event::Frozen,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Event::Agent => "kill -9 agent",
            Event::Host => "kill -9 host",
            Event::Both => "kill -9 host and agent",
            Event::AgentAndNext => "agent and the next one",
            Event::RestorerThenAgent => "restorer, then agent",
            Event::Link => "link closed",
            Event::Frozen => "agent frozen",
        }
    }
}

/// The part of a session in which it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// From the start of the agent: lock, restorer.
    Open,
    /// From the first original that is saved: companions.
    Companions,
    /// From the first node that is pinned.
    Pin,
    /// From the first measurement: runs, pins, releases.
    Run,
    /// From the host's order to put everything back.
    Release,
}

impl Moment {
    pub const ALL: [Moment; 5] =
        [Moment::Open, Moment::Companions, Moment::Pin, Moment::Run, Moment::Release];

    /// How long it lasts, roughly: the instant is random within it.
    fn length(self) -> Duration {
        Duration::from_millis(match self {
            Moment::Open => 150,
            Moment::Companions | Moment::Pin => 50,
            Moment::Run => 400,
            Moment::Release => 25,
        })
    }
}

/// Number of ways in which a device that nobody was left to restore is restored.
pub const WAYS: u8 = 3;

#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub event: Event,
    pub moment: Moment,
    /// Share of the moment that has passed when it happens.
    pub delay: f64,
    /// Of [`WAYS`].
    pub way: u8,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How long the originals took to be back; `None`: none were owed.
    pub took: Option<Duration>,
    /// What is wrong.
    pub lost: Option<String>,
}

pub fn run(device: &mut Device, plan: &Plan, number: u64) -> Outcome {
    let mut sweep = device.sweep(number, plan.event == Event::Link);
    let judged = reach(device, &mut sweep, plan.moment).and_then(|()| {
        std::thread::sleep(plan.moment.length().mul_f64(plan.delay));
        let owed = device.owed();
        let start = Instant::now();
        happen(device, &mut sweep, *plan)?;
        match plan.event {
            Event::RestorerThenAgent => nobody_left(device, plan.way, number),
            event => comes_back(device, event, start).map(|took| owed.then_some(took)),
        }
    });
    drop(sweep);
    let cleared = clear(device);
    let differs = device.difference();
    let judged = judged.and_then(|took| cleared.map(|()| took)).and_then(|took| match differs.is_empty() {
        true => Ok(took),
        false => Err(format!("differs: {}", differs.join("; "))),
    });
    match judged {
        Ok(took) => Outcome { took, lost: None },
        Err(why) => {
            Outcome { took: None, lost: Some(format!("trial {number}, {plan:?}: {why}\n{}", device.log())) }
        }
    }
}

fn wait(what: &str, pause: Duration, mut holds: impl FnMut() -> bool) -> Result<Duration, String> {
    let start = Instant::now();
    while !holds() {
        if start.elapsed() > DEADLINE {
            return Err(format!("{what}: not within {DEADLINE:?}"));
        }
        std::thread::sleep(pause);
    }
    Ok(start.elapsed())
}

/// Waits until the moment begins.
fn reach(device: &Device, sweep: &mut Sweep, moment: Moment) -> Result<(), String> {
    let begun = |device: &Device, sweep: &Sweep| match moment {
        Moment::Open => !device.agents().is_empty(),
        Moment::Companions => device.owed(),
        Moment::Pin => device.pinned(),
        Moment::Run | Moment::Release => sweep.event("finished").is_some(),
    };
    let mut early = false;
    wait(&format!("{moment:?}"), LOOK, || {
        early = sweep.ended();
        early || begun(device, sweep)
    })?;
    if early {
        return Err("the sweep ended before anything happened".into());
    }
    if moment == Moment::Release {
        signal(&[sweep.host()], Signal::SIGINT);
    }
    Ok(())
}

fn happen(device: &Device, sweep: &mut Sweep, Plan { event, delay, .. }: Plan) -> Result<(), String> {
    let host = [sweep.host()];
    match event {
        Event::Agent => signal(&device.agents(), Signal::SIGKILL),
        Event::Host => signal(&host, Signal::SIGKILL),
        Event::Both => {
            let agents = device.agents();
            signal(&host, Signal::SIGKILL);
            signal(&agents, Signal::SIGKILL);
        }
        Event::AgentAndNext => {
            let first = device.agents();
            signal(&first, Signal::SIGKILL);
            // The host starts another one, which begins by restoring.
            let next = || device.agents().into_iter().find(|pid| !first.contains(pid));
            wait("the host starts another agent or ends", LOOK, || next().is_some() || sweep.ended())?;
            std::thread::sleep(NEXT.mul_f64(delay));
            signal(&next().into_iter().collect::<Vec<_>>(), Signal::SIGKILL);
        }
        Event::RestorerThenAgent => {
            let agents = device.agents();
            signal(&device.restorers(), Signal::SIGKILL);
            signal(&agents, Signal::SIGKILL);
        }
        Event::Link => {
            wait("the link is up", LOOK, || device.link().is_some())?;
            signal(&device.link().into_iter().collect::<Vec<_>>(), Signal::SIGKILL);
        }
        Event::Frozen => signal(&device.agents(), Signal::SIGSTOP),
    }
    // A host that lives takes the device again at once. What restores is to be the device's own doing.
    signal(&host, Signal::SIGSTOP);
    Ok(())
}

/// The device puts itself back: nothing is owed, and nobody is left who could change it. Until nothing was owed.
/// An agent that was frozen before it had a restorer has changed nothing and stays.
fn comes_back(device: &Device, event: Event, start: Instant) -> Result<Duration, String> {
    let mut back = None;
    wait("nothing is owed and nobody is left", LOOK, || {
        if device.owed() {
            back = None;
            return false;
        }
        back.get_or_insert_with(|| start.elapsed());
        std::thread::sleep(CENSUS);
        let agents = event != Event::Frozen && !device.agents().is_empty();
        !agents && device.restorers().is_empty() && !device.owed()
    })?;
    Ok(back.unwrap_or_default())
}

/// Nobody is left to restore the device, unless the agent had replaced its restorer. The next one who comes finds out.
fn nobody_left(device: &Device, way: u8, number: u64) -> Result<Option<Duration>, String> {
    wait("agent and restorer are gone", CENSUS, || {
        device.agents().is_empty() && device.restorers().is_empty()
    })?;
    if !device.owed() {
        return Ok(None);
    }
    let start = Instant::now();
    match way {
        0 => said(device.agent().arg("restore"), "value(s) put back")?,
        1 => said(&mut device.restore_by_host(), "values verified")?,
        _ => next_start(device, number)?,
    }
    Ok(Some(start.elapsed()))
}

fn said(command: &mut std::process::Command, what: &str) -> Result<(), String> {
    let output = command.output().map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let fine = output.status.success() && text.contains(what) && !text.contains(" 0 value");
    match fine {
        true => Ok(()),
        false => Err(format!("{command:?} said {text:?} {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Another sweep: its agent must restore before it saves anything.
fn next_start(device: &Device, number: u64) -> Result<(), String> {
    let mut sweep = device.sweep(number + 1_000_000, false);
    wait("the next sweep takes the device", LOOK, || sweep.event("opened").is_some())?;
    let opened = sweep.event("opened").unwrap_or_default();
    let first = &opened["opened"]["restored_first"];
    let restored = first["restored"].as_u64().unwrap_or(0);
    sweep.interrupt();
    match restored > 0 && first["differs"].as_array().is_some_and(Vec::is_empty) {
        true => Ok(()),
        false => Err(format!("the next agent did not restore first: {first}")),
    }
}

/// The host is gone. Agents end by themselves; one that was frozen before anything guarded it is ended here.
fn clear(device: &Device) -> Result<(), String> {
    if device.restorers().is_empty() {
        signal(&device.agents(), Signal::SIGKILL);
    }
    wait("everybody is gone", CENSUS, || device.agents().is_empty() && device.restorers().is_empty())?;
    match device.owed() {
        false => Ok(()),
        true => {
            // Told as a fault, but not left to the next trial.
            let put_back = said(device.agent().arg("restore"), "put back");
            Err(format!("originals were still owed when everybody was gone (by hand: {put_back:?})"))
        }
    }
}
