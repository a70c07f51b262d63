//! Samsung Exynos gpex (`/sys/kernel/gpu`): kHz, 0 frees, other values are rounded to the table, unusable ones
//! are ENOENT; a lock at the end of the table is no lock. Source: gpex_clock_sysfs.c.

use super::{Attr, Family, Shown, Stored, line, list, ro, rw, whole};
use crate::twin::domain::{Domain, UNLIMITED};
use crate::twin::soc::Soc;

/// A lock: what was asked and what it was rounded to; `None`: not set.
type Lock = Option<(u64, u64)>;

/// The GPU.
pub struct Gpex {
    domain: usize,
    min: Lock,
    max: Lock,
}

impl Gpex {
    /// The GPU of a domain, without locks.
    pub fn new(domain: usize) -> Self {
        Gpex { domain, min: None, max: None }
    }

    fn domain<'a>(&self, soc: &'a Soc) -> &'a Domain {
        &soc.domains[self.domain]
    }
}

impl Family for Gpex {
    fn table(&self) -> &'static [Attr<Self>] {
        ATTRS
    }

    fn range(&self, _soc: &Soc) -> Option<(usize, (u64, u64))> {
        Some((self.domain, (self.min.map_or(0, |l| l.1), self.max.map_or(UNLIMITED, |l| l.1))))
    }

    fn meddle(&mut self, _soc: &Soc) {
        self.min = None;
        self.max = None;
    }
}

const ATTRS: &[Attr<Gpex>] = &[
    ro("gpu_freq_table", |g, soc| list(g.domain(soc).table.iter().rev())),
    ro("gpu_clock", |g, soc| line(if soc.gpu_sleeps() { 0 } else { g.domain(soc).clock() })),
    rw("gpu_min_clock", |g, _| show(g.min), store_min),
    rw("gpu_max_clock", |g, _| show(g.max), store_max),
    ro("gpu_busy", |g, soc| line(format_args!("{:.0}%", soc.utilisation(g.domain) * 100.0))),
    ro("gpu_governor", |_, _| line("Interactive")),
    ro("gpu_model", |_, _| line("Mali-G78")),
];

fn show(lock: Lock) -> Shown {
    match lock {
        Some((asked, rounded)) => line(format_args!("{rounded} / {asked}")),
        None => line("-1"),
    }
}

fn store_min(gpu: &mut Gpex, soc: &mut Soc, text: &str) -> Stored {
    let domain = &soc.domains[gpu.domain];
    gpu.min = lock(domain, text, |khz| domain.table[domain.at_least(khz)], domain.lowest())?;
    Ok(())
}

fn store_max(gpu: &mut Gpex, soc: &mut Soc, text: &str) -> Stored {
    let domain = &soc.domains[gpu.domain];
    gpu.max = lock(domain, text, |khz| domain.table[domain.at_most(khz)], domain.top())?;
    Ok(())
}

fn lock(domain: &Domain, text: &str, round: impl Fn(u64) -> u64, end: u64) -> Result<Lock, i32> {
    let khz: u64 = whole::<u32>(text).map_err(|_| libc::ENOENT)?.into();
    match khz {
        0 => Ok(None),
        khz if khz < domain.lowest() || khz > domain.top() => Err(libc::ENOENT),
        khz => Ok(Some((khz, round(khz))).filter(|lock| lock.1 != end)),
    }
}
