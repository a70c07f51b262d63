//! Pixel / Exynos memory devfreq, kHz: `scaling_devfreq_min` reads back the request; the debug pair below
//! `exynos_data/` is what the AOSP perf scripts pin with. Source: gs-devfreq.c.

use super::{Attr, Family, Shown, line, list, residency, ro, rw, whole};
use crate::twin::domain::{Domain, UNLIMITED};
use crate::twin::soc::Soc;

/// The memory interface.
pub struct Mif {
    domain: usize,
    /// Requests through `scaling_devfreq_min` and `max_freq`.
    asked: (u64, u64),
    /// Requests through the debug pair.
    debug: (u64, u64),
}

impl Mif {
    /// The interface of a domain; the debug pair starts at the ends of the table.
    pub fn new(domain: usize, soc: &Soc) -> Self {
        let ends = (soc.domains[domain].lowest(), soc.domains[domain].top());
        Mif { domain, asked: ends, debug: ends }
    }

    fn domain<'a>(&self, soc: &'a Soc) -> &'a Domain {
        &soc.domains[self.domain]
    }
}

impl Family for Mif {
    fn table(&self) -> &'static [Attr<Self>] {
        ATTRS
    }

    fn range(&self, _soc: &Soc) -> Option<(usize, (u64, u64))> {
        Some((self.domain, (self.asked.0.max(self.debug.0), self.asked.1.min(self.debug.1))))
    }

    fn meddle(&mut self, soc: &Soc) {
        *self = Mif::new(self.domain, soc);
    }
}

const ATTRS: &[Attr<Mif>] = &[
    ro("available_frequencies", |m, soc| list(m.domain(soc).table.iter().rev())),
    ro("cur_freq", |m, soc| line(m.domain(soc).clock())),
    ro("target_freq", |m, soc| line(m.domain(soc).asked())),
    ro("min_freq", |m, soc| effective(m, soc, |limits| limits.0)),
    rw(
        "max_freq",
        |m, soc| effective(m, soc, |limits| limits.1),
        |m, _, text| {
            m.asked.1 = Some(whole::<u32>(text)?.into()).filter(|&khz| khz != 0).unwrap_or(UNLIMITED);
            Ok(())
        },
    ),
    rw(
        "scaling_devfreq_min",
        |m, _| line(m.asked.0),
        |m, _, text| {
            m.asked.0 = whole::<u32>(text)?.into();
            Ok(())
        },
    ),
    rw(
        "exynos_data/debug_scaling_devfreq_min",
        |m, _| line(m.debug.0),
        |m, _, text| {
            m.debug.0 = whole::<u32>(text)?.into();
            Ok(())
        },
    ),
    rw(
        "exynos_data/debug_scaling_devfreq_max",
        |m, _| line(m.debug.1),
        |m, _, text| {
            m.debug.1 = whole::<u32>(text)?.into();
            Ok(())
        },
    ),
    ro("time_in_state", |m, soc| residency(m.domain(soc), 1_000_000)),
    ro("governor", |_, _| line("interactive")),
];

fn effective(mif: &Mif, soc: &Soc, end: impl Fn((u64, u64)) -> u64) -> Shown {
    let domain = mif.domain(soc);
    line(end(domain.limits()).clamp(domain.lowest(), domain.top()))
}
