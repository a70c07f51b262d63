//! Pixel / Tensor Mali. kHz of the shader clock; exact table values; a lock that crosses the other resets it;
//! reads show the own lock only. Source: google-modules gpu, pixel_gpu_sysfs.c and pixel_gpu_dvfs.c.

use super::{Attr, Family, Shown, bracketed, line, list, one_of, residency, ro, rw, whole};
use crate::twin::domain::{Domain, UNLIMITED};
use crate::twin::soc::Soc;
use crate::twin::spec::Quirks;
use std::fmt::Write;

const POLICIES: &[&str] = &["coarse_demand", "adaptive", "always_on"];
/// The top-level clock runs a fixed ratio above the shader clock (996 at 848 MHz).
const TOP_LEVEL: (u64, u64) = (996, 848);

/// A pair of locks, as operating points; `None`: not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lock {
    min: Option<u64>,
    max: Option<u64>,
}

impl Lock {
    /// Sets one end. A value at the hardware's end of the range is no lock; an end that crosses the other resets
    /// it.
    fn set_min(&mut self, value: u64, domain: &Domain) {
        self.min = Some(value).filter(|&v| v != domain.lowest());
        self.max = self.max.filter(|&max| max >= value);
    }

    fn set_max(&mut self, value: u64, domain: &Domain) {
        self.max = Some(value).filter(|&v| v != domain.top());
        self.min = self.min.filter(|&min| min <= value);
    }

    /// Folds this lock into a range; where they conflict, this one wins.
    fn fold(self, range: (u64, u64)) -> (u64, u64) {
        let (mut min, mut max) = range;
        if let Some(floor) = self.min {
            min = min.max(floor);
            max = max.max(min);
        }
        if let Some(cap) = self.max {
            max = max.min(cap);
            min = min.min(max);
        }
        (min, max)
    }
}

/// The GPU.
pub struct PixelMali {
    domain: usize,
    devicetree: Lock,
    hint: Lock,
    user: Lock,
    policy: usize,
    period_ms: u32,
}

impl PixelMali {
    /// The GPU of a domain, without locks.
    pub fn new(domain: usize, quirks: &Quirks) -> Self {
        let devicetree = quirks.devicetree;
        PixelMali {
            domain,
            devicetree: Lock { min: devicetree.map(|d| d.0), max: devicetree.map(|d| d.1) },
            hint: Lock::default(),
            user: Lock::default(),
            policy: 1,
            period_ms: 20,
        }
    }

    fn domain<'a>(&self, soc: &'a Soc) -> &'a Domain {
        &soc.domains[self.domain]
    }

    /// An exact table value, or EINVAL.
    fn parse(&self, soc: &Soc, text: &str) -> Result<u64, i32> {
        let value = whole(text)?;
        self.domain(soc).table.binary_search(&value).map(|_| value).map_err(|_| libc::EINVAL)
    }

    /// The range of every lock but thermal, in the driver's order.
    fn folded(&self, soc: &Soc) -> (u64, u64) {
        let domain = self.domain(soc);
        [self.devicetree, self.hint, self.user]
            .iter()
            .fold((domain.lowest(), domain.top()), |range, lock| lock.fold(range))
    }
}

impl Family for PixelMali {
    fn table(&self) -> &'static [Attr<Self>] {
        ATTRS
    }

    fn range(&self, soc: &Soc) -> Option<(usize, (u64, u64))> {
        Some((self.domain, self.folded(soc)))
    }

    fn meddle(&mut self, _soc: &Soc) {
        self.user = Lock::default();
    }
}

