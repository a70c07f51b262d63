//! llama.cpp, through the crate llama-cpp-2.
//!
//! The model is loaded once. Token ids are drawn once per seed, uniformly from the vocabulary without control
//! tokens; decoding is greedy; the backend is synchronised before every reading of the clock, or the time of a
//! GPU backend would be under-reported.

use super::affinity::{self, Applied};
use super::{Cancel, Engine, EngineError, EngineInfo, EngineSpec, PassTimes, Workload, resolve_model};
use crate::clock::Clock;
use crate::trial::Stage;
use crate::units::BootNanos;
use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::{LogOptions, send_logs_to_tracing};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Context length an engine starts with; it grows when a workload needs more.
const FIRST_CONTEXT: u32 = 1024;
/// Most prompt tokens given to the backend at once (llama.cpp's default).
const BATCH: usize = 2048;
/// The one sequence of the cache.
const SEQUENCE: i32 = 0;

/// The backend is a process-wide thing that can be started only once.
static BACKEND: OnceLock<Result<LlamaBackend, String>> = OnceLock::new();

self_cell::self_cell!(
    struct Loaded {
        owner: LlamaModel,
        #[covariant]
        dependent: LlamaContext,
    }
);

/// A loaded model with its context.
pub struct LlamaEngine {
    info: EngineInfo,
    clock: Arc<dyn Clock>,
    /// `None` only while the context is being replaced, or after that failed.
    loaded: Option<Loaded>,
    batch: LlamaBatch<'static>,
    prompt: Vec<LlamaToken>,
    /// The token the prompt is answered with: what every decode pass starts from.
    answer: LlamaToken,
}

impl LlamaEngine {
    /// Loads the model of `spec`, applies threads and affinity.
    ///
    /// # Errors
    /// [`EngineError::Rejected`] when there is no such model or llama.cpp does not take it.
    pub fn load(spec: &EngineSpec, clock: Arc<dyn Clock>) -> Result<LlamaEngine, EngineError> {
        let file = resolve_model(&spec.model)?;
        let Applied { cpus, problem } = affinity::apply(&spec.affinity);
        let begun = clock.now();
        let model = load_model(&file, spec.gpu_layers)?;
        let load_ms = clock.now().since(begun).as_secs_f64() * 1e3;
        let info = EngineInfo {
            name: "llama.cpp".into(),
            build: build(),
            threads: spec.threads,
            affinity: cpus,
            affinity_problem: problem,
            load_ms,
            ..describe(&file, &model)?
        };
        let mut engine = LlamaEngine {
            info,
            clock,
            loaded: None,
            batch: LlamaBatch::new(BATCH, 1),
            prompt: Vec::new(),
            answer: LlamaToken::new(0),
        };
        engine.make_context(model, FIRST_CONTEXT)?;
        Ok(engine)
    }

    fn make_context(&mut self, model: LlamaModel, tokens: u32) -> Result<(), EngineError> {
        let length = tokens.next_power_of_two().max(FIRST_CONTEXT).min(model.n_ctx_train());
        if tokens > length {
            return Err(EngineError::Rejected(format!(
                "the workload needs a context of {tokens} tokens, the model has {length}"
            )));
        }
        self.info.kv_cache_bytes = kv_cache_bytes(&model, length);
        let threads = self.info.threads as i32;
        let params = LlamaContextParams::default()
            .with_n_ctx(NonZeroU32::new(length))
            .with_n_batch(BATCH as u32)
            .with_n_threads(threads)
            .with_n_threads_batch(threads);
        let loaded = Loaded::try_new(model, |model| model.new_context(backend()?, params).map_err(rejected))?;
        self.loaded = Some(loaded);
        Ok(())
    }

    fn ensure_context(&mut self, tokens: u32) -> Result<(), EngineError> {
        let loaded = self.loaded.take().ok_or_else(|| failed("its context is gone"))?;
        if loaded.borrow_dependent().n_ctx() >= tokens {
            self.loaded = Some(loaded);
            return Ok(());
        }
        self.make_context(loaded.into_owner(), tokens)
    }

