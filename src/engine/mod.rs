//! Running the fixed prefill and decode workloads.

pub mod affinity;
#[cfg(feature = "llama")]
mod llama;
mod model;
pub mod spin;

#[cfg(feature = "llama")]
pub use llama::LlamaEngine;
pub use model::resolve_model;
pub use spin::SpinEngine;

use crate::trial::Setting;
use crate::units::BootNanos;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};

/// Which engine a sweep uses, as its configuration says it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct EngineSpec {
    /// The engine.
    pub kind: EngineKind,
    /// `llama`: path of the GGUF file (on the host in a configuration, on the device in an agent's request);
    /// `twin`: name of a model the twin's profile describes; `spin`: unused.
    #[serde(default)]
    pub model: String,
    /// Worker threads.
    #[serde(default = "two")]
    pub threads: u32,
    /// CPUs the worker threads may run on; empty leaves it to the scheduler.
    #[serde(default)]
    pub affinity: Vec<usize>,
    /// Layers offloaded to the GPU backend (llama only).
    #[serde(default)]
    pub gpu_layers: u32,
}

fn two() -> u32 {
    2
}

/// The engines there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineKind {
    /// llama.cpp.
    Llama,
    /// A fixed arithmetic loop per token: for boards and labs without a model. Its results say so.
    Spin,
    /// The simulated device's own.
    Twin,
}

/// What an engine says of itself; part of every result's conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineInfo {
    /// `llama.cpp`, `spin` or `twin`.
    pub name: String,
    /// Version and build (backend, CPU features).
    pub build: String,
    /// File name or description of the model.
    pub model: String,
    /// SHA-256 of the model file, hex; empty when there is none.
    pub model_sha256: String,
    /// Size of the model file in bytes.
    pub model_bytes: u64,
    /// Quantisation, as the model file says it.
    pub quantisation: String,
    /// Worker threads.
    pub threads: u32,
    /// CPUs the workers were verified to be allowed on (from the kernel, not from what was asked).
    pub affinity: Vec<usize>,
    /// Why the wanted affinity does not hold, if it does not.
    pub affinity_problem: Option<String>,
    /// Estimated size of the KV cache in bytes.
    pub kv_cache_bytes: u64,
    /// Time to load the model, milliseconds. Never part of a latency.
    pub load_ms: f64,
}

/// One workload: a stage at a length, with token ids fixed by the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Stage and length.
    pub setting: Setting,
    /// Prompt tokens before a decode; for prefill equal to the setting's tokens.
    pub prompt_tokens: u32,
    /// Seeds the token ids.
    pub seed: u64,
}

/// Time stamps of one pass over the stage, on the device's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassTimes {
    /// The stage begins. Prefill: the request enters the engine. Decode: the first token of the answer is
    /// asked for, the prompt being in the cache.
    pub start: BootNanos,
    /// Prefill only: the backend has finished the prompt (synchronised).
    pub prefill_end: Option<BootNanos>,
    /// One stamp per token written, each after the backend was synchronised. Prefill: the first token only.
    pub tokens: Vec<BootNanos>,
}

/// Asks a running engine to stop at the next token.
#[derive(Debug, Default)]
pub struct Cancel(AtomicBool);

impl Cancel {
    /// Asks to stop.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked.
    pub fn cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why an engine could not run.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The same request would fail again: no such model, prompt longer than the context, engine not built in.
    #[error("{0}")]
    Rejected(String),
    /// Asked to stop.
    #[error("the run was cancelled")]
    Cancelled,
    /// The backend failed while running.
    #[error("the engine failed while running: {0}")]
    Failed(String),
}

/// Runs workloads. The model is loaded once, when the engine is made.
///
/// A stage is measured as any number of passes in one contiguous window: `prepare` brings the cache to where
/// the stage begins (for decode: the prompt is read, outside the window), and every `pass` starts by putting
/// the cache back there, so that windows can be stretched until a slow gauge has ticked often enough.
pub trait Engine: Send {
    /// What this engine is.
    fn info(&self) -> &EngineInfo;

    /// Brings the engine to the beginning of the stage, one warm-up pass included, whose times it gives: they are
    /// no result.
    ///
    /// # Errors
    /// [`EngineError::Rejected`] if this engine can never run the workload.
    fn prepare(&mut self, workload: &Workload, cancel: &Cancel) -> Result<PassTimes, EngineError>;

    /// Runs the stage once.
    ///
    /// # Errors
    /// [`EngineError::Cancelled`] when asked to stop, [`EngineError::Failed`] when the backend broke.
    fn pass(&mut self, workload: &Workload, cancel: &Cancel) -> Result<PassTimes, EngineError>;
}
