//! The twin as the agent meets it: physics, governors, determinism, speed.

use super::{Twin, device};
use crate::clock::Clock;
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

/// Milliseconds and mJ per token of one pass.
#[derive(Clone, Copy, Debug)]
struct Ran {
    ms: f64,
    mj: f64,
}

/// Runs a stage of 32 tokens without noise, with knobs pinned (MHz) or left to their governors.
fn ran(model: &str, stage: Stage, cpu: Option<u64>, gpu: Option<u64>) -> Ran {
    let mut profile = profile("pixel-7");
    profile.twin.as_mut().unwrap().noise = Default::default();
    let device = device(&profile, 1).unwrap();
    let pin = |dir: &str, mhz: Option<u64>| {
        for name in ["scaling_max_freq", "scaling_min_freq"].iter().filter(|_| mhz.is_some()) {
            let node = path(&format!("{dir}/{name}"));
            device.nodes.write(&node, &(mhz.unwrap() * 1000).to_string()).unwrap();
        }
    };
    pin(BIG, cpu);
    pin(GPU, gpu);
    (device.begin_trial)(1);
    let mut engine = (device.engine)(&engine_spec(model), device.clock.clone()).unwrap();
    let workload = Workload { setting: Setting { stage, tokens: 32 }, prompt_tokens: 32, seed: 1 };
    engine.prepare(&workload, &Cancel::default()).unwrap();
    let meter = || read_u64(&*device.nodes, &path("/sys/class/hwmon/hwmon9/energy1_input")).unwrap();
    let before = meter();
    let times = engine.pass(&workload, &Cancel::default()).unwrap();
    Ran {
        ms: times.tokens.last().unwrap().since(times.start).as_secs_f64() * 1e3 / 32.0,
        mj: (meter() - before) as f64 / 1e3 / 32.0,
    }
}

const BIG: &str = "/sys/devices/system/cpu/cpufreq/policy6";
const GPU: &str = "/sys/devices/platform/28000000.mali";

fn opps(knob: &str) -> Vec<u64> {
    let profile = profile("pixel-7");
    let domain = &profile.twin.unwrap().domains[&crate::trial::KnobId(knob.into())];
    domain.table.iter().map(|khz| khz / 1000).collect()
}

/// Latency gained by the best pair within the governors' energy, as a share.
fn best_gain(model: &str, stage: Stage) -> f64 {
    let governed = ran(model, stage, None, None);
    let pairs =
        opps("gpu").into_iter().flat_map(|gpu| opps("cpu-big").into_iter().map(move |cpu| (cpu, gpu)));
    let within =
        pairs.map(|(cpu, gpu)| ran(model, stage, Some(cpu), Some(gpu))).filter(|r| r.mj <= governed.mj);
    1.0 - within.map(|r| r.ms).fold(f64::INFINITY, f64::min) / governed.ms
}

#[test]
fn at_equal_energy_a_pinned_pair_beats_the_governors_more_in_decode_than_in_prefill() {
    for model in ["tinyllama-1.1b", "stablelm-zephyr-3b", "ds-qwen-1.5b"] {
        let (decode, prefill) = (best_gain(model, Stage::Decode), best_gain(model, Stage::Prefill));
        assert!((0.2..=0.4).contains(&decode), "{model}: {decode}");
        assert!(prefill < decode, "{model}: {prefill} against {decode}");
    }
}

#[test]
fn energy_over_gpu_frequency_has_its_minimum_inside() {
    let energy: Vec<f64> = opps("gpu")
        .into_iter()
        .map(|gpu| ran("tinyllama-1.1b", Stage::Decode, Some(1826), Some(gpu)).mj)
        .collect();
    let least = energy.iter().copied().fold(f64::INFINITY, f64::min);
    let at = energy.iter().position(|&e| e == least).unwrap();
    assert!((3..=9).contains(&at), "{energy:?}");
    // The memory's clock follows the GPU's in steps, which ripples the curve by a few per cent.
    assert!(energy[..=at].windows(2).all(|w| w[1] < 1.03 * w[0]), "{energy:?}");
    assert!(energy[at..].windows(2).all(|w| w[1] > 0.97 * w[0]), "{energy:?}");
    assert!(energy[0] > 1.15 * least && energy[11] > 1.15 * least, "{energy:?}");
}

#[test]
fn released_from_high_clocks_the_governors_spiral_down_by_themselves() {
    let high = ran("tinyllama-1.1b", Stage::Decode, Some(2850), Some(848));
    let governed = ran("tinyllama-1.1b", Stage::Decode, None, None);
    assert!(governed.ms > 1.5 * high.ms, "{governed:?} against {high:?}");

    let mut profile = profile("pixel-7");
    profile.twin.as_mut().unwrap().noise = Default::default();
    let twin = Twin::new(&profile, 1).unwrap();
    let work = profile.twin.as_ref().unwrap().models["tinyllama-1.1b"].decode;
    twin.0.machine().soc.set_load(super::soc::Load::Stage(work));
    let khz = |node: &str| twin.read(node).unwrap().trim().parse::<u64>().unwrap();
    let (gpu, cpu) = (format!("{GPU}/cur_freq"), format!("{BIG}/scaling_cur_freq"));
    for (dir, top) in [(BIG, 2_850_000), (GPU, 848_000)] {
        twin.write(&format!("{dir}/scaling_min_freq"), &format!("{top}\n")).unwrap();
    }
    let clock = super::TwinClock(twin.clone());
    clock.sleep(Duration::from_millis(250));
    assert_eq!((khz(&gpu), khz(&cpu)), (848_000, 2_850_000));
    for (dir, low) in [(BIG, 500_000), (GPU, 151_000)] {
        twin.write(&format!("{dir}/scaling_min_freq"), &format!("{low}\n")).unwrap();
    }
    let mut lowest = (u64::MAX, u64::MAX);
    for _ in 0..100 {
        clock.sleep(Duration::from_millis(10));
        lowest = (lowest.0.min(khz(&gpu)), lowest.1.min(khz(&cpu)));
    }
    assert!(lowest.0 <= 351_000 && lowest.1 <= 1_106_000, "{lowest:?}");
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

#[test]
fn every_twin_runs_both_stages_on_its_own_physics() {
    for name in TWINS {
        let device = device(&profile(name), 1).unwrap();
        let model = profile(name).twin.unwrap().models.keys().next().unwrap().clone();
        let mut engine = (device.engine)(&engine_spec(&model), device.clock.clone()).unwrap();
        for (stage, tokens) in [(Stage::Decode, 16), (Stage::Prefill, 64)] {
            let workload = Workload { setting: Setting { stage, tokens }, ..DECODE };
            engine.prepare(&workload, &Cancel::default()).unwrap();
            let times = engine.pass(&workload, &Cancel::default()).unwrap();
            let took = times.tokens.last().unwrap().since(times.start);
            assert!((50..60_000).contains(&took.as_millis()), "{name} {stage}: {took:?}");
        }
    }
}

const TWINS: [&str; 8] = [
    "pixel-7",
    "snapdragon-8-gen-2",
    "mediatek-gpufreqv2",
    "mediatek-gpufreqv1",
    "exynos-2400",
    "exynos-gpex",
    "legacy-qualcomm",
    "linux-host",
];
