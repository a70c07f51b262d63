//! What the simulated governors do, against what the study saw theirs do: simulated, not computed, because the
//! GPU's clock swings.

use anyhow::{Context, Result};
use opptune::engine::{Cancel, EngineKind, EngineSpec, Workload};
use opptune::profile::Profile;
use opptune::sysfs::{NodePath, Nodes};
use opptune::trial::{KnobId, Setting, Stage};
use opptune::twin;
use opptune::twin::spec::{GovernorSpec, NoiseSpec};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

const BIG: &str = "/sys/devices/system/cpu/cpufreq/policy6";
const MIF: &str = "/sys/class/devfreq/17000010.devfreq_mif";
const GPU: &str = "/sys/devices/platform/28000000.mali";

/// A run with the GPU under its governor.
pub struct Case {
    pub model: &'static str,
    pub stage: Stage,
    /// MHz; `None`: under its governor.
    pub cpu: Option<u64>,
    pub gpu: Option<u64>,
    pub memory: Option<u64>,
    /// Published: effective GPU clock (MHz), effective CPU clock, milliseconds (decode: per token; prefill: to the
    /// first token), mJ per token.
    pub seen: [Option<f64>; 4],
    /// Published: latency that the best pinned pair saves within the energy of this case, per cent.
    pub gain: Option<f64>,
}

/// What a run showed, in the order of [`Case::seen`].
pub type Shown = [f64; 4];

const TINY: &str = "tinyllama-1.1b";
const STABLE: &str = "stablelm-zephyr-3b";
const QWEN: &str = "ds-qwen-1.5b";

const fn case(model: &'static str, stage: Stage, pins: [Option<u64>; 3], seen: [Option<f64>; 4]) -> Case {
    Case { model, stage, cpu: pins[0], gpu: pins[1], memory: pins[2], seen, gain: None }
}

/// Everything under its governor.
const fn free(model: &'static str, stage: Stage, seen: [Option<f64>; 4], gain: f64) -> Case {
    Case { model, stage, cpu: None, gpu: None, memory: None, seen, gain: Some(gain) }
}

/// The gains of prefill are the mean over the study's six models: single ones scatter from 17 to 40.
#[rustfmt::skip]
pub const CASES: [Case; 16] = [
    case(TINY, Stage::Decode, [Some(1826), None, Some(3172)], [Some(424.4), None, Some(215.1), Some(402.7)]),
    case(TINY, Stage::Decode, [Some(1826), None, Some(2028)], [Some(406.0), None, None, None]),
    case(TINY, Stage::Decode, [Some(1826), None, Some(1014)], [Some(346.5), None, Some(273.9), Some(340.0)]),
    case(TINY, Stage::Decode, [Some(1826), None, Some(421)], [Some(259.7), None, None, None]),
    case(STABLE, Stage::Decode, [Some(1826), None, Some(3172)], [Some(411.0), None, Some(495.0), Some(937.5)]),
    case(TINY, Stage::Prefill, [Some(1826), None, Some(3172)], [Some(680.7), None, Some(3200.0), None]),
    case(TINY, Stage::Decode, [None, Some(701), Some(3172)], [None, Some(1130.8), None, None]),
    case(STABLE, Stage::Decode, [None, Some(701), Some(3172)], [None, Some(1038.8), None, None]),
    case(TINY, Stage::Prefill, [None, Some(701), Some(3172)], [None, Some(870.7), Some(3600.0), None]),
    case(STABLE, Stage::Prefill, [None, Some(701), Some(3172)], [None, Some(858.2), Some(7800.0), None]),
    free(TINY, Stage::Decode, [None, None, Some(210.7), None], 31.8),
    free(TINY, Stage::Prefill, [None; 4], 24.8),
    free(STABLE, Stage::Decode, [None, None, Some(492.5), None], 37.1),
    free(STABLE, Stage::Prefill, [None; 4], 24.8),
    free(QWEN, Stage::Decode, [Some(448.5), Some(1134.5), Some(346.8), Some(459.0)], 36.8),
    free(QWEN, Stage::Prefill, [Some(663.4), Some(1045.6), Some(5600.0), Some(310.3)], 24.8),
];

fn path(text: String) -> Result<NodePath> {
    NodePath::new(text).map_err(anyhow::Error::msg)
}

