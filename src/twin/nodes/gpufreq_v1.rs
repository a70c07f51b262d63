//! MediaTek GPUFREQ v1 (`/proc/gpufreq`): kHz, 0 frees; a number that is not in the table is accepted and
//! ignored. Source: mtk_gpufreq_core.c of MediaTek 4.x kernels.

use super::{Attr, Family, Shown, line, ro, rw, whole};
use crate::twin::domain::{Domain, UNLIMITED};
use crate::twin::soc::Soc;
use std::fmt::Write;

/// The GPU.
pub struct GpufreqV1 {
    domain: usize,
    kept: Option<u64>,
    ignored_limits: u8,
}

impl GpufreqV1 {
    /// The GPU of a domain, running free.
    pub fn new(domain: usize) -> Self {
        GpufreqV1 { domain, kept: None, ignored_limits: 0 }
    }

    fn domain<'a>(&self, soc: &'a Soc) -> &'a Domain {
        &soc.domains[self.domain]
    }

    fn index(&self, soc: &Soc, khz: u64) -> usize {
        self.domain(soc).table.len() - 1 - self.domain(soc).at_least(khz)
    }
}

impl Family for GpufreqV1 {
    fn table(&self) -> &'static [Attr<Self>] {
        ATTRS
    }

    fn range(&self, _soc: &Soc) -> Option<(usize, (u64, u64))> {
        Some((self.domain, self.kept.map_or((0, UNLIMITED), |khz| (khz, khz))))
    }

    fn meddle(&mut self, _soc: &Soc) {
        self.kept = None;
    }
}

const ATTRS: &[Attr<GpufreqV1>] = &[
    ro("gpufreq_opp_dump", show_dump),
    rw("gpufreq_opp_freq", show_kept, |g, soc, text| {
        // Text that is no number is EFAULT, the driver's initial return value.
        let khz: u64 = whole::<u32>(text).map_err(|_| libc::EFAULT)?.into();
        if khz == 0 {
            g.kept = None;
        } else if g.domain(soc).table.contains(&khz) {
            g.kept = Some(khz);
        }
        Ok(())
    }),
    ro("gpufreq_var_dump", |g, soc| {
        let khz = g.domain(soc).clock();
        line(format_args!("g_cur_opp_freq = {khz}, g_cur_opp_idx = {}", g.index(soc, khz)))
    }),
    rw(
        "gpufreq_power_limited",
        |g, _| line(format_args!("ignore_thermal_protect: {}", g.ignored_limits)),
        |g, _, text| {
            let (_, value) = text.trim().split_once(' ').ok_or(libc::EINVAL)?;
            g.ignored_limits = whole::<u8>(value)?.min(1);
            Ok(())
        },
    ),
];

fn show_dump(gpu: &GpufreqV1, soc: &Soc) -> Shown {
    let mut text = String::new();
    for (index, khz) in gpu.domain(soc).table.iter().rev().enumerate() {
        let _ = writeln!(text, "[{index}] freq = {khz}, volt = 80000, vsram = 90000");
    }
    Ok(text)
}

fn show_kept(gpu: &GpufreqV1, soc: &Soc) -> Shown {
    match gpu.kept {
        None => line("[GPU-DVFS] fixed OPP is disabled"),
        Some(khz) => {
            let index = gpu.index(soc, khz);
            line(format_args!(
                "[GPU-DVFS] fixed OPP is enabled\n[{index}] freq = {khz}, volt = 80000, vsram = 90000"
            ))
        }
    }
}
