//! Qualcomm Adreno (kgsl). Power levels: 0 is the fastest; writes out of order are clipped, never refused;
//! thermal_pwrlevel is a cap of its own. Source: kgsl_pwrctrl.c of the sm8550 graphics kernel.

use super::{Attr, Family, Shown, Stored, line, list, ro, rw, whole};
use crate::twin::domain::{Domain, UNLIMITED};
use crate::twin::soc::Soc;

/// Farthest that a clock written to a clock node may be from the level it means, kHz.
const NEAR_KHZ: u64 = 5_000;

/// Clock holds (`force_clk_on`, ...), by their place in the table below.
const HOLDS: usize = 5;

/// The GPU.
pub struct Kgsl {
    domain: usize,
    /// Slowest and fastest allowed level: a large and a small number.
    min_level: usize,
    max_level: usize,
    thermal_level: usize,
    holds: [u32; HOLDS],
    idle_timer_ms: u32,
}

impl Kgsl {
    /// The GPU of a domain, its range open.
    pub fn new(domain: usize, soc: &Soc) -> Self {
        let levels = soc.domains[domain].table.len();
        Kgsl {
            domain,
            min_level: levels - 1,
            max_level: 0,
            thermal_level: 0,
            holds: [0; HOLDS],
            idle_timer_ms: 80,
        }
    }

    fn domain<'a>(&self, soc: &'a Soc) -> &'a Domain {
        &soc.domains[self.domain]
    }

    fn levels(&self, soc: &Soc) -> usize {
        self.domain(soc).table.len()
    }

    /// Clock of a level, kHz.
    fn khz(&self, soc: &Soc, level: usize) -> u64 {
        self.domain(soc).table[self.levels(soc) - 1 - level]
    }

    /// The level of a clock given in kHz, if one is near enough.
    fn level_near(&self, soc: &Soc, khz: u64) -> Option<usize> {
        (0..self.levels(soc)).find(|&level| self.khz(soc, level).abs_diff(khz) < NEAR_KHZ)
    }

    /// The active level.
    fn active(&self, soc: &Soc) -> usize {
        self.levels(soc) - 1 - self.domain(soc).level
    }

    /// The clock now; 0 while the GPU sleeps and nothing holds it up.
    fn clock_khz(&self, soc: &Soc) -> u64 {
        let held = self.holds[0] != 0 || self.holds[3] != 0;
        if soc.gpu_sleeps() && !held { 0 } else { self.domain(soc).clock() }
    }

    /// The thermal cap in force: the node's own or the kernel's, whichever is slower.
    fn thermal(&self, soc: &Soc) -> usize {
        let kernel = match self.domain(soc).cap() {
            UNLIMITED => 0,
            cap => self.levels(soc) - 1 - self.domain(soc).at_most(cap),
        };
        kernel.max(self.thermal_level)
    }

    fn set_thermal(&mut self, soc: &Soc, khz: u64) -> Stored {
        self.thermal_level = self.level_near(soc, khz).ok_or(libc::ERANGE)?;
        Ok(())
    }

    fn set_floor(&mut self, soc: &Soc, khz: u64) -> Stored {
        if let Some(level) = self.level_near(soc, khz) {
            self.min_level = level.max(self.max_level);
        }
        Ok(())
    }
}

impl Family for Kgsl {
    fn table(&self) -> &'static [Attr<Self>] {
        ATTRS
    }

    fn range(&self, soc: &Soc) -> Option<(usize, (u64, u64))> {
        let min = self.khz(soc, self.min_level);
        let max = self.khz(soc, self.max_level.max(self.thermal_level));
        Some((self.domain, (min.min(max), max)))
    }

    fn meddle(&mut self, soc: &Soc) {
        self.max_level = 0;
        self.min_level = self.levels(soc) - 1;
    }
}

