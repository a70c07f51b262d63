//! Agents, hosts, restorers and links that end at random moments of a sweep, on mounted simulated devices: the real
//! programs, real signals, every driver family. After each trial every node of the device must be at its original.
//!
//! OPPTUNE_KILL_TRIALS sets how many trials, OPPTUNE_KILL_SEED which random moments. The table is printed always.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod device;
#[allow(dead_code)] // other tests use the rest
#[path = "../support/mod.rs"]
mod support;
mod trial;

use device::Device;
use rand::RngExt;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use support::TWINS;
use trial::{Event, Moment, Outcome, Plan};

const TRIALS: u64 = 200;
const SEED: u64 = 20_260;
/// Devices that live at the same time. Most of a trial is waiting.
const AT_ONCE: usize = 4;

fn number_in(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap())
}

/// Events and moments take turns, so that each pair has its share; the instant is random. A trial depends on the seed
/// and its number alone, not on which thread comes to it.
fn plan(seed: u64, number: u64) -> Plan {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(number);
    let (events, moments) = (Event::ALL.len() as u64, Moment::ALL.len() as u64);
    Plan {
        event: Event::ALL[(number % events) as usize],
        moment: Moment::ALL[(number / events % moments) as usize],
        delay: random.random_range(0.0..1.0),
        way: random.random_range(0..trial::WAYS),
    }
}

/// Runs the trials, each device those whose turn it is.
fn run(seed: u64, trials: u64) -> Vec<(Plan, Outcome)> {
    let (next, outcomes) = (Mutex::new(0), Mutex::new(Vec::new()));
    let take = || {
        let mut next = next.lock().unwrap();
        *next += 1;
        (*next <= trials).then(|| *next - 1)
    };
    std::thread::scope(|scope| {
        for thread in 0..AT_ONCE {
            let (take, outcomes) = (&take, &outcomes);
            scope.spawn(move || {
                let mut devices: Vec<Device> =
                    TWINS.iter().skip(thread).step_by(AT_ONCE).map(|twin| Device::new(twin)).collect();
                while let Some(number) = take() {
                    let plan = plan(seed, number);
                    let outcome = trial::run(&mut devices[0], &plan, number);
                    outcomes.lock().unwrap().push((plan, outcome));
                    devices.rotate_left(1);
                }
            });
        }
    });
    outcomes.into_inner().unwrap()
}

fn millis(times: &mut [Duration], share: f64) -> String {
    times.sort();
    let at = (times.len().saturating_sub(1) as f64 * share).round() as usize;
    times.get(at).map_or("-".into(), |time| time.as_millis().to_string())
}

fn table(outcomes: &[(Plan, Outcome)]) -> String {
    let mut text = format!(
        "{:<22}{:>7}{:>9}{:>10}{:>6}{:>11}{:>9}\n",
        "event", "trials", "changed", "restored", "lost", "median ms", "max ms"
    );
    for event in Event::ALL {
        let of: Vec<&Outcome> = outcomes.iter().filter(|(p, _)| p.event == event).map(|(_, o)| o).collect();
        let mut times: Vec<Duration> = of.iter().filter_map(|outcome| outcome.took).collect();
        let lost = of.iter().filter(|outcome| outcome.lost.is_some()).count();
        text += &format!(
            "{:<22}{:>7}{:>9}{:>10}{lost:>6}{:>11}{:>9}\n",
            event.name(),
            of.len(),
            times.len(),
            of.len() - lost,
            millis(&mut times, 0.5),
            millis(&mut times, 1.0)
        );
    }
    text
}

#[test]
fn no_random_death_loses_an_original() {
    if !support::can_mount() {
        return;
    }
    let (trials, seed) = (number_in("OPPTUNE_KILL_TRIALS", TRIALS), number_in("OPPTUNE_KILL_SEED", SEED));
    let start = Instant::now();
    let outcomes = run(seed, trials);
    let table = format!(
        "{trials} trials, seed {seed}, {:.0} s. changed: originals were owed when it happened; the times are theirs,\n\
         for a frozen agent from the freeze ({:?} of lease included), for `restorer, then agent` from the start of\n\
         what finds the device changed\n{}",
        start.elapsed().as_secs_f64(),
        device::LEASE * 2,
        table(&outcomes)
    );
    // Past the capture of the test harness: the table is to be seen always.
    writeln!(std::io::stderr(), "\n{table}").unwrap();
    let lost: Vec<_> = outcomes.iter().filter_map(|(_, outcome)| outcome.lost.as_deref()).collect();
    assert!(lost.is_empty(), "{}", lost.join("\n"));
}
