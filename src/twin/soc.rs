//! The simulated SoC: lets time pass over domains, governors, heat and energy.

use super::battery::Battery;
use super::domain::{Domain, UNLIMITED};
use super::heat::Heat;
use super::noise::Noise;
use super::physics::{Clocks, Pace, leak_factor, pace};
use super::spec::{TwinSpec, Work};
use crate::profile::{DriverSpec, Profile, Role};
use crate::trial::KnobId;
use crate::units::MilliWatt;
use std::collections::BTreeMap;

/// The device booted this long before it is looked at, past the boot-time frequency floors of real devices.
const BOOTED_NS: u64 = 600_000_000_000;
/// Share of the time that background work keeps a CPU cluster busy.
const BACKGROUND: f64 = 0.01;
/// Time between two steps of the simulated throttling.
const THROTTLE_NS: u64 = 100_000_000;
/// Degrees below the throttling threshold at which a step is given back.
const THROTTLE_HYSTERESIS: f64 = 5.0;

/// What runs on the SoC.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Load {
    /// Nothing.
    #[default]
    Idle,
    /// Every domain is busy for this share of the time.
    Synthetic(f64),
    /// A stage of inference.
    Stage(Work),
}

/// Work in progress: units left, and the factor on the time of the present one.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Units of work left.
    pub left: f64,
    /// Factor on the time it takes.
    pub factor: f64,
}

/// What follows from clocks and load, kept until one of them changes.
#[derive(Clone, Debug, Default)]
struct Operating {
    seconds: f64,
    busy: Vec<f64>,
    switching: f64,
    leakage: f64,
}

/// The simulated SoC.
pub struct Soc {
    /// What it is made of.
    pub spec: TwinSpec,
    /// Its frequency domains.
    pub domains: Vec<Domain>,
    /// CPUs, by number: online or not.
    pub online: Vec<bool>,
    /// Boost steps are allowed.
    pub boost: bool,
    /// How often that changed.
    pub boost_flips: u64,
    /// Nanoseconds since boot.
    pub now: u64,
    /// Temperatures.
    pub heat: Heat,
    /// The battery.
    pub battery: Option<Battery>,
    /// Energy drawn since the rested state, microjoules.
    pub energy_uj: f64,
    /// Noise.
    pub noise: Noise,
    /// Zones (by type) that give no value.
    pub failing_zones: Vec<String>,
    /// Which cgroup (by id) a task was put in; the others are in the root.
    pub cgroup_of: BTreeMap<u32, usize>,
    load: Load,
    origin: u64,
    next_throttle: u64,
    operating: Option<Operating>,
    roles: Roles,
}

#[derive(Clone, Copy, Debug)]
struct Roles {
    cpu: usize,
    gpu: Option<usize>,
    memory: Option<usize>,
}

impl Soc {
    /// The SoC of a checked specification, in the rested state.
    pub fn new(profile: &Profile, spec: &TwinSpec, seed: u64) -> Self {
        let domains: Vec<Domain> = profile
            .knobs
            .iter()
            .filter_map(|knob| {
                let quota = match &knob.driver {
                    DriverSpec::CpuQuota { levels, .. } => levels.iter().map(|opp| opp.0).collect(),
                    _ => Vec::new(),
                };
                Some(Domain::new(&knob.id, knob.role, spec.domains.get(&knob.id)?, &quota))
            })
            .collect();
        let find = |id: &KnobId| domains.iter().position(|d| d.id == *id);
        let roles = Roles {
            cpu: find(&spec.engine.cpu).unwrap_or(0),
            gpu: spec.engine.gpu.as_ref().and_then(find),
            memory: spec.engine.memory.as_ref().and_then(find),
        };
        let cpus = domains.iter().flat_map(|d| &d.cpus).max().map_or(1, |last| last + 1);
        let mut soc = Soc {
            domains,
            online: vec![true; cpus],
            boost: true,
            boost_flips: 0,
            now: BOOTED_NS,
            heat: Heat::rested(&spec.heat),
            battery: spec.battery.clone().map(Battery::new),
            energy_uj: 0.0,
            noise: Noise::new(spec.noise, seed),
            failing_zones: Vec::new(),
            cgroup_of: BTreeMap::new(),
            load: Load::Idle,
            origin: BOOTED_NS,
            next_throttle: 0,
            operating: None,
            roles,
            spec: spec.clone(),
        };
        soc.rest();
        soc
    }

