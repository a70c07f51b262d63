//! Generic devfreq, in Hz, kHz or MB/s. Limits are QoS requests kept in kHz: a minimum is rounded down to kHz, a
//! maximum up; 0 frees; the effective range is shown. Older kernels refuse crossing limits. Source: Linux
//! drivers/devfreq/devfreq.c.

use super::{Attr, Family, Shown, Stored, line, list, one_of, ro, rw, whole};
use crate::profile::DevfreqUnit;
use crate::twin::domain::{Domain, Mode, UNLIMITED};
use crate::twin::soc::Soc;
use crate::twin::spec::{LimitStyle, ListStyle, Quirks};
use std::fmt::Write;

const GOVERNORS: &[&str] = &["simple_ondemand", "performance", "powersave"];

/// A device.
pub struct Devfreq {
    domain: usize,
    /// What a node's number is, per unit of the domain.
    scale: u64,
    quirks: Quirks,
    asked: (u64, u64),
    polling_ms: u32,
}

impl Devfreq {
    /// The device of a domain, its range open.
    pub fn new(domain: usize, unit: Option<DevfreqUnit>, quirks: Quirks) -> Self {
        let scale = match unit {
            Some(DevfreqUnit::KHz | DevfreqUnit::MBps) => 1,
            Some(DevfreqUnit::Hz) | None => 1000,
        };
        Devfreq { domain, scale, quirks, asked: (0, UNLIMITED), polling_ms: 50 }
    }

    fn domain<'a>(&self, soc: &'a Soc) -> &'a Domain {
        &soc.domains[self.domain]
    }

    /// The effective range, within what the table has.
    fn shown(&self, soc: &Soc) -> (u64, u64) {
        let domain = self.domain(soc);
        let (min, max) = domain.limits();
        let max = max.clamp(domain.lowest(), domain.top());
        (min.max(domain.lowest()).min(max), max)
    }

    fn number(&self, value: u64) -> Shown {
        line(value * self.scale)
    }
}

impl Family for Devfreq {
    fn table(&self) -> &'static [Attr<Self>] {
        ATTRS
    }

    fn has(&self, name: &str) -> bool {
        name != "available_frequencies" || self.quirks.list != ListStyle::Missing
    }

    fn range(&self, _soc: &Soc) -> Option<(usize, (u64, u64))> {
        Some((self.domain, self.asked))
    }

    fn meddle(&mut self, _soc: &Soc) {
        self.asked = (0, UNLIMITED);
    }
}

const ATTRS: &[Attr<Devfreq>] = &[
    rw("min_freq", |d, soc| d.number(d.shown(soc).0), store_min),
    rw("max_freq", |d, soc| d.number(d.shown(soc).1), store_max),
    ro("cur_freq", |d, soc| d.number(d.domain(soc).clock())),
    ro("target_freq", |d, soc| d.number(d.domain(soc).asked())),
    ro("available_frequencies", show_available),
    rw("governor", |d, soc| line(GOVERNORS[d.domain(soc).mode as usize]), store_governor),
    ro("available_governors", |_, _| line(GOVERNORS.join(" "))),
    rw(
        "polling_interval",
        |d, _| line(d.polling_ms),
        |d, _, text| {
            d.polling_ms = whole(text)?;
            Ok(())
        },
    ),
    ro("trans_stat", show_trans_stat),
];

fn store_min(device: &mut Devfreq, soc: &mut Soc, text: &str) -> Stored {
    let value = whole::<u64>(text)? / device.scale;
    if device.quirks.limits == LimitStyle::Legacy && value > device.shown(soc).1 {
        return Err(libc::EINVAL);
    }
    device.asked.0 = value;
    Ok(())
}

fn store_max(device: &mut Devfreq, soc: &mut Soc, text: &str) -> Stored {
    let value = match whole::<u64>(text)? {
        0 => UNLIMITED,
        number => number.div_ceil(device.scale),
    };
    if device.quirks.limits == LimitStyle::Legacy && value < device.shown(soc).0 {
        return Err(libc::EINVAL);
    }
    device.asked.1 = value;
    Ok(())
}

fn show_available(device: &Devfreq, soc: &Soc) -> Shown {
    let table = device.domain(soc).table.iter().map(|value| value * device.scale);
    match device.quirks.list {
        ListStyle::Empty => line(""),
        ListStyle::Descending => list(table.rev()),
        ListStyle::Ascending | ListStyle::Missing => {
            // The core trims the last space.
            list(table).map(|text| text.replace(" \n", "\n"))
        }
    }
}

fn store_governor(device: &mut Devfreq, soc: &mut Soc, text: &str) -> Stored {
    soc.domains[device.domain].mode = match one_of(GOVERNORS, text)? {
        0 => Mode::Governor,
        1 => Mode::Performance,
        _ => Mode::Powersave,
    };
    Ok(())
}

/// Transitions are not told apart by pair: the counts of the matrix are all in its diagonal-free sum below it.
fn show_trans_stat(device: &Devfreq, soc: &Soc) -> Shown {
    let domain = device.domain(soc);
    let mut text = String::from("     From  :   To\n           :");
    for value in &domain.table {
        let _ = write!(text, "{:10}", value * device.scale);
    }
    text.push_str("   time(ms)\n");
    for (index, (value, time)) in domain.table.iter().zip(&domain.time_ns).enumerate() {
        let mark = if index == domain.level { '*' } else { ' ' };
        let _ = write!(text, "{mark}{:10}:", value * device.scale);
        domain.table.iter().for_each(|_| text.push_str("         0"));
        let _ = writeln!(text, "{:10}", time / 1_000_000);
    }
    let _ = writeln!(text, "Total transition : {}", domain.transitions);
    Ok(text)
}
