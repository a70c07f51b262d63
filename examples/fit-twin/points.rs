//! The published operating points, as the fit wants them.

use anyhow::{Context, Result};
use opptune::trial::Stage;
use std::fmt;
use toml::{Table, Value};

/// One operating point. Clocks in MHz.
#[derive(Clone, Debug)]
pub struct Point {
    pub model: String,
    pub stage: Stage,
    pub tokens: u32,
    pub cpu: f64,
    pub gpu: f64,
    /// `None`: the memory governor's, not published.
    pub memory: Option<f64>,
    /// Decode: per token; prefill: of the whole prompt.
    pub seconds: Option<f64>,
    /// Per token.
    pub energy_mj: Option<f64>,
    /// The GPU was left to its governor: `gpu` is a mean over a clock that swings, which a formula in 1/f does
    /// not describe well.
    pub swings: bool,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory = self.memory.map_or("gov".into(), |mhz| format!("{mhz:.0}"));
        write!(
            f,
            "{:<18} {}-{:<4} cpu {:4.0} gpu {:3.0}{} mem {memory:>4}",
            self.model,
            self.stage,
            self.tokens,
            self.cpu,
            self.gpu,
            if self.swings { "~" } else { " " }
        )
    }
}

/// Latency at `after` is lower than at `before` by this share.
#[derive(Clone, Debug)]
pub struct Reduction {
    pub model: String,
    pub before: Point,
    pub after: Point,
    pub reduction: f64,
}

/// A domain's share of busy time at a point.
#[derive(Clone, Debug)]
pub struct Busy {
    pub point: Point,
    pub of_gpu: bool,
    pub share: f64,
}

/// Everything published.
#[derive(Clone, Debug, Default)]
pub struct Published {
    pub points: Vec<Point>,
    pub reductions: Vec<Reduction>,
    pub busy: Vec<Busy>,
}

impl Published {
    /// The models, once each.
    pub fn models(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.points.iter().map(|point| point.model.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// How slow a model decodes, relative to the fastest: a scale for first guesses.
    pub fn size(&self, model: &str) -> f64 {
        let fastest = |name: Option<&str>| {
            self.points
                .iter()
                .filter(|p| p.stage == Stage::Decode && name.is_none_or(|name| p.model == name))
                .filter_map(|p| p.seconds)
                .fold(f64::INFINITY, f64::min)
        };
        fastest(Some(model)) / fastest(None)
    }
}

/// Effective CPU clock under the default governor where the study does not give it, MHz.
const CPU_EFFECTIVE: f64 = 1039.0;

/// Reads the points.
pub fn read() -> Result<Published> {
    let file: Table = include_str!("../published/pixel-7.toml").parse()?;
    let mut published = Published::default();
    for (key, stage) in [("decode", Stage::Decode), ("prefill", Stage::Prefill)] {
        for entry in tables(&file, key)? {
            published.points.push(point(entry, stage)?);
        }
    }
    for entry in tables(&file, "decode_eas")? {
        published.reductions.push(reduction(entry)?);
    }
    published.busy = busy(file.get("utilisation").and_then(Value::as_table).context("utilisation")?)?;
    published.points.extend(whole_traces(&file)?);
    Ok(published)
}

fn tables<'a>(file: &'a Table, key: &str) -> Result<impl Iterator<Item = &'a Table>> {
    let entries = file.get(key).and_then(Value::as_array).with_context(|| key.to_owned())?;
    Ok(entries.iter().filter_map(Value::as_table))
}

fn number(entry: &Table, key: &str) -> Option<f64> {
    let value = entry.get(key)?;
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}

/// A clock: pinned, or the effective one of the governor.
fn clock(entry: &Table, knob: &str) -> Option<f64> {
    number(entry, knob).or_else(|| number(entry, &format!("{knob}_eff_mhz")))
}

fn model(entry: &Table) -> Result<String> {
    Ok(entry.get("model").and_then(Value::as_str).context("a point without a model")?.to_owned())
}

fn point(entry: &Table, stage: Stage) -> Result<Point> {
    let seconds = number(entry, "tpot_ms").map(|ms| ms / 1e3).or_else(|| number(entry, "ttft_s"));
    Ok(Point {
        model: model(entry)?,
        stage,
        tokens: number(entry, "tokens").unwrap_or(32.0) as u32,
        cpu: clock(entry, "cpu").unwrap_or(CPU_EFFECTIVE),
        gpu: clock(entry, "gpu").context("a point without a GPU clock")?,
        memory: clock(entry, "mem"),
        seconds,
        energy_mj: number(entry, "energy_mj"),
        swings: number(entry, "gpu").is_none(),
    })
}

fn bare(model: &str, stage: Stage, cpu: f64, gpu: f64) -> Point {
    let model = model.to_owned();
    Point {
        model,
        stage,
        tokens: 32,
        cpu,
        gpu,
        memory: Some(3172.0),
        seconds: None,
        energy_mj: None,
        swings: false,
    }
}

fn reduction(entry: &Table) -> Result<Reduction> {
    let model = model(entry)?;
    let at = |key: &str| -> Result<Point> {
        let cpu = number(entry, key).context("a reduction without a clock")?;
        Ok(bare(&model, Stage::Decode, cpu, 701.0))
    };
    Ok(Reduction {
        before: at("cpu_eff_mhz")?,
        after: at("cpu_best_mhz")?,
        reduction: number(entry, "tpot_reduction").context("tpot_reduction")?,
        model,
    })
}

/// Keys such as `decode_gpu_util_cpu2850_gpu701`.
fn busy(table: &Table) -> Result<Vec<Busy>> {
    let parse = |(key, value): (&String, &Value)| {
        let words: Vec<&str> = key.split('_').collect();
        let mhz = |word: &str| word[3..].parse::<f64>();
        let stage = if words[0] == "decode" { Stage::Decode } else { Stage::Prefill };
        let point = bare("tinyllama-1.1b", stage, mhz(words[3])?, mhz(words[4])?);
        Ok(Busy { point, of_gpu: words[1] == "gpu", share: value.as_float().context("a share")? })
    };
    table.iter().map(parse).collect()
}

/// Mean TTFT over the trace under the default governors, at its mean prompt length. Its clocks are those the
/// governors ran at in a prefill of 32 tokens.
fn whole_traces(file: &Table) -> Result<Vec<Point>> {
    let tokens = file.get("trace").and_then(Value::as_table).and_then(|t| number(t, "mean_prompt_tokens"));
    let tokens = tokens.context("mean_prompt_tokens")? as u32;
    let at = |entry: &Table| -> Result<Option<Point>> {
        let governed = entry.get("gov").and_then(Value::as_table);
        let Some(seconds) = governed.and_then(|table| number(table, "ttft_s")) else { return Ok(None) };
        let name = model(entry)?;
        let point = bare(&name, Stage::Prefill, 870.0, 680.0);
        Ok(Some(Point { tokens, seconds: Some(seconds), ..point }))
    };
    tables(file, "trace_result")?.filter_map(|entry| at(entry).transpose()).collect()
}
