//! MediaTek GED (`/sys/kernel/ged/hal`), beside either generation of GPUFREQ: the clock as `index kHz`, and floor
//! and ceiling as table indices, 0 the fastest, which vendor daemons vote through too. Source: MediaTek ged_hal.c.

use super::{Attr, Family, Stored, line, ro, rw, whole};
use crate::twin::domain::Domain;
use crate::twin::soc::Soc;

/// The GPU's votes.
pub struct Ged {
    domain: usize,
    floor: usize,
    ceiling: usize,
}

impl Ged {
    /// Votes that bound nothing.
    pub fn new(domain: usize, soc: &Soc) -> Self {
        Ged { domain, floor: soc.domains[domain].table.len() - 1, ceiling: 0 }
    }

    fn domain<'a>(&self, soc: &'a Soc) -> &'a Domain {
        &soc.domains[self.domain]
    }

    fn khz(&self, soc: &Soc, index: usize) -> u64 {
        let table = &self.domain(soc).table;
        table[table.len() - 1 - index]
    }
}

impl Family for Ged {
    fn table(&self) -> &'static [Attr<Self>] {
        ATTRS
    }

    fn range(&self, soc: &Soc) -> Option<(usize, (u64, u64))> {
        Some((self.domain, (self.khz(soc, self.floor), self.khz(soc, self.ceiling))))
    }
}

const ATTRS: &[Attr<Ged>] = &[
    ro("current_freqency", |g, soc| {
        let clock = g.domain(soc).clock();
        let index = g.domain(soc).table.len() - 1 - g.domain(soc).at_most(clock);
        line(format_args!("{index} {clock}"))
    }),
    rw(
        "custom_boost_gpu_freq",
        |g, _| line(g.floor),
        |g, soc, text| {
            g.floor = index(g, soc, text)?;
            Ok(())
        },
    ),
    rw("custom_upbound_gpu_freq", |g, _| line(g.ceiling), store_ceiling),
];

fn store_ceiling(ged: &mut Ged, soc: &mut Soc, text: &str) -> Stored {
    ged.ceiling = index(ged, soc, text)?;
    Ok(())
}

fn index(ged: &Ged, soc: &Soc, text: &str) -> Result<usize, i32> {
    Ok(whole::<usize>(text)?.min(ged.domain(soc).table.len() - 1))
}
