//! The formulas of a twin. Pure functions of clocks and parameters, so that the fit to published points and
//! the simulation use the same ones.
//!
//! One token takes `cpu/f_cpu + smax(gpu/f_gpu, memory/f_mem) + sync`. CPU and GPU alternate, so each one's
//! utilisation is its share of the time: slowing either lowers the other's utilisation, and that couples the
//! governors. A GPU that waits for memory does not count as busy (its counters count execution).

use super::spec::{EngineRoles, HeatSpec, ModelSpec, PowerSpec, Work};
use crate::trial::{Setting, Stage};
use crate::units::MilliWatt;

/// Clocks of the engine's domains, MHz. Infinite where there is no such domain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clocks {
    /// Of the CPU cluster that runs the serial part.
    pub cpu: f64,
    /// Of the GPU.
    pub gpu: f64,
    /// Of the memory.
    pub memory: f64,
}

/// How fast work goes and how busy it keeps each domain.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// Seconds per unit of work.
    pub seconds: f64,
    /// Share of the time the CPU is busy.
    pub cpu: f64,
    /// Share of the time the GPU executes.
    pub gpu: f64,
    /// Share of the time the memory transfers.
    pub memory: f64,
}

/// The pace of `work` at `clocks`.
pub fn pace(work: &Work, clocks: &Clocks, roles: &EngineRoles) -> Pace {
    let cpu = work.cpu / clocks.cpu;
    let gpu = work.gpu / clocks.gpu;
    let memory = work.memory / clocks.memory;
    let sync = work.sync_ms / 1e3;
    let seconds = cpu + smooth_max(gpu, memory, roles.overlap) + sync;
    Pace {
        seconds,
        cpu: (cpu + roles.sync_busy * sync) / seconds,
        gpu: gpu / seconds,
        memory: memory / seconds,
    }
}

/// The p-norm: never below the larger of the two, and close to it unless they are near each other.
fn smooth_max(a: f64, b: f64, p: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if high <= 0.0 { 0.0 } else { high * (1.0 + (low / high).powf(p)).powf(1.0 / p) }
}

/// Work of one pass over a stage, counted in tokens of that stage.
pub fn stage_work(model: &ModelSpec, setting: Setting) -> (Work, f64) {
    match setting.stage {
        Stage::Decode => (model.decode, f64::from(setting.tokens)),
        Stage::Prefill => (model.prefill, prefill_tokens(model, setting.tokens)),
    }
}

/// Prompt tokens as the prefill's work counts them: a fixed part, the tokens, and attention.
fn prefill_tokens(model: &ModelSpec, tokens: u32) -> f64 {
    let tokens = f64::from(tokens);
    model.prefill_fixed_tokens + tokens * (1.0 + model.prefill_growth * tokens)
}

/// What one domain draws.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Draw {
    /// Switching power.
    pub switching: MilliWatt,
    /// Leakage at 25 °C.
    pub leakage: MilliWatt,
}

/// Power of a domain at `x` (clock as a share of the top) and `busy` (0..=1).
pub fn draw(power: &PowerSpec, x: f64, busy: f64) -> Draw {
    let volt = voltage(power, x);
    Draw {
        switching: MilliWatt(volt * volt * x * (power.active_mw * busy + power.clock_mw)),
        leakage: MilliWatt(power.leak_mw * volt),
    }
}

/// Voltage at `x`: flat up to the knee, then linear to 1.
fn voltage(power: &PowerSpec, x: f64) -> f64 {
    let above = ((x - power.volt_knee) / (1.0 - power.volt_knee)).clamp(0.0, 1.0);
    power.volt_min + (1.0 - power.volt_min) * above
}

/// How much more a part leaks at `celsius` than at 25 °C.
pub fn leak_factor(heat: &HeatSpec, celsius: f64) -> f64 {
    (1.0 + heat.leak_per_kelvin * (celsius - 25.0)).max(0.1)
}
