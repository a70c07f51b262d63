//! llama.cpp, through the crate llama-cpp-2.
//!
//! The model is loaded once. Token ids are drawn once per seed, uniformly from the vocabulary without control
//! tokens; decoding is greedy; the backend is synchronised before every reading of the clock, or the time of a
//! GPU backend would be under-reported.
//!
//! CPU features are those of llama.cpp's own portable default (on x86: AVX2, FMA, F16C, BMI2), unless `CFLAGS`
//! and `CXXFLAGS` say more while building; what was built in is part of every result ([`EngineInfo::build`]).
//! `-march=native` is not the default on purpose: where it turns AMX on, llama.cpp's worker threads die of an
//! illegal instruction.

mod describe;

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
            build: describe::build(),
            threads: spec.threads,
            affinity: cpus,
            affinity_problem: problem,
            load_ms,
            ..describe::model_file(&file, &model)?
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
        let length = tokens.next_power_of_two().min(model.n_ctx_train());
        self.info.kv_cache_bytes = describe::kv_cache_bytes(&model, length);
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

    /// Makes room for `tokens` in the cache.
    fn ensure_context(&mut self, tokens: u32) -> Result<(), EngineError> {
        let loaded = self.loaded.as_ref().ok_or_else(|| failed("its context is gone"))?;
        let longest = loaded.borrow_owner().n_ctx_train();
        if tokens > longest {
            return Err(EngineError::Rejected(format!(
                "the workload needs a context of {tokens} tokens, the model has {longest}"
            )));
        }
        if loaded.borrow_dependent().n_ctx() >= tokens {
            return Ok(());
        }
        match self.loaded.take() {
            Some(loaded) => self.make_context(loaded.into_owner(), tokens),
            None => Ok(()),
        }
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

    fn prepare(&mut self, workload: &Workload, cancel: &Cancel) -> Result<PassTimes, EngineError> {
        let written = match workload.setting.stage {
            Stage::Prefill => 1,
            Stage::Decode => workload.setting.tokens,
        };
        self.ensure_context(workload.prompt_tokens.saturating_add(written))?;
        self.draw_prompt(workload.prompt_tokens, workload.seed)?;
        let read = self.prefill(cancel)?;
        match workload.setting.stage {
            Stage::Prefill => Ok(read),
            Stage::Decode => self.decode(workload.setting.tokens, cancel),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::BootClock;
    use crate::engine::EngineKind;
    use crate::trial::Setting;

    fn engine() -> LlamaEngine {
        let model = "smollm2-135m".into();
        let kind = EngineKind::Llama;
        let spec = EngineSpec { kind, model, threads: 2, affinity: Vec::new(), gpu_layers: 0 };
        LlamaEngine::load(&spec, Arc::new(BootClock)).unwrap()
    }

    fn workload(stage: Stage, tokens: u32, prompt_tokens: u32) -> Workload {
        Workload { setting: Setting { stage, tokens }, prompt_tokens, seed: 5 }
    }

    #[test]
    fn a_real_model_repeats_itself_and_says_what_it_is() {
        let (mut engine, go) = (engine(), Cancel::default());
        let wanted = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
        assert_eq!((engine.info.model_sha256.as_str(), engine.info.quantisation.as_str()), (wanted, "Q4_1"));
        // 30 layers, 3 heads of 64 for keys and for values, 16 bits each.
        assert_eq!(engine.info.kv_cache_bytes, 2 * 2 * 1024 * 30 * 3 * 64);

        let decode = workload(Stage::Decode, 8, 16);
        engine.prepare(&decode, &go).unwrap();
        let first = (engine.pass(&decode, &go).unwrap(), engine.best().unwrap());
        let second = (engine.pass(&decode, &go).unwrap(), engine.best().unwrap());
        assert_eq!(first.1, second.1, "the cache was cut back to the end of the prompt");
        assert_eq!(first.0.tokens.len(), 8);
        assert!(first.0.start < first.0.tokens[0] && first.0.tokens.is_sorted());

        let prefill = workload(Stage::Prefill, 32, 32);
        engine.prepare(&prefill, &go).unwrap();
        let pass = engine.pass(&prefill, &go).unwrap();
        assert!(pass.start < pass.prefill_end.unwrap() && pass.prefill_end.unwrap() <= pass.tokens[0]);
    }

    #[test]
    fn the_context_grows_to_what_a_workload_needs_and_no_further_than_the_model() {
        let (mut engine, cancel) = (engine(), Cancel::default());
        cancel.cancel();
        let long = workload(Stage::Prefill, 1500, 1500);
        assert!(matches!(engine.prepare(&long, &cancel), Err(EngineError::Cancelled)));
        assert_eq!(engine.loaded.as_ref().unwrap().borrow_dependent().n_ctx(), 2048);
        let refused = engine.prepare(&workload(Stage::Prefill, 1 << 20, 1 << 20), &cancel);
        assert!(matches!(refused, Err(EngineError::Rejected(_))), "{refused:?}");
    }

    #[test]
    fn the_same_seed_draws_the_same_prompt_without_control_tokens() {
        let mut engine = engine();
        engine.draw_prompt(64, 1).unwrap();
        let first = engine.prompt.clone();
        engine.draw_prompt(64, 1).unwrap();
        assert_eq!(engine.prompt, first);
        engine.draw_prompt(64, 2).unwrap();
        assert_ne!(engine.prompt, first);
        let vocab = engine.loaded.as_ref().unwrap().borrow_owner().vocab();
        assert!(first.iter().all(|&token| !vocab.is_control(token)));
    }

    #[test]
    fn the_first_of_the_largest_logits_wins() {
        assert_eq!(best(&[0.5, 2.0, 2.0, -1.0]), LlamaToken::new(1));
    }
}
