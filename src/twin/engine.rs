//! The engine of a twin: each pass is work for the simulated SoC.

use super::physics::stage_work;
use super::serve::Twin;
use super::soc::{Job, Load};
use super::spec::{ModelSpec, Work};
use crate::engine::{Cancel, Engine, EngineError, EngineInfo, EngineKind, EngineSpec, PassTimes, Workload};
use crate::trial::{Setting, Stage};
use crate::units::BootNanos;

/// Units of a prefill between two looks at whether to stop.
const BATCH: f64 = 16.0;

/// The engine of a twin.
pub struct TwinEngine {
    twin: Twin,
    model: ModelSpec,
    info: EngineInfo,
}

impl TwinEngine {
    /// The engine with the model that `spec` names.
    ///
    /// # Errors
    /// [`EngineError::Rejected`] for another kind of engine or a model the twin does not know.
    pub fn new(twin: Twin, spec: &EngineSpec) -> Result<Self, EngineError> {
        if spec.kind != EngineKind::Twin {
            return Err(EngineError::Rejected(
                "a simulated device runs its own engine only; write `engine.kind = \"twin\"`".into(),
            ));
        }
        let model = {
            let machine = twin.0.machine();
            let models = &machine.soc.spec.models;
            models.get(&spec.model).cloned().ok_or_else(|| {
                let known: Vec<&str> = models.keys().map(String::as_str).collect();
                let known = known.join(", ");
                EngineError::Rejected(format!("the twin has no model `{}`; it has: {known}", spec.model))
            })?
        };
        Ok(TwinEngine { info: info(spec, &model), model, twin })
    }

    /// Works `amount` units; the time it ended.
    fn work(&self, amount: f64) -> BootNanos {
        let factor = self.twin.0.machine().soc.noise.token();
        let mut job = Job { left: amount, factor };
        self.twin.0.advance(u64::MAX, Some(&mut job))
    }

    fn run(&self, setting: Setting, cancel: &Cancel) -> Result<PassTimes, EngineError> {
        let (work, mut left) = stage_work(&self.model, setting);
        let _running = Running::start(&self.twin, work);
        let mut times = PassTimes { start: self.twin.now(), ..PassTimes::default() };
        let unit = match setting.stage {
            Stage::Decode => 1.0,
            Stage::Prefill => BATCH,
        };
        while left > 0.0 {
            if cancel.cancelled() {
                return Err(EngineError::Cancelled);
            }
            let amount = left.min(unit);
            let ended = self.work(amount);
            left -= amount;
            if setting.stage == Stage::Decode {
                times.tokens.push(ended);
            }
        }
        if setting.stage == Stage::Prefill {
            // The first token comes out of the prompt's last position.
            times.prefill_end = Some(self.twin.now());
            times.tokens.push(self.twin.now());
        }
        Ok(times)
    }
}

/// The SoC is loaded while this lives.
struct Running<'a>(&'a Twin);

impl<'a> Running<'a> {
    fn start(twin: &'a Twin, work: Work) -> Self {
        twin.0.machine().soc.set_load(Load::Stage(work));
        Running(twin)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.0.machine().soc.set_load(Load::Idle);
    }
}

fn info(spec: &EngineSpec, model: &ModelSpec) -> EngineInfo {
    EngineInfo {
        name: "twin".into(),
        build: format!("opptune {} (simulated)", env!("CARGO_PKG_VERSION")),
        model: spec.model.clone(),
        model_bytes: model.bytes,
        quantisation: model.quantisation.clone(),
        threads: spec.threads,
        affinity: spec.affinity.clone(),
        kv_cache_bytes: model.kv_cache_bytes,
        load_ms: model.load_ms,
        ..EngineInfo::default()
    }
}

impl Engine for TwinEngine {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn prepare(&mut self, workload: &Workload, cancel: &Cancel) -> Result<PassTimes, EngineError> {
        if workload.setting.tokens == 0 {
            return Err(EngineError::Rejected("a stage of 0 tokens cannot be run; give at least 1".into()));
        }
        if workload.setting.stage == Stage::Decode {
            self.run(Setting { stage: Stage::Prefill, tokens: workload.prompt_tokens }, cancel)?;
        }
        self.run(workload.setting, cancel)
    }

    fn pass(&mut self, workload: &Workload, cancel: &Cancel) -> Result<PassTimes, EngineError> {
        self.run(workload.setting, cancel)
    }
}
