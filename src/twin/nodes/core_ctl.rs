//! Qualcomm core_ctl below `/sys/devices/system/cpu/cpuN/core_ctl`: while enabled it may take big cores away.
//! `min_cpus` above the cluster's size is clipped. Source: kernel/sched/walt/core_ctl.c.

use super::{Attr, Family, line, rw, whole};
use crate::twin::soc::Soc;

/// The controller of one cluster.
pub struct CoreCtl {
    cpus: usize,
    enable: u32,
    min: usize,
    max: usize,
}

impl CoreCtl {
    /// A controller of the cluster that `first` is the first CPU of.
    pub fn new(first: usize, soc: &Soc) -> Self {
        let cluster = soc.domains.iter().find(|d| d.cpus.contains(&first));
        let cpus = cluster.map_or(1, |d| d.cpus.len());
        CoreCtl { cpus, enable: 1, min: cpus.saturating_sub(1), max: cpus }
    }
}

impl Family for CoreCtl {
    fn table(&self) -> &'static [Attr<Self>] {
        ATTRS
    }
}

const ATTRS: &[Attr<CoreCtl>] = &[
    rw(
        "enable",
        |c, _| line(c.enable),
        |c, _, text| {
            c.enable = whole::<u32>(text)?.min(1);
            Ok(())
        },
    ),
    rw(
        "min_cpus",
        |c, _| line(c.min),
        |c, _, text| {
            c.min = whole::<usize>(text)?.min(c.max);
            Ok(())
        },
    ),
    rw(
        "max_cpus",
        |c, _| line(c.max),
        |c, _, text| {
            c.max = whole::<usize>(text)?.min(c.cpus);
            c.min = c.min.min(c.max);
            Ok(())
        },
    ),
];