fn put(nodes: &dyn Nodes, dir: &str, names: [&str; 2], mhz: Option<u64>) -> Result<()> {
    let Some(mhz) = mhz else { return Ok(()) };
    // Maximum first: Mali resets a lock that the other one crosses.
    for name in names {
        nodes.write(&path(format!("{dir}/{name}"))?, &(mhz * 1000).to_string())?;
    }
    Ok(())
}

/// Sum of clock x time, and of time, of a residency table (kHz).
fn residency(nodes: &dyn Nodes, node: &str) -> Result<(f64, f64)> {
    let text = nodes.read(&path(node.into())?)?;
    let row = |line: &str| {
        let (khz, time) = line.split_once(' ')?;
        Some((khz.parse::<f64>().ok()?, time.parse::<f64>().ok()?))
    };
    Ok(text.lines().filter_map(row).fold((0.0, 0.0), |(a, b), (khz, time)| (a + khz * time, b + time)))
}

/// Runs a case.
pub fn run(profile: &Profile, case: &Case) -> Result<Shown> {
    let device = twin::device(profile, 1)?;
    let nodes = &*device.nodes;
    put(nodes, BIG, ["scaling_max_freq", "scaling_min_freq"], case.cpu)?;
    put(nodes, GPU, ["scaling_max_freq", "scaling_min_freq"], case.gpu)?;
    let mif = ["exynos_data/debug_scaling_devfreq_max", "exynos_data/debug_scaling_devfreq_min"];
    put(nodes, MIF, mif, case.memory)?;
    (device.begin_trial)(1);
    let engine = EngineSpec {
        kind: EngineKind::Twin,
        model: case.model.into(),
        threads: 2,
        affinity: vec![],
        gpu_layers: 0,
    };
    let mut engine = (device.engine)(&engine, device.clock.clone())?;
    let setting = Setting { stage: case.stage, tokens: 32 };
    let workload = Workload { setting, prompt_tokens: 32, seed: 1 };
    engine.prepare(&workload, &Cancel::default())?;
    let read = || -> Result<[(f64, f64); 3]> {
        let energy = nodes.read(&path("/sys/class/hwmon/hwmon9/energy1_input".into())?)?;
        let gpu = residency(nodes, &format!("{GPU}/time_in_state"))?;
        Ok([gpu, residency(nodes, &format!("{BIG}/stats/time_in_state"))?, (energy.trim().parse()?, 0.0)])
    };
    let before = read()?;
    let times = engine.pass(&workload, &Cancel::default())?;
    let after = read()?;
    let mean = |i: usize| (after[i].0 - before[i].0) / (after[i].1 - before[i].1) / 1e3;
    let end = times.tokens.last().context("a pass without a token")?;
    let ms = end.since(times.start).as_secs_f64() * 1e3;
    let per = if case.stage == Stage::Decode { 32.0 } else { 1.0 };
    Ok([mean(0), mean(1), ms / per, (after[2].0 - before[2].0) / 1e3 / 32.0])
}

/// The profile with these parameters of the GPU's, the big cluster's and the memory's governor.
pub fn with_governors(profile: &Profile, p: &[f64]) -> Profile {
    let mut profile = profile.clone();
    if let Some(twin) = &mut profile.twin {
        twin.noise = NoiseSpec::default();
        for (id, domain) in &mut twin.domains {
            domain.governor = match (id.0.as_str(), domain.governor) {
                ("gpu", Some(_)) => Some(GovernorSpec::Step {
                    up: p[0].min(0.99),
                    up_ms: p[1],
                    down: p[2].min(1.0),
                    down_ms: p[3],
                    period_ms: 10,
                }),
                (
                    "cpu-big",
                    Some(GovernorSpec::Schedutil { headroom, half_life_ms, period_ms, down_hold_ms, .. }),
                ) => Some(GovernorSpec::Schedutil {
                    headroom,
                    burst: p[4],
                    half_life_ms,
                    period_ms,
                    down_hold_ms,
                }),
                ("mem", Some(GovernorSpec::Load { target, period_ms, .. })) => {
                    Some(GovernorSpec::Load { target, period_ms, down_hold_ms: p[5].round() as u64 })
                }
                (_, other) => other,
            };
        }
    }
    profile
}

/// Ranges of the parameters of [`with_governors`].
const RANGES: [(f64, f64); 6] =
    [(0.55, 0.95), (2.0, 40.0), (0.55, 1.0), (2.0, 40.0), (1.5, 4.5), (50.0, 600.0)];

