//! Cooling devices: state N caps a domain at the Nth step below its top. Source: Linux
//! drivers/thermal/cpufreq_cooling.c.

use super::{Attr, Family, line, ro, rw, whole};
use crate::profile::Role;
use crate::twin::soc::Soc;

/// The cooling device of a domain.
pub struct Cooling {
    domain: usize,
    number: usize,
}

impl Cooling {
    /// The cooling device with this number.
    pub fn new(domain: usize, number: usize) -> Self {
        Cooling { domain, number }
    }

    fn most(&self, soc: &Soc) -> usize {
        soc.domains[self.domain].table.len() - 1
    }
}

impl Family for Cooling {
    fn table(&self) -> &'static [Attr<Self>] {
        ATTRS
    }
}

const ATTRS: &[Attr<Cooling>] = &[
    ro("type", |c, soc| match soc.domains[c.domain].role {
        Role::Cpu => line(format_args!("thermal-cpufreq-{}", c.number)),
        Role::Gpu | Role::Memory => line("thermal-gpufreq-0"),
    }),
    ro("max_state", |c, soc| line(c.most(soc))),
    rw(
        "cur_state",
        |c, soc| {
            let outside = &soc.domains[c.domain].outside;
            line(outside.cooling.max(outside.throttle))
        },
        |c, soc, text| {
            let state = whole::<usize>(text)?;
            if state > c.most(soc) {
                return Err(libc::EINVAL);
            }
            soc.domains[c.domain].outside.cooling = state;
            Ok(())
        },
    ),
];
