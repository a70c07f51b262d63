//! cpufreq policies, by kernel age. Source: Linux drivers/cpufreq/{cpufreq.c,freq_table.c,cpufreq_stats.c},
//! drivers/cpufreq/qcom-cpufreq-hw.c, and Pixel's sched_pixel governor.

use super::{Attr, Family, Shown, Stored, leading, line, list, residency, ro, rw, whole};
use crate::twin::domain::{Domain, Mode, UNLIMITED};
use crate::twin::soc::Soc;
use crate::twin::spec::{LimitStyle, ListStyle, Quirks};

/// Ticks of time_in_state: 10 ms.
const TICK_NS: u64 = 10_000_000;

/// One policy.
pub struct Cpufreq {
    domain: usize,
    quirks: Quirks,
    /// What the user asked for: kept even when something else wins, and in force again afterwards.
    asked: (u64, u64),
    /// Changes of `boost` when the maximum was asked for: a later one throws it away, as
    /// `cpufreq_boost_set_sw` does.
    boost_flips: u64,
}

impl Cpufreq {
    /// A policy over a domain, with nothing asked.
    pub fn new(domain: usize, quirks: Quirks, soc: &Soc) -> Self {
        let mut policy = Cpufreq { domain, quirks, asked: (0, UNLIMITED), boost_flips: soc.boost_flips };
        policy.asked = policy.hardware(soc);
        policy
    }

    fn domain<'a>(&self, soc: &'a Soc) -> &'a Domain {
        &soc.domains[self.domain]
    }

    /// What cpuinfo_{min,max}_freq say.
    fn hardware(&self, soc: &Soc) -> (u64, u64) {
        let domain = self.domain(soc);
        let usable = if soc.boost { domain.table.len() } else { domain.plain };
        (domain.lowest(), domain.table.get(usable.wrapping_sub(1)).copied().unwrap_or(0))
    }

    /// The effective limits as this kernel shows them.
    fn shown(&self, soc: &Soc) -> (u64, u64) {
        let domain = self.domain(soc);
        let (low, high) = self.hardware(soc);
        let (min, max) = domain.limits();
        let (min, max) = (min.clamp(low, high), max.clamp(low, high));
        match self.quirks.limits {
            LimitStyle::QosRounding => {
                let max = domain.table[domain.at_most(max)];
                (domain.table[domain.at_least(min)].min(max), max)
            }
            LimitStyle::Qos | LimitStyle::Legacy => (min, max),
        }
    }

    fn parse(&self, text: &str) -> Result<u64, i32> {
        let value = match self.quirks.limits {
            LimitStyle::Legacy => leading(text)?,
            LimitStyle::Qos | LimitStyle::QosRounding => whole::<u32>(text)?.into(),
        };
        // The kernel keeps an unsigned int.
        Ok(value & u64::from(u32::MAX))
    }

    fn usable(&self, soc: &Soc) -> Stored {
        match (soc.offline(self.domain), self.quirks.limits) {
            (false, _) => Ok(()),
            (true, LimitStyle::Legacy) => Err(libc::EINVAL),
            (true, _) => Err(libc::EBUSY),
        }
    }
}

impl Family for Cpufreq {
    fn table(&self) -> &'static [Attr<Self>] {
        ATTRS
    }

    fn has(&self, name: &str) -> bool {
        match name {
            "cpuinfo_cur_freq" => !self.quirks.no_hardware_clock,
            "scaling_available_frequencies" => self.quirks.list != ListStyle::Missing,
            "dcvsh_freq_limit" => self.quirks.dcvsh,
            "sched_pixel/limit_frequency" | "sched_pixel/pmu_limit_enable" => self.quirks.pmu_limit.is_some(),
            _ => true,
        }
    }

    fn range(&self, soc: &Soc) -> Option<(usize, (u64, u64))> {
        let (low, high) = self.hardware(soc);
        let max = if self.boost_flips == soc.boost_flips { self.asked.1 } else { high };
        Some((self.domain, (self.asked.0.clamp(low, high), max.clamp(low, high))))
    }

    fn meddle(&mut self, soc: &Soc) {
        (self.asked, self.boost_flips) = (self.hardware(soc), soc.boost_flips);
    }
}

