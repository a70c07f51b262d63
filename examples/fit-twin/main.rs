//! Fits the physics of the simulated Pixel 7 to published operating points, with the simulation's own formulas,
//! and prints the parameters as the profile's TOML and the residual of every point.
//!
//!     cargo run --release --example fit-twin
//!
//! Two fits: latency per model (its clocks are known, power is not needed), then power over all models. Where a
//! governor ran, its published effective clock stands for the clock.

mod governed;
mod points;

use anyhow::{Context, Result};
use argmin::core::{CostFunction, Error, Executor};
use argmin::solver::neldermead::NelderMead;
use opptune::profile::Profile;
use opptune::trial::{Setting, Stage};
use opptune::twin::TwinSpec;
use opptune::twin::physics::{Clocks, Pace, draw, pace, stage_work};
use opptune::twin::spec::{EngineRoles, GovernorSpec, ModelSpec, PowerSpec, Work};
use points::{Point, Published};
use serde::Serialize;
use std::collections::BTreeMap;
use toml::Value;

/// Leakage of a die that inference has warmed by some ten degrees, against 25 °C.
const WARM: f64 = 1.15;
/// Highest clocks, MHz: CPU (big cluster), GPU, memory.
const TOP: (f64, f64, f64) = (2850.0, 848.0, 3172.0);
/// Weights of the pull towards the first guess, which settles what the points leave open.
const PRIOR_LATENCY: f64 = 0.02;
const PRIOR_POWER: f64 = 0.06;
/// Load that the memory governor aims at. Higher ones are nearer to the published 1020 MHz with TinyLlama and the
/// GPU at 471 MHz, and make decode under all governors together too slow.
const MEMORY_TARGET: f64 = 0.5;
/// What the LITTLE and MID clusters draw at rest, mW: part of the idle power here, domains of their own there.
const RESTING_CLUSTERS: f64 = 12.0;

/// Minimises over the logarithms of positive parameters, pulled weakly towards the first guess.
struct Problem<F: Fn(&[f64]) -> f64> {
    guess: Vec<f64>,
    prior: f64,
    cost: F,
}

impl<F: Fn(&[f64]) -> f64> Problem<F> {
    fn values(&self, logs: &[f64]) -> Vec<f64> {
        logs.iter().zip(&self.guess).map(|(log, guess)| guess * log.exp()).collect()
    }
}

impl<F: Fn(&[f64]) -> f64> CostFunction for &Problem<F> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, logs: &Vec<f64>) -> Result<f64, Error> {
        let pull: f64 = logs.iter().map(|log| log * log).sum();
        Ok((self.cost)(&self.values(logs)) + self.prior * self.prior * pull)
    }
}

/// Nelder-Mead, restarted where it stopped until that gains nothing.
fn minimise(guess: &[f64], prior: f64, cost: impl Fn(&[f64]) -> f64) -> Result<Vec<f64>> {
    let problem = Problem { guess: guess.to_vec(), prior, cost };
    let mut best = vec![0.0; guess.len()];
    for round in 0..20 {
        let size = if round % 2 == 0 { 0.3 } else { -0.15 };
        let mut simplex = vec![best.clone()];
        simplex.extend((0..best.len()).map(|axis| {
            let mut corner = best.clone();
            corner[axis] += size;
            corner
        }));
        let solver = NelderMead::new(simplex).with_sd_tolerance(1e-9)?;
        let result = Executor::new(&problem, solver).configure(|state| state.max_iters(20_000)).run()?;
        best = result.state.best_param.context("the solver found nothing")?;
    }
    Ok(problem.values(&best))
}

fn roles(overlap: f64, sync_busy: f64) -> EngineRoles {
    let knob = |name: &str| opptune::trial::KnobId(name.into());
    EngineRoles {
        cpu: knob("cpu-big"),
        gpu: Some(knob("gpu")),
        memory: Some(knob("mem")),
        overlap,
        sync_busy,
    }
}

/// Parameters of a model's latency, in the order of [`GUESS_MODEL`].
fn model_of(p: &[f64]) -> ModelSpec {
    ModelSpec {
        decode: Work { cpu: p[0], gpu: p[1], memory: p[2], sync_ms: p[3] },
        prefill: Work { cpu: p[4], gpu: p[5], memory: p[6], sync_ms: p[7] },
        prefill_fixed_tokens: p[8],
        prefill_growth: 0.0,
        bytes: 0,
        quantisation: String::new(),
        kv_cache_bytes: 0,
        load_ms: 0.0,
    }
}

const GUESS_MODEL: [f64; 9] = [25.0, 60.0, 80.0, 25.0, 7.0, 18.0, 10.0, 4.0, 55.0];

