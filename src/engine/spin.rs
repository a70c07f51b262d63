//! A fixed arithmetic loop per token: an engine for boards and labs without a model. Its results say `spin`.
//!
//! Work rate is proportional to the CPU clock and touches no memory, which also makes it the yardstick of
//! whether a pinned clock is real.

use super::affinity::{self, Applied};
use super::{Cancel, Engine, EngineError, EngineInfo, EngineSpec, PassTimes, Workload};
use crate::clock::Clock;
use crate::trial::Stage;
use crate::units::BootNanos;
use std::hint::black_box;
use std::sync::Arc;

/// Loop rounds for one written token, over all threads: about 2 ms on one 2 GHz core, optimised.
const ROUNDS_PER_TOKEN: u64 = 1_000_000;
/// Reading a prompt token costs this fraction of writing one, as batching makes it in a real engine.
const PREFILL_DISCOUNT: u64 = 4;
/// Prompt tokens between two looks at the cancel flag.
const PREFILL_CHUNK: u32 = 16;

/// Rounds of the work-rate check: about 30 ms on one 2 GHz core, optimised.
const ROUNDS_PER_CHECK: u64 = 15_000_000;

/// Loop rounds per second that one CPU does now, or `None` where a thread cannot be moved there. Measured in
/// the thread's own CPU time, so that other load on the CPU does not count.
pub fn work_rate(cpu: usize) -> Option<f64> {
    let on_cpu = std::thread::spawn(move || {
        let mut set = nix::sched::CpuSet::new();
        set.set(cpu).ok()?;
        nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set).ok()?;
        let used = || nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).ok();
        let before = std::time::Duration::from(used()?);
        spin(ROUNDS_PER_CHECK, cpu as u64);
        let seconds = (std::time::Duration::from(used()?).checked_sub(before)?).as_secs_f64();
        (seconds > 0.0).then(|| ROUNDS_PER_CHECK as f64 / seconds)
    });
    on_cpu.join().ok()?
}

/// The loop engine.
pub struct SpinEngine {
    info: EngineInfo,
    clock: Arc<dyn Clock>,
}

impl SpinEngine {
    /// An engine with the threads and affinity of `spec`.
    ///
    /// # Errors
    /// [`EngineError::Rejected`] for no threads at all.
    pub fn new(spec: &EngineSpec, clock: Arc<dyn Clock>) -> Result<SpinEngine, EngineError> {
        if spec.threads == 0 {
            return Err(EngineError::Rejected("the engine needs at least one thread".into()));
        }
        let Applied { cpus, problem } = affinity::apply(&spec.affinity);
        let info = EngineInfo {
            name: "spin".into(),
            build: format!("{} {}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH),
            model: format!("{ROUNDS_PER_TOKEN} rounds of xorshift per token; no model"),
            threads: spec.threads,
            affinity: cpus,
            affinity_problem: problem,
            ..EngineInfo::default()
        };
        Ok(SpinEngine { info, clock })
    }

    fn read_prompt(&self, tokens: u32, seed: u64, cancel: &Cancel) -> Result<(), EngineError> {
        let mut left = tokens;
        while left > 0 {
            let chunk = left.min(PREFILL_CHUNK);
            self.work(u64::from(chunk) * ROUNDS_PER_TOKEN / PREFILL_DISCOUNT, seed, cancel)?;
            left -= chunk;
        }
        Ok(())
    }

    fn write_token(&self, seed: u64, cancel: &Cancel) -> Result<BootNanos, EngineError> {
        self.work(ROUNDS_PER_TOKEN, seed, cancel)?;
        Ok(self.clock.now())
    }

    fn work(&self, rounds: u64, seed: u64, cancel: &Cancel) -> Result<(), EngineError> {
        if cancel.cancelled() {
            return Err(EngineError::Cancelled);
        }
        let threads = u64::from(self.info.threads);
        std::thread::scope(|scope| {
            for thread in 1..threads {
                scope.spawn(move || spin(rounds / threads, seed ^ thread));
            }
            spin(rounds / threads, seed);
        });
        Ok(())
    }
}

impl Engine for SpinEngine {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn prepare(&mut self, workload: &Workload, cancel: &Cancel) -> Result<PassTimes, EngineError> {
        self.pass(workload, cancel)
    }

    fn pass(&mut self, workload: &Workload, cancel: &Cancel) -> Result<PassTimes, EngineError> {
        let (tokens, seed) = (workload.setting.tokens, workload.seed);
        let start = self.clock.now();
        Ok(match workload.setting.stage {
            Stage::Prefill => {
                self.read_prompt(tokens, seed, cancel)?;
                let prefill_end = Some(self.clock.now());
                PassTimes { start, prefill_end, tokens: vec![self.clock.now()] }
            }
            Stage::Decode => {
                let written: Result<_, _> = (0..tokens).map(|_| self.write_token(seed, cancel)).collect();
                PassTimes { start, prefill_end: None, tokens: written? }
            }
        })
    }
}

/// Marsaglia's xorshift64: a chain of dependent integer operations, three cycles and more a round on any core.
fn spin(rounds: u64, seed: u64) {
    let mut x = seed | 1;
    for _ in 0..rounds {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::BootClock;
    use crate::engine::EngineKind;
    use crate::trial::Setting;

    fn engine(threads: u32) -> SpinEngine {
        let spec = EngineSpec {
            kind: EngineKind::Spin,
            model: String::new(),
            threads,
            affinity: Vec::new(),
            gpu_layers: 0,
        };
        SpinEngine::new(&spec, Arc::new(BootClock)).unwrap()
    }

    fn workload(stage: Stage, tokens: u32) -> Workload {
        Workload { setting: Setting { stage, tokens }, prompt_tokens: tokens, seed: 3 }
    }

    #[test]
    fn decode_stamps_every_token_in_order_and_prefill_its_first() {
        let (mut spin, go) = (engine(2), Cancel::default());
        let decode = spin.pass(&workload(Stage::Decode, 4), &go).unwrap();
        assert_eq!((decode.tokens.len(), decode.prefill_end), (4, None));
        assert!(decode.start < decode.tokens[0] && decode.tokens.is_sorted());
        let prefill = spin.pass(&workload(Stage::Prefill, 4), &go).unwrap();
        assert_eq!(prefill.tokens.len(), 1);
        assert!(prefill.start < prefill.prefill_end.unwrap());
        assert!(prefill.prefill_end.unwrap() <= prefill.tokens[0]);
    }

    #[test]
    fn a_cancelled_engine_stops_and_one_without_threads_is_refused() {
        let cancel = Cancel::default();
        cancel.cancel();
        let found = engine(1).pass(&workload(Stage::Decode, 1_000_000), &cancel);
        assert!(matches!(found, Err(EngineError::Cancelled)));
        let mut spec = EngineSpec {
            kind: EngineKind::Spin,
            model: String::new(),
            threads: 0,
            affinity: Vec::new(),
            gpu_layers: 0,
        };
        assert!(SpinEngine::new(&spec, Arc::new(BootClock)).is_err());
        spec.threads = 1;
        assert_eq!(SpinEngine::new(&spec, Arc::new(BootClock)).unwrap().info().name, "spin");
    }
}
