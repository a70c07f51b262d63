//! A frequency domain of the simulated SoC: its operating points, who limits it, where it runs.

use super::governor::Governor;
use super::physics::{Draw, draw};
use super::spec::{DomainSpec, PowerSpec, Vote};
use crate::profile::Role;
use crate::trial::KnobId;

/// No upper bound.
pub const UNLIMITED: u64 = u64::MAX;

/// Bounds that others than the node's user set. All of them win over the user; the maximum wins over the minimum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outside {
    /// A kernel client's cap (thermal framework, power HAL through the kernel).
    pub clamp: u64,
    /// Steps below the top that the cooling device asks for.
    pub cooling: usize,
    /// Steps below the top that the simulated throttling asks for.
    pub throttle: usize,
    /// Votes of msm_performance.
    pub votes: (u64, u64),
    /// Floor that other domains' operating points ask for.
    pub floor: u64,
    /// Cap of the PMU limiter while it acts.
    pub limiter: u64,
}

impl Default for Outside {
    fn default() -> Self {
        Outside {
            clamp: UNLIMITED,
            cooling: 0,
            throttle: 0,
            votes: (0, UNLIMITED),
            floor: 0,
            limiter: UNLIMITED,
        }
    }
}

/// What the domain does within its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The governor decides.
    #[default]
    Governor,
    /// Stays at the maximum.
    Performance,
    /// Stays at the minimum.
    Powersave,
}

/// A frequency domain.
#[derive(Clone, Debug)]
pub struct Domain {
    /// The knob it belongs to.
    pub id: KnobId,
    /// What it drives.
    pub role: Role,
    /// Operating points, slowest first, boost steps last.
    pub table: Vec<u64>,
    /// How many of them are no boost steps.
    pub plain: usize,
    /// Its CPUs.
    pub cpus: Vec<usize>,
    /// What the driver's own requests amount to, before anybody else's.
    pub range: (u64, u64),
    /// Everybody else's bounds.
    pub outside: Outside,
    /// Where the PMU limiter caps it under memory stalls, when it is enabled.
    pub pmu_limit: u64,
    /// Cap of the firmware, which no kernel node of limits shows.
    pub firmware: u64,
    /// What it does within its limits.
    pub mode: Mode,
    /// Writes to its nodes succeed and do nothing.
    pub deaf: bool,
    /// Time at each operating point, nanoseconds.
    pub time_ns: Vec<u64>,
    /// Changes of the operating point.
    pub transitions: u64,
    /// Where the kernel runs it (index into the table).
    pub level: usize,
    /// What its governor wants.
    pub governor: Option<Governor>,
    /// Votes on others.
    pub votes: Vec<Vote>,
    power: PowerSpec,
}

impl Domain {
    /// A domain at its lowest operating point, unlimited.
    pub fn new(id: &KnobId, role: Role, spec: &DomainSpec, quota: &[u64]) -> Self {
        let mut table = if spec.table.is_empty() { quota.to_vec() } else { spec.table.clone() };
        let plain = table.len();
        table.extend(&spec.boost);
        Domain {
            id: id.clone(),
            role,
            plain,
            cpus: spec.cpus.clone(),
            range: (0, UNLIMITED),
            outside: Outside::default(),
            pmu_limit: UNLIMITED,
            firmware: UNLIMITED,
            mode: Mode::Governor,
            deaf: false,
            time_ns: vec![0; table.len()],
            transitions: 0,
            level: 0,
            governor: spec.governor.map(Governor::new),
            votes: spec.votes.clone(),
            power: spec.power,
            table,
        }
    }

    /// The slowest operating point.
    pub fn lowest(&self) -> u64 {
        self.table.first().copied().unwrap_or(0)
    }

    /// The fastest operating point, boost included.
    pub fn top(&self) -> u64 {
        self.table.last().copied().unwrap_or(0)
    }

    /// The first operating point not below `value`, or the fastest.
    pub fn at_least(&self, value: u64) -> usize {
        self.table.partition_point(|&f| f < value).min(self.table.len().saturating_sub(1))
    }

    /// The last operating point not above `value`, or the slowest.
    pub fn at_most(&self, value: u64) -> usize {
        self.table.partition_point(|&f| f <= value).saturating_sub(1)
    }

    /// The lowest cap that others than the user set.
    pub fn cap(&self) -> u64 {
        let steps = self.outside.cooling.max(self.outside.throttle);
        let cooled = match steps {
            0 => UNLIMITED,
            n => self.table[(self.table.len() - 1).saturating_sub(n)],
        };
        cooled.min(self.outside.clamp).min(self.outside.votes.1).min(self.outside.limiter)
    }

    /// The effective limits as the kernel knows them: everybody's bounds merged, the maximum winning.
    pub fn limits(&self) -> (u64, u64) {
        let max = self.range.1.min(self.cap());
        let min = self.range.0.max(self.outside.votes.0).max(self.outside.floor);
        (min.min(max), max)
    }

    /// Moves to what governor, mode and limits amount to. Tells whether the operating point changed.
    pub fn settle(&mut self) -> bool {
        let (min, max) = self.limits();
        let high = self.at_most(max);
        let low = self.at_least(min).min(high);
        let wanted = match (self.mode, &self.governor) {
            (Mode::Powersave, _) => low,
            (Mode::Governor, Some(governor)) => governor.wanted,
            (Mode::Performance, _) | (Mode::Governor, None) => high,
        };
        let level = wanted.clamp(low, high);
        let changed = level != self.level;
        self.transitions += u64::from(changed);
        self.level = level;
        changed
    }

    /// The clock the kernel asked the hardware for.
    pub fn asked(&self) -> u64 {
        self.table.get(self.level).copied().unwrap_or(0)
    }

    /// The clock it really runs at.
    pub fn clock(&self) -> u64 {
        self.asked().min(self.firmware)
    }

    /// What it draws at `busy`.
    pub fn draw(&self, busy: f64) -> Draw {
        draw(&self.power, self.clock() as f64 / self.top().max(1) as f64, busy)
    }

    /// Back to the rested state; limits, modes and misbehaviour stay, for they are the device's configuration.
    pub fn rest(&mut self) {
        self.time_ns.fill(0);
        self.transitions = 0;
        self.outside.throttle = 0;
        if let Some(governor) = &mut self.governor {
            governor.rest();
        }
        self.settle();
        self.transitions = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain() -> Domain {
        let spec = DomainSpec { table: vec![500, 1000, 2000], boost: vec![2400], ..DomainSpec::default() };
        Domain::new(&KnobId("cpu".into()), Role::Cpu, &spec, &[])
    }

    #[test]
    fn the_maximum_wins_over_the_minimum() {
        let mut domain = domain();
        domain.range = (1000, 2000);
        domain.outside.clamp = 700;
        assert_eq!(domain.limits(), (700, 700));
        domain.settle();
        assert_eq!(domain.clock(), 500, "no operating point lies within: the one below the maximum");
    }

    #[test]
    fn firmware_caps_the_clock_and_nothing_else() {
        let mut domain = domain();
        domain.range = (2000, 2000);
        domain.firmware = 900;
        domain.settle();
        assert_eq!((domain.limits(), domain.asked(), domain.clock()), ((2000, 2000), 2000, 900));
    }
}