/// Seconds a point takes, and the pace of its work.
fn seconds(point: &Point, model: &ModelSpec, roles: &EngineRoles, target: f64) -> (f64, Pace) {
    // Decode: one token. Prefill: the whole prompt.
    let tokens = if point.stage == Stage::Decode { 1 } else { point.tokens };
    let (work, units) = stage_work(model, Setting { stage: point.stage, tokens });
    let mut clocks = Clocks { cpu: point.cpu, gpu: point.gpu, memory: point.memory.unwrap_or(TOP.2) };
    if point.memory.is_none() {
        // The memory governor keeps the load under its target; its clock follows from the traffic.
        for _ in 0..30 {
            let wanted = work.memory / (pace(&work, &clocks, roles).seconds * target);
            clocks.memory = 0.5 * (clocks.memory + wanted.clamp(421.0, TOP.2));
        }
    }
    let pace = pace(&work, &clocks, roles);
    (pace.seconds * units, pace)
}

/// What is shared by all models on the side of latency.
struct Shared {
    roles: EngineRoles,
    target: f64,
}

fn latency_residuals(name: &str, published: &Published, model: &ModelSpec, shared: &Shared) -> Vec<Residual> {
    let run = |point: &Point| seconds(point, model, &shared.roles, shared.target);
    let mut all: Vec<Residual> = published
        .points
        .iter()
        .filter(|point| point.model == name)
        .filter_map(|point| Some(Residual::new(point, "latency", run(point).0 / point.seconds? - 1.0)))
        .collect();
    for pair in published.reductions.iter().filter(|pair| pair.model == name) {
        let (before, after) = (run(&pair.before).0, run(&pair.after).0);
        all.push(Residual::new(&pair.after, "gain", (after / before) / (1.0 - pair.reduction) - 1.0));
    }
    for busy in published.busy.iter().filter(|busy| busy.point.model == name) {
        let pace = run(&busy.point).1;
        let share = if busy.of_gpu { pace.gpu } else { pace.cpu };
        all.push(Residual::new(&busy.point, "busy", share / busy.share - 1.0));
    }
    all
}

/// Sum of squares, with the largest residuals weighing more, so that none is given up for the others. Points of a
/// swinging clock weigh little: the simulated governor answers for them.
fn badness(residuals: &[Residual]) -> f64 {
    residuals.iter().map(|r| r.weight * (r.value.powi(2) + 60.0 * r.value.powi(4))).sum()
}

/// How far the fit is from a published value, as a share of it.
struct Residual {
    what: String,
    value: f64,
    swings: bool,
    weight: f64,
}

impl Residual {
    fn new(point: &Point, quantity: &str, value: f64) -> Self {
        let weight = match (point.swings, quantity) {
            (true, _) => 0.05,
            (false, "busy") => 0.15,
            (false, _) => 1.0,
        };
        Residual { what: format!("{point} {quantity}"), value, swings: point.swings, weight }
    }
}

/// Everything that draws, in the order of [`GUESS_POWER`].
struct Power {
    idle: f64,
    cpu: PowerSpec,
    gpu: PowerSpec,
    memory: PowerSpec,
}

const GUESS_POWER: [f64; 8] = [700.0, 1500.0, 80.0, 1800.0, 100.0, 120.0, 250.0, 300.0];

/// Voltages are set, not fitted, for energy alone does not tell them from switching power: about those of the
/// gs201 tables, 0.6 of the top at the low end for CPU and GPU, nearly flat for memory.
fn power_of(p: &[f64]) -> Power {
    let spec = |active_mw, clock_mw, leak_mw, volt_min, volt_knee| PowerSpec {
        active_mw,
        clock_mw,
        leak_mw,
        volt_min,
        volt_knee,
    };
    Power {
        idle: p[0],
        cpu: spec(p[1], 0.0, p[2], 0.6, 0.2),
        gpu: spec(p[3], p[4], p[5], 0.65, 0.3),
        memory: spec(p[6], p[7], 0.0, 0.85, 0.2),
    }
}

/// Whole-device power at a point, mW.
fn power_at(power: &Power, point: &Point, pace: &Pace, memory: f64) -> f64 {
    let of = |spec: &PowerSpec, x: f64, busy: f64| {
        let draw = draw(spec, x, busy);
        draw.switching.0 + WARM * draw.leakage.0
    };
    power.idle
        + of(&power.cpu, point.cpu / TOP.0, pace.cpu)
        + of(&power.gpu, point.gpu / TOP.1, pace.gpu)
        + of(&power.memory, memory / TOP.2, pace.memory)
}

fn energy_residuals(
    published: &Published,
    models: &BTreeMap<String, ModelSpec>,
    shared: &Shared,
    power: &Power,
) -> Vec<Residual> {
    let residual = |point: &Point| {
        let model = models.get(&point.model)?;
        let (seconds, pace) = seconds(point, model, &shared.roles, shared.target);
        let (work, _) = stage_work(model, Setting { stage: point.stage, tokens: point.tokens });
        let memory = work.memory / (pace.seconds * pace.memory);
        let per_token = if point.stage == Stage::Decode { 1.0 } else { f64::from(point.tokens) };
        let energy = power_at(power, point, &pace, memory) * seconds / per_token;
        Some(Residual::new(point, "energy", energy / point.energy_mj? - 1.0))
    };
    published.points.iter().filter_map(residual).collect()
}