    fn draw_prompt(&mut self, tokens: u32, seed: u64) -> Result<(), EngineError> {
        let loaded = self.loaded.as_ref().ok_or_else(|| failed("its context is gone"))?;
        let vocab = loaded.borrow_owner().vocab();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut draw = std::iter::repeat_with(|| LlamaToken::new(rng.random_range(0..vocab.n_tokens())))
            .filter(|&token| !vocab.is_control(token) && !vocab.is_eog(token));
        self.prompt = draw.by_ref().take(tokens as usize).collect();
        Ok(())
    }

    fn with_context<T>(
        &mut self,
        work: impl FnOnce(&mut LlamaContext<'_>, &mut LlamaBatch<'static>) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let (loaded, batch) =
            (self.loaded.as_mut().ok_or_else(|| failed("its context is gone"))?, &mut self.batch);
        loaded.with_dependent_mut(|_, context| work(context, batch))
    }

    /// Clears the cache and reads the prompt; the backend is synchronised when this returns.
    fn read_prompt(&mut self, cancel: &Cancel) -> Result<(), EngineError> {
        let prompt = std::mem::take(&mut self.prompt);
        let read = self.with_context(|context, batch| {
            context.clear_kv_cache();
            for (index, chunk) in prompt.chunks(BATCH).enumerate() {
                submit(context, batch, chunk, index * BATCH, cancel)?;
            }
            context.synchronize();
            Ok(())
        });
        self.prompt = prompt;
        read
    }

    fn best(&mut self) -> Result<LlamaToken, EngineError> {
        self.with_context(|context, batch| Ok(best(context.get_logits_ith(batch.n_tokens() - 1))))
    }

    fn prefill(&mut self, cancel: &Cancel) -> Result<PassTimes, EngineError> {
        let start = self.clock.now();
        self.read_prompt(cancel)?;
        let prefill_end = Some(self.clock.now());
        self.answer = self.best()?;
        Ok(PassTimes { start, prefill_end, tokens: vec![self.clock.now()] })
    }

    fn decode(&mut self, tokens: u32, cancel: &Cancel) -> Result<PassTimes, EngineError> {
        let (clock, mut token, prompt) = (self.clock.clone(), self.answer, self.prompt.len());
        self.with_context(|context, batch| {
            let start = clock.now();
            rewind(context, prompt)?;
            let mut stamps: Vec<BootNanos> = Vec::with_capacity(tokens as usize);
            for written in 0..tokens as usize {
                submit(context, batch, &[token], prompt + written, cancel)?;
                context.synchronize();
                token = best(context.get_logits_ith(0));
                stamps.push(clock.now());
            }
            Ok(PassTimes { start, prefill_end: None, tokens: stamps })
        })
    }
}

impl Engine for LlamaEngine {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn prepare(&mut self, workload: &Workload, cancel: &Cancel) -> Result<(), EngineError> {
        let written = match workload.setting.stage {
            Stage::Prefill => 1,
            Stage::Decode => workload.setting.tokens,
        };
        self.ensure_context(workload.prompt_tokens + written)?;
        self.draw_prompt(workload.prompt_tokens, workload.seed)?;
        self.prefill(cancel)?;
        self.pass(workload, cancel).map(drop)
    }

    fn pass(&mut self, workload: &Workload, cancel: &Cancel) -> Result<PassTimes, EngineError> {
        match workload.setting.stage {
            Stage::Prefill => self.prefill(cancel),
            Stage::Decode => self.decode(workload.setting.tokens, cancel),
        }
    }
}

/// Gives tokens to the backend; only the last one's logits are wanted.
fn submit(
    context: &mut LlamaContext<'_>,
    batch: &mut LlamaBatch<'static>,
    tokens: &[LlamaToken],
    position: usize,
    cancel: &Cancel,
) -> Result<(), EngineError> {
    if cancel.cancelled() {
        return Err(EngineError::Cancelled);
    }
    batch.clear();
    for (index, &token) in tokens.iter().enumerate() {
        let last = index + 1 == tokens.len();
        batch.add(token, (position + index) as i32, &[SEQUENCE], last).map_err(failed)?;
    }
    context.decode(batch).map_err(failed)
}

/// Cuts the cache back to the end of the prompt.
fn rewind(context: &mut LlamaContext<'_>, prompt: usize) -> Result<(), EngineError> {
    let cut = context.clear_kv_cache_seq(Some(SEQUENCE as u32), Some(prompt as u32), None).map_err(failed)?;
    if cut { Ok(()) } else { Err(failed("this model's cache cannot be cut back to the end of the prompt")) }
}