const ATTRS: &[Attr<Cpufreq>] = &[
    ro("affected_cpus", |p, soc| cpus(p.domain(soc).cpus.iter().filter(|&&cpu| soc.online[cpu]))),
    ro("related_cpus", |p, soc| cpus(p.domain(soc).cpus.iter())),
    ro("cpuinfo_min_freq", |p, soc| line(p.hardware(soc).0)),
    ro("cpuinfo_max_freq", |p, soc| line(p.hardware(soc).1)),
    ro("cpuinfo_cur_freq", |p, soc| line(p.domain(soc).clock())),
    ro("cpuinfo_transition_latency", |_, _| line(5_000_000)),
    ro("scaling_cur_freq", |p, soc| line(p.domain(soc).asked())),
    rw("scaling_min_freq", |p, soc| line(p.shown(soc).0), store_min),
    rw("scaling_max_freq", |p, soc| line(p.shown(soc).1), store_max),
    ro("scaling_available_frequencies", show_available),
    ro("scaling_boost_frequencies", |p, soc| list(p.domain(soc).table[p.domain(soc).plain..].iter())),
    rw("scaling_governor", show_governor, store_governor),
    ro("scaling_available_governors", |p, _| list(p.governors().into_iter())),
    ro("scaling_driver", |_, _| line("simulated-cpufreq")),
    rw("scaling_setspeed", |_, _| line("<unsupported>"), |_, _, _| Err(libc::EINVAL)),
    ro("stats/time_in_state", |p, soc| residency(p.domain(soc), TICK_NS)),
    ro("stats/total_trans", |p, soc| line(p.domain(soc).transitions)),
    ro("dcvsh_freq_limit", |p, soc| line(p.domain(soc).firmware.min(p.domain(soc).top()))),
    rw("sched_pixel/limit_frequency", |p, _| line(p.quirks.pmu_limit.unwrap_or(0)), store_limit),
    rw("sched_pixel/pmu_limit_enable", show_limit_enable, store_limit_enable),
];

fn cpus<'a>(cpus: impl Iterator<Item = &'a usize>) -> Shown {
    let names: Vec<String> = cpus.map(usize::to_string).collect();
    line(names.join(" "))
}

fn show_available(policy: &Cpufreq, soc: &Soc) -> Shown {
    let domain = policy.domain(soc);
    let plain = &domain.table[..domain.plain];
    match policy.quirks.list {
        ListStyle::Descending => list(plain.iter().rev()),
        ListStyle::Empty => line(""),
        ListStyle::Ascending | ListStyle::Missing => list(plain.iter()),
    }
}

fn store_min(policy: &mut Cpufreq, soc: &mut Soc, text: &str) -> Stored {
    policy.usable(soc)?;
    let value = policy.parse(text)?;
    if policy.quirks.limits == LimitStyle::Legacy && value > policy.shown(soc).1 {
        return Err(libc::EINVAL);
    }
    policy.asked.0 = value;
    Ok(())
}

fn store_max(policy: &mut Cpufreq, soc: &mut Soc, text: &str) -> Stored {
    policy.usable(soc)?;
    let value = policy.parse(text)?;
    if policy.quirks.limits == LimitStyle::Legacy && value < policy.shown(soc).0 {
        return Err(libc::EINVAL);
    }
    (policy.asked.1, policy.boost_flips) = (value, soc.boost_flips);
    Ok(())
}

impl Cpufreq {
    fn governors(&self) -> [&'static str; 3] {
        let stock = if self.quirks.pmu_limit.is_some() { "sched_pixel" } else { "schedutil" };
        [stock, "performance", "powersave"]
    }
}

fn show_governor(policy: &Cpufreq, soc: &Soc) -> Shown {
    let [stock, performance, powersave] = policy.governors();
    line(match policy.domain(soc).mode {
        Mode::Governor => stock,
        Mode::Performance => performance,
        Mode::Powersave => powersave,
    })
}

fn store_governor(policy: &mut Cpufreq, soc: &mut Soc, text: &str) -> Stored {
    policy.usable(soc)?;
    let mode = match super::one_of(&policy.governors(), text)? {
        0 => Mode::Governor,
        1 => Mode::Performance,
        _ => Mode::Powersave,
    };
    soc.domains[policy.domain].mode = mode;
    Ok(())
}

fn store_limit(policy: &mut Cpufreq, soc: &mut Soc, text: &str) -> Stored {
    let value = whole(text)?;
    policy.quirks.pmu_limit = Some(value);
    let domain = &mut soc.domains[policy.domain];
    if domain.pmu_limit != UNLIMITED {
        domain.pmu_limit = value;
    }
    Ok(())
}

fn show_limit_enable(policy: &Cpufreq, soc: &Soc) -> Shown {
    line(u8::from(policy.domain(soc).pmu_limit != UNLIMITED))
}

fn store_limit_enable(policy: &mut Cpufreq, soc: &mut Soc, text: &str) -> Stored {
    let limit = match whole::<u8>(text)? {
        0 => UNLIMITED,
        _ => policy.quirks.pmu_limit.unwrap_or(UNLIMITED),
    };
    soc.domains[policy.domain].pmu_limit = limit;
    Ok(())
}