fn fit_models(published: &Published, shared: &Shared) -> Result<(BTreeMap<String, ModelSpec>, f64)> {
    let mut models = BTreeMap::new();
    let mut total = 0.0;
    for name in published.models() {
        let cost = |p: &[f64]| badness(&latency_residuals(name, published, &model_of(p), shared));
        let scale = published.size(name);
        let guess: Vec<f64> =
            GUESS_MODEL.iter().enumerate().map(|(i, v)| if i < 8 { v * scale } else { *v }).collect();
        let best = minimise(&guess, PRIOR_LATENCY, cost)?;
        total += cost(&best);
        models.insert(name.to_owned(), model_of(&best));
    }
    Ok((models, total))
}

/// The shared latency parameters are searched on a small grid: the models decide between them.
fn fit_latency(published: &Published) -> Result<(Shared, BTreeMap<String, ModelSpec>)> {
    let mut best: Option<(f64, Shared, BTreeMap<String, ModelSpec>)> = None;
    for overlap in [1.2, 1.5, 2.0, 3.0, 5.0, 8.0] {
        for sync_busy in [0.4, 0.6, 0.8] {
            let shared = Shared { roles: roles(overlap, sync_busy), target: MEMORY_TARGET };
            let (models, cost) = fit_models(published, &shared)?;
            if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                best = Some((cost, shared, models));
            }
        }
    }
    let (_, shared, models) = best.context("the grid is empty")?;
    Ok((shared, models))
}

fn print_residuals(residuals: &[Residual]) {
    for residual in residuals {
        println!("# {:+6.1} %  {}", residual.value * 100.0, residual.what);
    }
    let pinned: Vec<f64> = residuals.iter().filter(|r| !r.swings).map(|r| r.value.abs()).collect();
    let worst = pinned.iter().copied().fold(0.0, f64::max);
    let mean = pinned.iter().sum::<f64>() / pinned.len() as f64;
    println!("# pinned: mean {:.1} %, worst {:.1} %\n", mean * 100.0, worst * 100.0);
}

fn main() -> Result<()> {
    let published = points::read()?;
    let (shared, models) = fit_latency(&published)?;
    let cost = |p: &[f64]| badness(&energy_residuals(&published, &models, &shared, &power_of(p)));
    let power = power_of(&minimise(&GUESS_POWER, PRIOR_POWER, cost)?);

    for (name, model) in &models {
        print_residuals(&latency_residuals(name, &published, model, &shared));
    }
    print_residuals(&energy_residuals(&published, &models, &shared, &power));
    let profile = with_physics(&shared, &models, &power)?;
    let pairs = governed::pairs(&profile)?;
    let profile = governed::with_governors(&profile, &governed::fit(&profile, &pairs));
    governed::print(&profile, &pairs)?;
    print_parameters(profile.twin.as_ref().context("no [twin] table")?)
}

/// What was fitted, as the profile's TOML.
fn print_parameters(twin: &TwinSpec) -> Result<()> {
    println!("\n[twin]\nidle-mw = {:.1}\nengine = {}", twin.idle_mw, inline(&twin.engine)?);
    for (id, domain) in &twin.domains {
        let (power, governor) = (inline(&domain.power)?, inline(&domain.governor)?);
        println!("\n[twin.domains.{id}]\npower = {power}\ngovernor = {governor}");
    }
    for (name, model) in &twin.models {
        let (decode, prefill) = (inline(&model.decode)?, inline(&model.prefill)?);
        println!("\n[twin.models.\"{name}\"]\ndecode = {decode}\nprefill = {prefill}");
        println!("prefill-fixed-tokens = {:.1}", model.prefill_fixed_tokens);
    }
    Ok(())
}

/// A table as it stands behind a key, its numbers rounded.
fn inline(table: &impl Serialize) -> Result<Value> {
    fn round(value: &mut Value) {
        match value {
            Value::Float(number) => *number = (*number * 1e3).round() / 1e3,
            Value::Table(table) => table.iter_mut().for_each(|(_, value)| round(value)),
            _ => {}
        }
    }
    let mut value = Value::try_from(table)?;
    round(&mut value);
    Ok(value)
}

/// The profile with what was fitted.
fn with_physics(shared: &Shared, models: &BTreeMap<String, ModelSpec>, power: &Power) -> Result<Profile> {
    let mut profile = opptune::profile::load("twins/pixel-7")?;
    let twin = profile.twin.as_mut().context("no [twin] table")?;
    twin.idle_mw = power.idle - RESTING_CLUSTERS;
    twin.engine = shared.roles.clone();
    twin.models = models.clone();
    for (id, domain) in &mut twin.domains {
        match id.0.as_str() {
            "cpu-big" => domain.power = power.cpu,
            "gpu" => domain.power = power.gpu,
            "mem" => {
                domain.power = power.memory;
                domain.governor =
                    Some(GovernorSpec::Load { target: shared.target, period_ms: 50, down_hold_ms: 200 });
            }
            _ => {}
        }
    }
    Ok(profile)
}