/// Greedy choice: the first of the largest.
fn best(logits: &[f32]) -> LlamaToken {
    let mut best = 0;
    for (index, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = index;
        }
    }
    LlamaToken::new(best as i32)
}

fn failed(why: impl ToString) -> EngineError {
    EngineError::Failed(why.to_string())
}

fn rejected(why: impl ToString) -> EngineError {
    EngineError::Rejected(why.to_string())
}

fn backend() -> Result<&'static LlamaBackend, EngineError> {
    let started = BACKEND.get_or_init(|| {
        send_logs_to_tracing(LogOptions::default().with_logs_enabled(false));
        LlamaBackend::init().map_err(|e| e.to_string())
    });
    started.as_ref().map_err(rejected)
}

fn load_model(file: &Path, gpu_layers: u32) -> Result<LlamaModel, EngineError> {
    let params = LlamaModelParams::default().with_n_gpu_layers(gpu_layers);
    LlamaModel::load_from_file(backend()?, file, &params)
        .map_err(|e| EngineError::Rejected(format!("llama.cpp does not take {}: {e}", file.display())))
}

fn build() -> String {
    let devices = llama_cpp_2::list_llama_ggml_backend_devices();
    let devices: Vec<_> = devices.iter().map(|d| format!("{} ({})", d.name, d.description.trim())).collect();
    format!(
        "llama-cpp-2 {}, {}; {}",
        env!("OPPTUNE_LLAMA_VERSION"),
        devices.join(", "),
        env!("OPPTUNE_LLAMA_FLAGS")
    )
}

fn describe(file: &Path, model: &LlamaModel) -> Result<EngineInfo, EngineError> {
    let unreadable = |e: io::Error| EngineError::Rejected(format!("cannot read {}: {e}", file.display()));
    let real = file.canonicalize().map_err(unreadable)?;
    let name = real.file_name().map(|name| name.to_string_lossy().into_owned());
    let (model_sha256, model_bytes) = digest(&real).map_err(unreadable)?;
    Ok(EngineInfo {
        model: name.unwrap_or_default(),
        model_sha256,
        model_bytes,
        quantisation: quantisation(&model.meta_val_str("general.file_type").unwrap_or_default()),
        ..EngineInfo::default()
    })
}

fn digest(file: &Path) -> io::Result<(String, u64)> {
    let (mut file, mut hash) = (File::open(file)?, Sha256::new());
    let (mut buffer, mut bytes) = (vec![0; 1 << 20], 0);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            n => {
                hash.update(&buffer[..n]);
                bytes += n as u64;
            }
        }
    }
    Ok((hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect(), bytes))
}

/// Names of `general.file_type` (llama.h, `llama_ftype`).
fn quantisation(file_type: &str) -> String {
    let known = [
        ("0", "F32"),
        ("1", "F16"),
        ("2", "Q4_0"),
        ("3", "Q4_1"),
        ("7", "Q8_0"),
        ("8", "Q5_0"),
        ("9", "Q5_1"),
        ("10", "Q2_K"),
        ("11", "Q3_K_S"),
        ("12", "Q3_K_M"),
        ("13", "Q3_K_L"),
        ("14", "Q4_K_S"),
        ("15", "Q4_K_M"),
        ("16", "Q5_K_S"),
        ("17", "Q5_K_M"),
        ("18", "Q6_K"),
        ("25", "IQ4_NL"),
        ("30", "IQ4_XS"),
        ("32", "BF16"),
    ];
    let name = known.iter().find(|(number, _)| *number == file_type);
    name.map_or_else(|| format!("file type {file_type}"), |(_, name)| (*name).into())
}

/// Keys and values of every layer, 16 bits each (llama.cpp's default cache type).
fn kv_cache_bytes(model: &LlamaModel, context: u32) -> u64 {
    let heads = u64::from(model.n_head().max(1));
    let width = model.n_embd() as u64 / heads * u64::from(model.n_head_kv());
    2 * 2 * u64::from(context) * u64::from(model.n_layer()) * width
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_the_largest_logits_wins() {
        assert_eq!(best(&[0.5, 2.0, 2.0, -1.0]), LlamaToken::new(1));
    }

    #[test]
    fn file_types_have_their_names() {
        assert_eq!(quantisation("3"), "Q4_1");
        assert_eq!(quantisation("99"), "file type 99");
    }
}
