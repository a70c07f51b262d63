//! One trial: gate, pin, verify, warm up, measure, judge.

use super::failure::Cause;
use super::gate::Gate;
use super::heat::HeatWatch;
use super::metrics::{self, Window};
use super::series;
use super::taken::Taken;
use super::watch::Watch;
use crate::device::lock;
use crate::engine::{Cancel, Engine, EngineError, PassTimes, Workload};
use crate::knob::KnobError;
use crate::protocol::{Failure, Progress, Series};
use crate::sensor::{Sampler, Samples, SharedSource};
use crate::sysfs::{NodePath, read_trimmed};
use crate::trial::{
    Energy, EnergyKind, Flag, Heat, ItlSummary, KnobId, KnobSeen, Measurement, TrialSpec, WarmUp,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Time between two looks at the hard temperature limits inside a window.
const LIMIT_POLL: Duration = Duration::from_secs(1);

/// A trial in progress.
pub struct Trial<'a> {
    /// The device.
    pub taken: &'a mut Taken,
    /// What is asked.
    pub spec: &'a TrialSpec,
    /// Ends it early.
    pub cancel: &'a Cancel,
    /// Told of every phase.
    pub tell: &'a dyn Fn(Progress),
}

/// What the window gave.
struct Measured {
    passes: Vec<PassTimes>,
    window: Window,
    samples: Samples,
    knobs: BTreeMap<KnobId, KnobSeen>,
    heat: Heat,
    warm_up: WarmUp,
    series: Vec<Series>,
}

