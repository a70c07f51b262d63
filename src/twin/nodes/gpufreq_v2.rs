//! MediaTek GPUFREQ v2 (`/proc/gpufreqv2`): table index, 0 the fastest, -1 frees; text without a number succeeds
//! and does nothing; the read is a sentence. Source: gpufreq/v2/gpufreq_debug.c.

use super::{Attr, Family, Shown, Stored, line, ro, rw};
use crate::twin::domain::{Domain, UNLIMITED};
use crate::twin::soc::Soc;
use std::fmt::Write;

/// The GPU.
pub struct GpufreqV2 {
    domain: usize,
    /// Clock by index, fastest first; some clocks appear twice.
    rows: Vec<u64>,
    fixed: Option<usize>,
}

impl GpufreqV2 {
    /// The GPU of a domain, running free.
    pub fn new(domain: usize, duplicates: &[u64], soc: &Soc) -> Self {
        let mut rows: Vec<u64> = soc.domains[domain].table.iter().chain(duplicates).copied().collect();
        rows.sort_unstable_by(|a, b| b.cmp(a));
        GpufreqV2 { domain, rows, fixed: None }
    }

    fn domain<'a>(&self, soc: &'a Soc) -> &'a Domain {
        &soc.domains[self.domain]
    }

    /// The index in force now.
    fn index(&self, soc: &Soc) -> usize {
        let clock = self.domain(soc).asked();
        match self.fixed {
            Some(fixed) if self.rows[fixed] == clock => fixed,
            _ => self.rows.iter().position(|&khz| khz == clock).unwrap_or(0),
        }
    }

    fn row_at_most(&self, khz: u64) -> usize {
        self.rows.iter().position(|&row| row <= khz).unwrap_or(self.rows.len() - 1)
    }
}

impl Family for GpufreqV2 {
    fn table(&self) -> &'static [Attr<Self>] {
        ATTRS
    }

    fn range(&self, _soc: &Soc) -> Option<(usize, (u64, u64))> {
        Some((self.domain, self.fixed.map_or((0, UNLIMITED), |index| (self.rows[index], self.rows[index]))))
    }

    fn meddle(&mut self, _soc: &Soc) {
        self.fixed = None;
    }
}

const ATTRS: &[Attr<GpufreqV2>] = &[
    ro("gpufreq_status", show_status),
    ro("gpu_working_opp_table", |g, _| show_table(g)),
    ro("stack_working_opp_table", |_, _| Ok(String::new())),
    rw("fix_target_opp_index", show_fixed, store_fixed),
    rw("fix_custom_freq_volt", |_, _| line("[GPUFREQ-DEBUG] fix GPU F/V is disabled"), |_, _, _| Ok(())),
    rw("limit_table", show_limits, |_, _, _| Ok(())),
];

fn show_table(gpu: &GpufreqV2) -> Shown {
    let mut text = String::new();
    for (index, khz) in gpu.rows.iter().enumerate() {
        let volt = 50_000 + 625 * (gpu.rows.len() - index);
        let _ = writeln!(text, "[{index:02}] freq: {khz:7}, volt: {volt:6}, vsram:  75000");
    }
    Ok(text)
}

fn show_fixed(gpu: &GpufreqV2, _: &Soc) -> Shown {
    match gpu.fixed {
        Some(index) => line(format_args!("[GPUFREQ-DEBUG] fix GPU OPP index: {index}")),
        None => line("[GPUFREQ-DEBUG] fix GPU OPP index is disabled"),
    }
}

/// As `sscanf("%2d")`: two characters are looked at; no number is success without effect.
fn store_fixed(gpu: &mut GpufreqV2, _: &mut Soc, text: &str) -> Stored {
    let text = text.trim();
    if text == "min" {
        gpu.fixed = Some(gpu.rows.len() - 1);
        return Ok(());
    }
    let sign = usize::from(text.starts_with('-'));
    let digits = text[sign..].bytes().take(2 - sign).take_while(u8::is_ascii_digit).count();
    match text[..sign + digits].parse::<i64>() {
        Err(_) => Ok(()),
        Ok(-1) => {
            gpu.fixed = None;
            Ok(())
        }
        Ok(index) => {
            let index = usize::try_from(index).map_err(|_| libc::EINVAL)?;
            gpu.fixed = Some(index).filter(|&i| i < gpu.rows.len()).ok_or(libc::EINVAL)?.into();
            Ok(())
        }
    }
}

fn show_status(gpu: &GpufreqV2, soc: &Soc) -> Shown {
    let index = gpu.index(soc);
    let ceiling = gpu.row_at_most(gpu.domain(soc).limits().1);
    let mut text = String::from("[GPUFREQ-DEBUG] Current Status of GPUFREQ\n");
    let khz = gpu.domain(soc).clock();
    let rows = gpu.rows.len();
    let _ = writeln!(text, "[GPU   OPP]      Index: {index}, Freq: {khz}, Volt: 80000, Vsram: 80000");
    let _ = writeln!(text, "[GPU   Segment]  SegmentID: 0, WorkingOPPNum: {rows}, SignedOPPNum: {rows}");
    let _ = writeln!(text, "[PPM Ceiling]    LimitIndex: {ceiling:2}, Limiter:  0, Priority:  9");
    let _ = writeln!(text, "[PPM Floor]      LimitIndex: {:2}, Limiter:  0, Priority:  9", rows - 1);
    let awake = u8::from(!soc.gpu_sleeps());
    let _ = writeln!(
        text,
        "[Power State]    PowerCount: {awake}, Active: {awake}, CG: 0, MTCMOS: {awake}, BUCK: {awake}"
    );
    Ok(text)
}

fn show_limits(gpu: &GpufreqV2, soc: &Soc) -> Shown {
    let thermal = match gpu.domain(soc).cap() {
        UNLIMITED => -1,
        cap => gpu.row_at_most(cap) as i64,
    };
    let mut text =
        String::from("[id]          [name]  [priority]  [ceiling]  [floor]  [c_enable]  [f_enable]\n");
    let rows =
        [("SEGMENT", 9, 0, gpu.rows.len() as i64 - 1), ("DEBUG", 8, -1, -1), ("THERMAL_AP", 6, thermal, -1)];
    for (id, (name, priority, ceiling, floor)) in rows.into_iter().enumerate() {
        let _ = writeln!(text, "{id:4} {name:>15} {priority:11} {ceiling:10} {floor:8} {:11} {:11}", 1, 1);
    }
    Ok(text)
}
