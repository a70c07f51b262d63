//! The twin as the agent meets it: physics, governors, determinism, speed.

use super::{Twin, device};
use crate::engine::{Cancel, EngineKind, EngineSpec, PassTimes, Workload};
use crate::profile::Profile;
use crate::sysfs::{NodePath, read_u64};
use crate::trial::{Setting, Stage};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The profile of a twin that comes with opptune.
pub(super) fn profile(name: &str) -> Profile {
    let file = format!("{}/device-profiles/twins/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    toml::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

fn path(text: &str) -> NodePath {
    NodePath::new(text).unwrap()
}

fn engine_spec(model: &str) -> EngineSpec {
    EngineSpec { kind: EngineKind::Twin, model: model.into(), threads: 2, affinity: vec![], gpu_layers: 0 }
}

const DECODE: Workload =
    Workload { setting: Setting { stage: Stage::Decode, tokens: 32 }, prompt_tokens: 32, seed: 1 };

#[test]
fn a_decode_pass_stamps_every_token_and_draws_energy() {
    let device = device(&profile("pixel-7"), 1).unwrap();
    let mut engine = (device.engine)(&engine_spec("tinyllama-1.1b"), device.clock.clone()).unwrap();
    (device.begin_trial)(7);
    engine.prepare(&DECODE, &Cancel::default()).unwrap();
    let meter = path("/sys/class/hwmon/hwmon9/energy1_input");
    let before = read_u64(&*device.nodes, &meter).unwrap();
    let times = engine.pass(&DECODE, &Cancel::default()).unwrap();
    let drawn = read_u64(&*device.nodes, &meter).unwrap() - before;
    assert_eq!(times.tokens.len(), 32);
    let stamps: Vec<_> = std::iter::once(times.start).chain(times.tokens).collect();
    assert!(stamps.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(drawn > 1_000_000, "{drawn} uJ");
}

#[test]
fn a_trial_depends_on_the_seeds_and_on_nothing_before_it() {
    let run = |before: &[u64], trial| -> (PassTimes, String) {
        let device = device(&profile("pixel-7"), 1).unwrap();
        let mut engine = (device.engine)(&engine_spec("tinyllama-1.1b"), device.clock.clone()).unwrap();
        let mut one = |seed| {
            (device.begin_trial)(seed);
            engine.prepare(&DECODE, &Cancel::default()).unwrap();
            let mut times = engine.pass(&DECODE, &Cancel::default()).unwrap();
            let since = |t: &mut crate::units::BootNanos, start| {
                *t = crate::units::BootNanos(crate::units::BootNanos::since(*t, start).as_nanos() as u64);
            };
            let start = times.start;
            times.tokens.iter_mut().for_each(|t| since(t, start));
            since(&mut times.start, start);
            times
        };
        before.iter().for_each(|&seed| drop(one(seed)));
        let times = one(trial);
        let meter = device.nodes.read(&path("/sys/class/hwmon/hwmon9/energy1_input")).unwrap();
        (times, meter)
    };
    assert_eq!(run(&[], 7), run(&[1, 2, 3], 7));
    assert_ne!(run(&[], 7), run(&[], 8));
}

#[test]
fn ticks_run_from_inside_passing_time_and_may_read_nodes() {
    let device = device(&profile("pixel-7"), 1).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (nodes, clock, log) = (device.nodes.clone(), device.clock.clone(), seen.clone());
    let start = clock.now();
    let ticker = device.clock.every(
        Duration::from_millis(50),
        Box::new(move || {
            read_u64(&*nodes, &path("/sys/devices/system/cpu/cpufreq/policy6/scaling_cur_freq")).unwrap();
            log.lock().unwrap().push(clock.now().since(start).as_millis());
        }),
    );
    device.clock.sleep(Duration::from_millis(175));
    assert_eq!(*seen.lock().unwrap(), [50, 100, 150]);
    drop(ticker);
    device.clock.sleep(Duration::from_secs(1));
    assert_eq!(seen.lock().unwrap().len(), 3);
}

#[test]
fn a_cancelled_run_stops() {
    let twin = Twin::new(&profile("pixel-7"), 1).unwrap();
    let device = twin.device();
    let mut engine = (device.engine)(&engine_spec("tinyllama-1.1b"), device.clock.clone()).unwrap();
    let cancel = Cancel::default();
    cancel.cancel();
    assert!(engine.pass(&DECODE, &cancel).is_err());
}

#[test]
fn a_model_the_twin_does_not_know_is_refused_with_those_it_knows() {
    let device = device(&profile("pixel-7"), 1).unwrap();
    let answer = (device.engine)(&engine_spec("gpt"), device.clock.clone());
    let text = answer.err().unwrap().to_string();
    assert!(text.contains("tinyllama-1.1b"), "{text}");
}
