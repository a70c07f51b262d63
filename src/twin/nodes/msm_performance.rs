//! Qualcomm msm_performance: `cpu:kHz` votes that clip policies. 0 withdraws a minimum, UINT_MAX a maximum;
//! malformed text is EINVAL. Source: drivers/soc/qcom/msm_performance.c.

use super::{Attr, Family, Shown, Stored, line, rw};
use crate::twin::domain::UNLIMITED;
use crate::twin::soc::Soc;

/// The vote that withdraws a maximum.
const NO_MAX: u64 = u32::MAX as u64;

/// The module's parameters.
pub struct MsmPerformance {
    min: Vec<u64>,
    max: Vec<u64>,
}

impl MsmPerformance {
    /// Votes as `cpu:kHz` pairs for the maxima in force at boot.
    pub fn new(maxima: &str, soc: &mut Soc) -> Self {
        let cpus = soc.online.len();
        let mut module = MsmPerformance { min: vec![0; cpus], max: vec![NO_MAX; cpus] };
        if let Ok(votes) = parse(maxima, cpus) {
            votes.into_iter().for_each(|(cpu, khz)| module.max[cpu] = khz);
        }
        module.apply(soc);
        module
    }

    fn apply(&self, soc: &mut Soc) {
        for domain in &mut soc.domains {
            let min = domain.cpus.iter().map(|&cpu| self.min[cpu]).max().unwrap_or(0);
            let max = domain.cpus.iter().map(|&cpu| self.max[cpu]).min().unwrap_or(NO_MAX);
            domain.outside.votes = (min, if max == NO_MAX { UNLIMITED } else { max });
        }
    }
}

impl Family for MsmPerformance {
    fn table(&self) -> &'static [Attr<Self>] {
        ATTRS
    }
}

const ATTRS: &[Attr<MsmPerformance>] = &[
    rw(
        "cpu_min_freq",
        |m, _| show(&m.min),
        |m, soc, text| {
            parse(text, m.min.len())?.into_iter().for_each(|(cpu, khz)| m.min[cpu] = khz);
            m.apply(soc);
            Ok(())
        },
    ),
    rw("cpu_max_freq", |m, _| show(&m.max), store_max),
];

fn store_max(module: &mut MsmPerformance, soc: &mut Soc, text: &str) -> Stored {
    parse(text, module.max.len())?.into_iter().for_each(|(cpu, khz)| module.max[cpu] = khz);
    module.apply(soc);
    Ok(())
}

fn show(votes: &[u64]) -> Shown {
    let pairs: Vec<String> = votes.iter().enumerate().map(|(cpu, khz)| format!("{cpu}:{khz}")).collect();
    line(pairs.join(" ") + " ")
}

fn parse(text: &str, cpus: usize) -> Result<Vec<(usize, u64)>, i32> {
    let pair = |word: &str| {
        let (cpu, khz) = word.split_once(':')?;
        let cpu = cpu.parse::<usize>().ok().filter(|&cpu| cpu < cpus)?;
        Some((cpu, u64::from(khz.parse::<u32>().ok()?)))
    };
    let votes: Option<Vec<_>> = text.split_whitespace().map(pair).collect();
    votes.filter(|votes| !votes.is_empty()).ok_or(libc::EINVAL)
}