    /// Which domain a knob is.
    pub fn domain(&self, id: &KnobId) -> Option<usize> {
        self.domains.iter().position(|d| d.id == *id)
    }

    /// Brings heat, governors, counters and the phase of everything periodic to a fixed state, at the next
    /// full second.
    pub fn rest(&mut self) {
        self.now = self.now.next_multiple_of(1_000_000_000);
        self.origin = self.now;
        self.next_throttle = self.now + THROTTLE_NS;
        self.heat = Heat::rested(&self.spec.heat);
        self.energy_uj = 0.0;
        self.load = Load::Idle;
        self.domains.iter_mut().for_each(Domain::rest);
        self.settle();
        let idle = self.power();
        if let Some(battery) = &mut self.battery {
            battery.rest(idle);
        }
    }

    /// Changes what runs.
    pub fn set_load(&mut self, load: Load) {
        self.load = load;
        self.settle();
    }

    /// Whether the GPU is powered down for want of work.
    pub fn gpu_sleeps(&self) -> bool {
        self.load == Load::Idle
    }

    /// Brings every domain to where limits, votes and governors have it. After any change of them.
    pub fn settle(&mut self) {
        let stalls = matches!(self.load, Load::Stage(_));
        for domain in &mut self.domains {
            domain.outside.limiter = if stalls { domain.pmu_limit } else { UNLIMITED };
            domain.settle();
        }
        for target in 0..self.domains.len() {
            self.domains[target].outside.floor = self.floor_of(target);
            self.domains[target].settle();
        }
        self.operating = None;
    }

    /// The floor that the operating points of other domains ask of this one.
    fn floor_of(&self, target: usize) -> u64 {
        let id = &self.domains[target].id;
        let votes = self.domains.iter().flat_map(|voter| {
            voter.votes.iter().filter(|vote| vote.domain == *id && voter.asked() >= vote.at)
        });
        votes.map(|vote| vote.floor).max().unwrap_or(0)
    }

    fn pace(&self, work: &Work) -> Pace {
        let mhz =
            |domain: Option<usize>| domain.map_or(f64::INFINITY, |d| self.domains[d].clock() as f64 / 1e3);
        let clocks = Clocks {
            cpu: mhz(Some(self.roles.cpu)),
            gpu: mhz(self.roles.gpu),
            memory: mhz(self.roles.memory),
        };
        pace(work, &clocks, &self.spec.engine)
    }

    fn busy(&self, domain: usize, pace: Option<&Pace>) -> f64 {
        let background = match self.domains[domain].role {
            Role::Cpu => BACKGROUND,
            Role::Gpu | Role::Memory => 0.0,
        };
        match (self.load, pace) {
            (Load::Synthetic(share), _) => share,
            (_, Some(pace)) if domain == self.roles.cpu => pace.cpu,
            (_, Some(pace)) if Some(domain) == self.roles.gpu => pace.gpu,
            (_, Some(pace)) if Some(domain) == self.roles.memory => pace.memory,
            _ => background,
        }
    }

    fn operate(&self) -> Operating {
        let pace = match &self.load {
            Load::Stage(work) => Some(self.pace(work)),
            Load::Idle | Load::Synthetic(_) => None,
        };
        let mut operating = Operating { seconds: pace.map_or(0.0, |p| p.seconds), ..Operating::default() };
        for (index, domain) in self.domains.iter().enumerate() {
            let busy = self.busy(index, pace.as_ref());
            operating.busy.push(busy);
            if !self.offline(index) {
                let draw = domain.draw(busy);
                operating.switching += draw.switching.0;
                operating.leakage += draw.leakage.0;
            }
        }
        operating
    }