const ATTRS: &[Attr<Kgsl>] = &[
    ro("num_pwrlevels", |g, soc| line(g.levels(soc))),
    rw(
        "max_pwrlevel",
        |g, _| line(g.max_level),
        |g, _, text| {
            g.max_level = whole::<u32>(text)?.min(g.min_level as u32) as usize;
            Ok(())
        },
    ),
    rw(
        "min_pwrlevel",
        |g, _| line(g.min_level),
        |g, soc, text| {
            let slowest = g.levels(soc) - 1;
            g.min_level = (whole::<u32>(text)? as usize).min(slowest).max(g.max_level);
            Ok(())
        },
    ),
    rw("default_pwrlevel", |g, soc| line(g.levels(soc) - 1), |_, _, text| whole::<u32>(text).map(drop)),
    rw(
        "thermal_pwrlevel",
        |g, soc| line(g.thermal(soc)),
        |g, soc, text| {
            g.thermal_level = (whole::<u32>(text)? as usize).min(g.levels(soc) - 1);
            Ok(())
        },
    ),
    ro("gpu_available_frequencies", |g, soc| list(g.domain(soc).table.iter().rev().map(|khz| khz * 1000))),
    ro("freq_table_mhz", |g, soc| list(g.domain(soc).table.iter().rev().map(|khz| khz / 1000))),
    rw("gpuclk", |g, soc| line(g.clock_khz(soc) * 1000), |_, _, text| whole::<u64>(text).map(drop)),
    ro("clock_mhz", |g, soc| line(g.clock_khz(soc) / 1000)),
    rw(
        "max_gpuclk",
        |g, soc| line(g.khz(soc, g.thermal(soc)) * 1000),
        |g, soc, text| g.set_thermal(soc, whole::<u64>(text)? / 1000),
    ),
    rw(
        "max_clock_mhz",
        |g, soc| line(g.khz(soc, g.thermal(soc)) / 1000),
        |g, soc, text| g.set_thermal(soc, whole::<u64>(text)?.saturating_mul(1000)),
    ),
    rw(
        "min_clock_mhz",
        |g, soc| line(g.khz(soc, g.min_level) / 1000),
        |g, soc, text| g.set_floor(soc, whole::<u64>(text)?.saturating_mul(1000)),
    ),
    ro("gpubusy", show_busy),
    ro("gpu_busy_percentage", |g, soc| line(format_args!("{} %", percent(g, soc)))),
    ro("gpu_model", |_, _| line("Adreno740v2")),
    rw("force_clk_on", |g, _| line(g.holds[0]), |g, _, text| hold(g, 0, text)),
    rw("force_bus_on", |g, _| line(g.holds[1]), |g, _, text| hold(g, 1, text)),
    rw("force_rail_on", |g, _| line(g.holds[2]), |g, _, text| hold(g, 2, text)),
    rw("force_no_nap", |g, _| line(g.holds[3]), |g, _, text| hold(g, 3, text)),
    rw("bus_split", |g, _| line(g.holds[4]), |g, _, text| hold(g, 4, text)),
    rw(
        "idle_timer",
        |g, _| line(g.idle_timer_ms),
        |g, _, text| {
            g.idle_timer_ms = whole(text)?;
            Ok(())
        },
    ),
    ro("devfreq/cur_freq", |g, soc| line(g.khz(soc, g.active(soc)) * 1000)),
    ro("devfreq/min_freq", |g, soc| line(g.khz(soc, g.min_level) * 1000)),
    ro("devfreq/max_freq", |g, soc| line(g.khz(soc, g.max_level.max(g.thermal(soc))) * 1000)),
    ro("devfreq/available_frequencies", |g, soc| {
        list(g.domain(soc).table.iter().rev().map(|khz| khz * 1000))
    }),
    ro("devfreq/governor", |_, _| line("msm-adreno-tz")),
];

fn hold(gpu: &mut Kgsl, which: usize, text: &str) -> Stored {
    gpu.holds[which] = whole::<u32>(text)?.min(1);
    Ok(())
}

fn percent(gpu: &Kgsl, soc: &Soc) -> u64 {
    (soc.utilisation(gpu.domain) * 100.0).round() as u64
}

fn show_busy(gpu: &Kgsl, soc: &Soc) -> Shown {
    match soc.gpu_sleeps() {
        true => line("      0       0"),
        false => line(format_args!("{:7} {:7}", percent(gpu, soc) * 10_000, 1_000_000)),
    }
}