const ATTRS: &[Attr<PixelMali>] = &[
    ro("available_frequencies", |g, soc| list(g.domain(soc).table.iter().rev())),
    ro("min_freq", |g, soc| line(g.domain(soc).lowest())),
    ro("max_freq", |g, soc| line(g.domain(soc).top())),
    ro("cur_freq", |g, soc| line(g.domain(soc).asked())),
    rw(
        "scaling_min_freq",
        |g, soc| show_min(g.user, g, soc),
        |g, soc, text| {
            let value = g.parse(soc, text)?;
            g.user.set_min(value, &soc.domains[g.domain]);
            Ok(())
        },
    ),
    rw(
        "scaling_max_freq",
        |g, soc| show_max(g.user, g, soc),
        |g, soc, text| {
            let value = g.parse(soc, text)?;
            g.user.set_max(value, &soc.domains[g.domain]);
            Ok(())
        },
    ),
    rw(
        "hint_min_freq",
        |g, soc| show_min(g.hint, g, soc),
        |g, soc, text| {
            let value = g.parse(soc, text)?;
            g.hint.set_min(value, &soc.domains[g.domain]);
            Ok(())
        },
    ),
    rw(
        "hint_max_freq",
        |g, soc| show_max(g.hint, g, soc),
        |g, soc, text| {
            let value = g.parse(soc, text)?;
            g.hint.set_max(value, &soc.domains[g.domain]);
            Ok(())
        },
    ),
    ro("scaling_min_compute_freq", |g, soc| line(g.domain(soc).lowest())),
    ro("time_in_state", |g, soc| residency(g.domain(soc), 1_000_000)),
    ro("trans_stat", |g, soc| line(format_args!("Total transition : {}", g.domain(soc).transitions))),
    ro("clock_info", show_clock_info),
    ro("utilization", |g, soc| line((soc.utilisation(g.domain) * 100.0).round() as u64)),
    rw("governor", |_, _| line("quickstep"), |_, _, text| one_of(&["quickstep"], text).map(drop)),
    ro("available_governors", |_, _| line("quickstep")),
    rw(
        "power_policy",
        |g, _| bracketed(POLICIES, g.policy),
        |g, _, text| {
            g.policy = one_of(POLICIES, text)?;
            Ok(())
        },
    ),
    rw(
        "dvfs_period",
        |g, _| line(g.period_ms),
        |g, _, text| {
            g.period_ms = whole(text)?;
            Ok(())
        },
    ),
];

fn show_min(lock: Lock, gpu: &PixelMali, soc: &Soc) -> Shown {
    line(lock.min.unwrap_or_else(|| gpu.domain(soc).lowest()))
}

fn show_max(lock: Lock, gpu: &PixelMali, soc: &Soc) -> Shown {
    line(lock.max.unwrap_or_else(|| gpu.domain(soc).top()))
}

fn show_clock_info(gpu: &PixelMali, soc: &Soc) -> Shown {
    let domain = gpu.domain(soc);
    let clock = domain.asked();
    let powered = !soc.gpu_sleeps() || gpu.policy == 2;
    let cap = Some(domain.cap()).filter(|&cap| cap != UNLIMITED);
    let thermal = Lock { min: None, max: cap.map(|cap| domain.table[domain.at_most(cap)]) };
    let (min, max) = thermal.fold(gpu.folded(soc));
    let mut text = String::with_capacity(640);
    let power = if powered { "on" } else { "off" };
    let _ = writeln!(text, "BASIC STATUS\n Power status            : {power}");
    let _ = writeln!(text, " gpu0 clock (top level)  : {} kHz", clock * TOP_LEVEL.0 / TOP_LEVEL.1);
    let _ = writeln!(text, " gpu1 clock (shaders)    : {clock} kHz\n\nLEVEL LOCK STATUS");
    text.push_str(" Type            | Min (kHz) | Max (kHz)\n ----------------+-----------+-----------\n");
    let locks = [
        ("devicetree", gpu.devicetree),
        ("compute", Lock::default()),
        ("hint", gpu.hint),
        ("sysfs", gpu.user),
        ("thermal", thermal),
    ];
    for (name, lock) in locks {
        write_lock(&mut text, name, lock.min, lock.max);
    }
    write_lock(&mut text, "Effective Range", Some(min), Some(max));
    write_votes(&mut text, domain);
    Ok(text)
}

fn write_lock(text: &mut String, name: &str, min: Option<u64>, max: Option<u64>) {
    let _ = match min {
        Some(min) => write!(text, " {name:<15} | {min:<10}| "),
        None => write!(text, " {name:<15} | -         | "),
    };
    let _ = match max {
        Some(max) => writeln!(text, "{max}"),
        None => writeln!(text, "-"),
    };
}

fn write_votes(text: &mut String, domain: &Domain) {
    let floors = domain.votes.iter().filter(|vote| domain.asked() >= vote.at).map(|vote| vote.floor);
    let floor = floors.max().unwrap_or(0);
    let _ = writeln!(text, "\nQOS STATUS\n QOS enabled             : yes\n INT min clock           : 0 kHz");
    let _ = writeln!(text, " MIF min clock           : {floor} kHz\n CPU cluster 0 min clock : 0 kHz");
    text.push_str(" CPU cluster 1 min clock : 0 kHz\n CPU cluster 2 max clock : none set\n");
}
