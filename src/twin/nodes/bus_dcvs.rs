//! Qualcomm bus_dcvs: several monitors vote for the bus, each within its own min/max pair; the highest vote wins,
//! so a pin must be written to every monitor. One of them may write its own floor again at intervals. Source:
//! the sm8550 device tree and dcvs drivers.

use super::{Driver, Shown, Stored, line, list, whole};
use crate::twin::domain::Domain;
use crate::twin::soc::Soc;

const OWN: [(&str, u16); 4] =
    [("available_frequencies", 0o444), ("cur_freq", 0o444), ("boost_freq", 0o644), ("hw_min_freq", 0o444)];

struct Monitor {
    name: String,
    min: u64,
    max: u64,
}

/// A bus.
pub struct BusDcvs {
    domain: usize,
    boost: u64,
    monitors: Vec<Monitor>,
    reasserts: Option<usize>,
}

impl BusDcvs {
    /// The bus of a domain, every monitor's range open.
    pub fn new(domain: usize, names: &[String], reasserts: Option<&String>, soc: &Soc) -> Self {
        let (min, max) = (soc.domains[domain].lowest(), soc.domains[domain].top());
        let monitors: Vec<Monitor> =
            names.iter().map(|name| Monitor { name: name.clone(), min, max }).collect();
        let reasserts = reasserts.and_then(|name| names.iter().position(|n| n == name));
        BusDcvs { domain, boost: 0, monitors, reasserts }
    }

    fn domain<'a>(&self, soc: &'a Soc) -> &'a Domain {
        &soc.domains[self.domain]
    }
}

impl Driver for BusDcvs {
    fn attrs(&self) -> Vec<(String, u16)> {
        let own = OWN.iter().map(|&(name, mode)| (name.to_owned(), mode));
        let pairs = self.monitors.iter().flat_map(|monitor| {
            ["min_freq", "max_freq"].map(|end| (format!("{}/{end}", monitor.name), 0o644))
        });
        own.chain(pairs).collect()
    }

    fn show(&self, attr: usize, soc: &Soc) -> Shown {
        let domain = self.domain(soc);
        match attr {
            0 => list(domain.table.iter()),
            1 => line(domain.clock()),
            2 => line(self.boost),
            3 => line(domain.lowest()),
            pair => {
                let monitor = self.monitors.get((pair - OWN.len()) / 2).ok_or(libc::ENOENT)?;
                line(if (pair - OWN.len()).is_multiple_of(2) { monitor.min } else { monitor.max })
            }
        }
    }

    fn store(&mut self, attr: usize, soc: &mut Soc, text: &str) -> Stored {
        let value: u64 = whole::<u32>(text)?.into();
        let domain = &soc.domains[self.domain];
        let value = value.clamp(domain.lowest(), domain.top());
        if attr < OWN.len() {
            self.boost = value;
            return if attr == 2 { Ok(()) } else { Err(libc::EACCES) };
        }
        let pair = attr - OWN.len();
        let monitor = self.monitors.get_mut(pair / 2).ok_or(libc::ENOENT)?;
        // Crossing values are clipped at the monitor's other end.
        if pair.is_multiple_of(2) {
            monitor.min = value.min(monitor.max);
        } else {
            monitor.max = value.max(monitor.min);
        }
        Ok(())
    }

    fn range(&self, _soc: &Soc) -> Option<(usize, (u64, u64))> {
        let min = self.monitors.iter().map(|m| m.min).max()?;
        let max = self.monitors.iter().map(|m| m.max).max()?;
        Some((self.domain, (min.max(self.boost).min(max), max)))
    }

    /// The monitor that re-asserts writes its own range again; without one, a daemon opens them all.
    fn meddle(&mut self, soc: &Soc) {
        let (min, max) = (soc.domains[self.domain].lowest(), soc.domains[self.domain].top());
        for (index, monitor) in self.monitors.iter_mut().enumerate() {
            if self.reasserts.is_none_or(|own| own == index) {
                (monitor.min, monitor.max) = (min, max);
            }
        }
    }
}