impl Trial<'_> {
    /// Runs the trial; with what was sampled meanwhile. The knobs stay pinned afterwards, for the next one; after a
    /// failure they are given back.
    ///
    /// # Errors
    /// A [`Failure`] that says what failed and what state the device is in.
    pub fn run(mut self) -> Result<(Measurement, Vec<Series>), Failure> {
        self.steps().map_err(|cause| {
            let released = lock(&self.taken.handle.pins).release_all();
            cause.after(&released)
        })
    }

    fn steps(&mut self) -> Result<(Measurement, Vec<Series>), Cause> {
        let mut engine = self.taken.engine.take().ok_or_else(no_engine)?;
        (self.taken.device.begin_trial)(self.spec.seed);
        let measured = self.measure_with(&mut *engine);
        let affinity = engine.info().affinity_problem.clone();
        self.taken.engine = Some(engine);
        Ok(self.conclude(measured?, affinity))
    }

    fn measure_with(&mut self, engine: &mut dyn Engine) -> Result<Measured, Cause> {
        self.pass_gate()?;
        self.pin()?;
        self.gate().check()?;
        self.say("warm-up", String::new());
        let warm_up = self.warm_up(engine)?;
        self.say("measure", String::new());
        self.measure(engine, warm_up)
    }

    fn warm_up(&mut self, engine: &mut dyn Engine) -> Result<WarmUp, Cause> {
        let cold = std::mem::take(&mut self.taken.cold);
        let pass = engine.prepare(&self.workload(), self.cancel)?;
        let setting = self.spec.id.setting;
        Ok(WarmUp { latency: metrics::latency(setting, &[pass]).of(setting.stage), cold })
    }

    fn say(&self, phase: &str, detail: String) {
        (self.tell)(Progress { phase: phase.into(), detail });
    }

    fn workload(&self) -> Workload {
        Workload {
            setting: self.spec.id.setting,
            prompt_tokens: self.spec.prompt_tokens,
            seed: self.spec.seed,
        }
    }

    fn gate(&self) -> Gate<'_> {
        let taken = &self.taken;
        Gate {
            nodes: &*taken.device.nodes,
            clock: &*taken.device.clock,
            zones: &taken.zones,
            zone: &taken.gate_zone,
            spec: &self.spec.gate,
        }
    }

    /// Waits for the start temperature, with every knob given back: a pinned device cools slowly.
    fn pass_gate(&self) -> Result<(), Cause> {
        let pins = &self.taken.handle.pins;
        Ok(self.gate().wait(self.cancel, |detail| {
            // What does not go back here is found by the pin that follows, or by the restore at the end.
            let _ = lock(pins).release_all();
            self.say("gate", detail);
        })?)
    }

    fn pin(&self) -> Result<(), Cause> {
        if self.cancel.cancelled() {
            return Err(EngineError::Cancelled.into());
        }
        self.say("pin", String::new());
        let mut pins = lock(&self.taken.handle.pins);
        pins.apply(&self.spec.id.combination).map_err(|error| match error {
            KnobError::DidNotStick { knob, asked, found } => {
                let why = pins.why_off(&knob).map_or(String::new(), |why| format!(", {why}"));
                KnobError::DidNotStick { knob, asked, found: found + &why }.into()
            }
            other => other.into(),
        })
    }

    fn measure(&self, engine: &mut dyn Engine, warm_up: WarmUp) -> Result<Measured, Cause> {
        let device = &self.taken.device;
        let heat = HeatWatch::start(self.taken.zones.clone(), device.nodes.clone(), device.clock.clone());
        let combination = &self.spec.id.combination;
        let watch = Watch::start(&self.taken.handle.pins, combination, device.nodes.clone(), &device.clock);
        let sampler = self
            .taken
            .source
            .clone()
            .map(|source| Sampler::start(source, device.nodes.clone(), device.clock.clone()));
        let ran = self.run_passes(engine, sampler.as_ref());
        let samples = sampler.map(Sampler::stop).unwrap_or_default();
        let (knobs, clocks) = watch.stop();
        let (heat, temperatures) = heat.stop();
        let (passes, window) = ran?;
        let latency = series::latency(self.spec.id.setting, &passes);
        let power = series::energy(&samples.readings);
        let series = power.into_iter().chain(latency).chain(clocks).chain(temperatures).collect();
        Ok(Measured { passes, window, samples, knobs, heat, warm_up, series })
    }

    /// Repeats the stage until the window is long enough for its energy source.
    fn run_passes(
        &self,
        engine: &mut dyn Engine,
        sampler: Option<&Sampler>,
    ) -> Result<(Vec<PassTimes>, Window), Cause> {
        let (workload, mut passes) = (self.workload(), Vec::new());
        let mut limits_due = self.taken.device.clock.now().plus(LIMIT_POLL);
        loop {
            passes.push(engine.pass(&workload, self.cancel)?);
            let window =
                Window::of(&passes).ok_or_else(|| EngineError::Failed("it wrote no token".into()))?;
            if passes.len() as u32 >= self.spec.max_passes || self.long_enough(window, sampler) {
                return Ok((passes, window));
            }
            if window.end >= limits_due {
                self.gate().check_limits()?;
                limits_due = window.end.plus(LIMIT_POLL);
            }
        }
    }

    fn long_enough(&self, window: Window, sampler: Option<&Sampler>) -> bool {
        let updates = |sampler: &Sampler| {
            sampler.look(|info, samples| metrics::updates(info, &samples.readings, window))
        };
        window.length() >= Duration::from_millis(self.spec.min_window_ms)
            && sampler.is_none_or(|sampler| updates(sampler) >= self.spec.min_updates)
    }

    fn conclude(&self, measured: Measured, affinity: Option<String>) -> (Measurement, Vec<Series>) {
        let Measured { passes, window, samples, knobs, heat, warm_up, series } = measured;
        let latency = metrics::latency(self.spec.id.setting, &passes);
        let tokens = u64::from(self.spec.id.setting.tokens) * passes.len() as u64;
        let energy =
            self.taken.source.as_ref().and_then(|source| self.energy(source, &samples, window, tokens));
        let flags = self.flags(latency.itl.as_ref(), energy.as_ref(), samples.lost, affinity);
        let measurement = Measurement {
            id: self.spec.id.clone(),
            origin: self.taken.device.origin,
            start: window.start,
            end: window.end,
            passes: passes.len() as u32,
            warm_up,
            latency,
            energy,
            knobs,
            heat,
            rss_bytes: self.resident_bytes(),
            flags,
        };
        (measurement, series)
    }

    fn energy(
        &self,
        source: &SharedSource,
        samples: &Samples,
        window: Window,
        tokens: u64,
    ) -> Option<Energy> {
        let info = lock(source).info().clone();
        metrics::energy(&info, &samples.readings, window, tokens, self.spec.min_updates)
    }

    fn flags(
        &self,
        itl: Option<&ItlSummary>,
        energy: Option<&Energy>,
        lost: u32,
        affinity: Option<String>,
    ) -> Vec<Flag> {
        let powered = energy
            .is_some_and(|e| e.source.kind == EnergyKind::Gauge && e.source.external_power == Some(true));
        [
            itl.is_some_and(metrics::jitters).then_some(Flag::SchedulingJitter),
            affinity.map(|why| Flag::AffinityNotApplied { why }),
            powered.then_some(Flag::ExternalPower),
            self.taken.thermal_risk.then_some(Flag::ThermalControlAltered),
            (lost > 0).then_some(Flag::SamplesLost { count: lost }),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// `VmRSS` of this process, which holds the model.
    fn resident_bytes(&self) -> Option<u64> {
        let status =
            read_trimmed(&*self.taken.device.nodes, &NodePath::new("/proc/self/status").ok()?).ok()?;
        let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        kilobytes.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kb| kb * 1024)
    }
}

fn no_engine() -> Cause {
    EngineError::Rejected("the device was opened without an engine; there is nothing to run".into()).into()
}