    /// Whether every CPU of a domain is offline.
    pub fn offline(&self, domain: usize) -> bool {
        let cpus = &self.domains[domain].cpus;
        !cpus.is_empty() && cpus.iter().all(|&cpu| !self.online[cpu])
    }

    /// Busy share of a domain.
    pub fn utilisation(&self, domain: usize) -> f64 {
        match &self.operating {
            Some(operating) => operating.busy[domain],
            None => self.operate().busy[domain],
        }
    }

    /// Power of the whole device now.
    pub fn power(&self) -> MilliWatt {
        match &self.operating {
            Some(operating) => self.power_at(operating),
            None => self.power_at(&self.operate()),
        }
    }

    fn power_at(&self, operating: &Operating) -> MilliWatt {
        let leak = operating.leakage * leak_factor(&self.spec.heat, self.heat.die);
        MilliWatt((self.spec.idle_mw + operating.switching + leak) * self.noise.power)
    }

    /// Lets time pass until `until`, or until `job` is done.
    pub fn advance(&mut self, until: u64, mut job: Option<&mut Job>) {
        while self.now < until && job.as_ref().is_none_or(|job| job.left > 0.0) {
            let operating = self.operating.take().unwrap_or_else(|| self.operate());
            let grid = self.spec.step_ms * 1_000_000;
            let mut span = (grid - (self.now - self.origin) % grid).min(until - self.now);
            if let Some(job) = job.as_deref_mut() {
                span = work_on(job, operating.seconds * self.noise.latency * job.factor, span);
            }
            self.step(span, operating);
        }
    }

    fn step(&mut self, span: u64, operating: Operating) {
        let power = self.power_at(&operating);
        let seconds = span as f64 * 1e-9;
        self.energy_uj += power.0 * seconds * 1e3;
        self.heat.step(&self.spec.heat, power, seconds);
        if let Some(battery) = &mut self.battery {
            battery.step(power, span);
        }
        self.now += span;
        let mut moved = false;
        for (domain, &busy) in self.domains.iter_mut().zip(&operating.busy) {
            domain.time_ns[domain.level] += span;
            if let Some(governor) = &mut domain.governor {
                moved |= governor.see(span, busy, domain.level, &domain.table);
            }
        }
        moved |= self.throttle();
        match moved {
            true => self.settle_if_changed(operating),
            false => self.operating = Some(operating),
        }
    }

    /// A governor may want what its limits forbid; only a real change costs a recomputation.
    fn settle_if_changed(&mut self, operating: Operating) {
        let before: u64 = self.domains.iter().map(|d| d.transitions).sum();
        self.settle();
        if before == self.domains.iter().map(|d| d.transitions).sum::<u64>() {
            self.operating = Some(operating);
        }
    }

    fn throttle(&mut self) -> bool {
        let Some(limit) = self.spec.heat.throttle.filter(|_| self.now >= self.next_throttle) else {
            return false;
        };
        self.next_throttle = self.now + THROTTLE_NS;
        let hot = self.heat.die > limit;
        let cool = self.heat.die < limit - THROTTLE_HYSTERESIS;
        let mut moved = false;
        for domain in self.domains.iter_mut().filter(|d| d.role != Role::Memory) {
            let most = domain.table.len().saturating_sub(1);
            let steps = &mut domain.outside.throttle;
            let next = if hot { (*steps + 1).min(most) } else { steps.saturating_sub(usize::from(cool)) };
            moved |= next != *steps;
            *steps = next;
        }
        moved
    }
}

/// Works for at most `span` nanoseconds on a job whose unit takes `seconds`; returns the time it took.
fn work_on(job: &mut Job, seconds: f64, span: u64) -> u64 {
    let needed = job.left * seconds * 1e9;
    if needed <= span as f64 {
        job.left = 0.0;
        (needed.ceil() as u64).max(1)
    } else {
        job.left -= span as f64 / (seconds * 1e9);
        span
    }
}