/// Latency (ms) and energy (mJ per token) of every pinned pair, by model and stage.
pub type Pairs = BTreeMap<(&'static str, Stage), Vec<(f64, f64)>>;

/// Runs every pair of every fully governed case.
pub fn pairs(profile: &Profile) -> Result<Pairs> {
    let still = with_governors(profile, &RANGES.map(|(low, _)| low));
    let twin = still.twin.as_ref().context("no [twin] table")?;
    let table = |knob: &str| twin.domains[&KnobId(knob.into())].table.iter().map(|khz| khz / 1000);
    let mut pairs = Pairs::new();
    for free in CASES.iter().filter(|case| case.gain.is_some()) {
        let all = pairs.entry((free.model, free.stage)).or_default();
        for (cpu, gpu) in table("cpu-big").flat_map(|cpu| table("gpu").map(move |gpu| (cpu, gpu))) {
            let [.., ms, mj] =
                run(&still, &case(free.model, free.stage, [Some(cpu), Some(gpu), None], [None; 4]))?;
            all.push((ms, mj));
        }
    }
    Ok(pairs)
}

/// Latency that the best pair saves within the energy of a governed run, per cent.
fn gain(pairs: &Pairs, case: &Case, shown: &Shown) -> f64 {
    let all = pairs.get(&(case.model, case.stage)).into_iter().flatten();
    let within = all.filter(|(_, mj)| *mj <= shown[3]).map(|(ms, _)| *ms);
    100.0 * (1.0 - within.fold(shown[2], f64::min) / shown[2])
}

/// How far the simulated governors are from the published ones.
fn cost(profile: &Profile, pairs: &Pairs, p: &[f64]) -> f64 {
    let profile = with_governors(profile, p);
    let far = |case: &Case| {
        let Ok(shown) = run(&profile, case) else { return 1e3 };
        // What the search is held against weighs most: everything under its governor.
        let weight = if case.gain.is_some() { 3.0 } else { 1.0 };
        let seen: f64 = (0..4).filter_map(|i| Some(weight * (shown[i] / case.seen[i]? - 1.0).powi(2))).sum();
        seen + case.gain.map_or(0.0, |wanted| 1e-3 * (gain(pairs, case, &shown) - wanted).powi(2))
    };
    CASES.iter().map(far).sum()
}

/// The best of many random parameters: a governor's thresholds make the cost too rough to be descended.
pub fn fit(profile: &Profile, pairs: &Pairs) -> Vec<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut best = (f64::INFINITY, RANGES.map(|(low, high)| 0.5 * (low + high)));
    for trial in 0..TRIALS {
        // First anywhere, then ever closer to the best.
        let reach = if trial < TRIALS / 2 { None } else { Some(0.2 * (1.0 - trial as f64 / TRIALS as f64)) };
        let mut p = best.1;
        for (value, (low, high)) in p.iter_mut().zip(RANGES) {
            let at: f64 = random.random();
            *value = match reach {
                None => low + at * (high - low),
                Some(reach) => (*value + (2.0 * at - 1.0) * reach * (high - low)).clamp(low, high),
            };
        }
        let cost = cost(profile, pairs, &p);
        if cost < best.0 {
            best = (cost, p);
        }
    }
    best.1.to_vec()
}

/// Parameters tried by [`fit`].
const TRIALS: usize = 6000;

/// Prints every case.
pub fn print(profile: &Profile, pairs: &Pairs) -> Result<()> {
    println!("# simulated under the governors: GPU MHz, CPU MHz, ms, mJ, gain (published)");
    for case in &CASES {
        let shown = run(profile, case)?;
        let cell = |i: usize| match case.seen[i] {
            Some(seen) => format!("{:6.0} ({seen:6.0} {:+4.0} %)", shown[i], (shown[i] / seen - 1.0) * 100.0),
            None => format!("{:6.0} {:16}", shown[i], ""),
        };
        let memory = case.memory.map_or("gov".into(), |mhz| mhz.to_string());
        let gained = case
            .gain
            .map_or(String::new(), |wanted| format!("{:.1} % ({:.1} %)", gain(pairs, case, &shown), wanted));
        println!(
            "# {:<18} {:<7} mem {memory:>4}: {} {} {} {} {gained}",
            case.model,
            case.stage,
            cell(0),
            cell(1),
            cell(2),
            cell(3)
        );
    }
    Ok(())
}
