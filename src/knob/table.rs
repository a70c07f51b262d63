//! Tables of operating points: reading what drivers list, settling differences with a profile's prior.

use super::{Access, KnobError, KnobInfo, Residency};
use crate::profile::KnobSpec;
use crate::sysfs::NodePath;
use crate::units::{Opp, OppUnit};
use std::collections::BTreeSet;

/// Every number of a list, however it is ordered or spaced.
pub(super) fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// The first number after `word` in a line such as `[03] freq: 848000, volt: 75000` or `freq = 848000`.
/// `word` must be followed by `:` or `=`, so that `gpufreq keep` is not taken for a frequency.
pub(super) fn number_after(line: &str, word: &str) -> Option<u64> {
    line.match_indices(word).find_map(|(at, _)| {
        let rest = line.get(at + word.len()..)?.trim_start().strip_prefix([':', '='])?.trim_start();
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    })
}

/// Rows of two numbers, `operating point` and `ticks`, as every `time_in_state` prints them. A unit after the
/// operating point (`848000kHz`) and header lines are skipped over.
pub(super) fn residency_rows(text: &str, steps: &Steps) -> Option<Residency> {
    let rows: Vec<(Opp, u64)> = text.lines().filter_map(|line| row(line, steps)).collect();
    (!rows.is_empty()).then_some(Residency(rows))
}

fn row(line: &str, steps: &Steps) -> Option<(Opp, u64)> {
    let mut words = line.split_whitespace();
    let raw = words.next()?.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()?;
    Some((steps.opp(raw), words.next()?.parse().ok()?))
}

/// The time column of devfreq's `trans_stat`: `*  200000000:  0  1   1234`, time in ms.
pub(super) fn trans_stat(text: &str, steps: &Steps) -> Option<Residency> {
    let time = |line: &str| -> Option<(Opp, u64)> {
        let (from, counts) = line.split_once(':')?;
        let raw = from.trim_start_matches('*').trim().parse().ok()?;
        Some((steps.opp(raw), counts.split_whitespace().last()?.parse().ok()?))
    };
    let rows: Vec<(Opp, u64)> = text.lines().filter_map(time).collect();
    (!rows.is_empty()).then_some(Residency(rows))
}

/// A table in a node's own unit. Drivers in Hz list values that are no whole kHz, and show limits rounded to
/// kHz (dev-PM-QoS), so both directions go through the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    /// Node units in one unit of the knob.
    scale: u64,
    /// Ascending, without duplicates.
    raw: Vec<u64>,
}

impl Steps {
    pub fn new(listed: impl IntoIterator<Item = u64>, scale: u64) -> Self {
        let ordered: BTreeSet<u64> = listed.into_iter().filter(|&raw| raw > 0).collect();
        Steps { scale: scale.max(1), raw: ordered.into_iter().collect() }
    }

    pub fn opps(&self) -> Vec<Opp> {
        let mut opps: Vec<Opp> = self.raw.iter().map(|&raw| self.rounded(raw)).collect();
        opps.dedup();
        opps
    }

    /// What the node calls `opp`.
    pub fn raw(&self, opp: Opp) -> Option<u64> {
        self.raw.iter().copied().find(|&raw| self.rounded(raw) == opp)
    }

    /// The operating point a node value stands for; off-table values are scaled.
    pub fn opp(&self, raw: u64) -> Opp {
        let near = self.raw.iter().copied().find(|&listed| listed.abs_diff(raw) < self.scale);
        self.rounded(near.unwrap_or(raw))
    }

    pub fn lowest(&self) -> u64 {
        self.raw.first().copied().unwrap_or(0)
    }

    pub fn highest(&self) -> u64 {
        self.raw.last().copied().unwrap_or(0)
    }

    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    fn rounded(&self, raw: u64) -> Opp {
        Opp(raw / self.scale)
    }
}

/// What a knob is, from what its device lists; the prior of the profile only adds notes.
pub(super) fn describe(spec: &KnobSpec, family: &str, unit: OppUnit, opps: Vec<Opp>) -> KnobInfo {
    let table_notes = differences(&spec.prior, &opps, unit);
    let id = spec.id.clone();
    KnobInfo { id, family: family.into(), unit, opps, boost: Vec::new(), cpus: Vec::new(), table_notes }
}

/// The numbers that the node `name` in `dir` lists, or the prior where it lists none.
///
/// # Errors
/// As [`prior_instead`].
pub(super) fn listed_or_prior(
    access: &Access,
    spec: &KnobSpec,
    dir: &NodePath,
    name: &str,
) -> Result<Vec<u64>, KnobError> {
    let listed = numbers(&access.optional(&dir.join(name)));
    if listed.is_empty() { prior_instead(access, spec, dir.as_str()) } else { Ok(listed) }
}

/// The prior in place of a list the driver does not give.
///
/// # Errors
/// [`KnobError::Rejected`] when the profile has no prior either.
pub(super) fn prior_instead(access: &Access, spec: &KnobSpec, what: &str) -> Result<Vec<u64>, KnobError> {
    match spec.prior.is_empty() {
        false => Ok(spec.prior.iter().map(|opp| opp.0).collect()),
        true => Err(access.rejected(
            "a table of operating points",
            format!("{what} lists none and the profile has no `prior` for this knob; add one"),
        )),
    }
}

fn differences(prior: &[Opp], listed: &[Opp], unit: OppUnit) -> Vec<String> {
    let one_sided = |these: &[Opp], those: &[Opp], text: &str| {
        let only: Vec<String> =
            these.iter().filter(|opp| !those.contains(opp)).map(|opp| opp.show(unit)).collect();
        (!only.is_empty()).then(|| format!("{text}: {}", only.join(", ")))
    };
    if prior.is_empty() {
        return Vec::new();
    }
    let missing = one_sided(prior, listed, "the profile expects, but the device does not list");
    let unknown = one_sided(listed, prior, "the device lists, but the profile does not expect");
    missing.into_iter().chain(unknown).collect()
}

/// The knob must list what it is asked for: drivers round or clip what they do not know.
///
/// # Errors
/// [`KnobError::Rejected`] naming the nearest operating point.
pub(super) fn must_list(access: &Access, info: &KnobInfo, opp: Opp) -> Result<String, KnobError> {
    let asked = opp.show(info.unit);
    if info.opps.contains(&opp) {
        return Ok(asked);
    }
    let nearest = info.opps.iter().min_by_key(|listed| listed.0.abs_diff(opp.0));
    let hint =
        nearest.map_or("its table is empty".into(), |n| format!("the nearest is {}", n.show(info.unit)));
    Err(access.rejected(&asked, format!("it is no operating point of this knob; {hint}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_in_any_order_with_any_spacing() {
        let steps = Steps::new(numbers("848000 762000 151000 151000 \n"), 1);
        assert_eq!(steps.opps(), [Opp(151_000), Opp(762_000), Opp(848_000)]);
        assert_eq!((steps.lowest(), steps.highest()), (151_000, 848_000));
    }

    #[test]
    fn hertz_tables_survive_rounding_to_kilohertz() {
        let steps = Steps::new([500_000_992, 910_000_000], 1000);
        assert_eq!(steps.raw(Opp(500_000)), Some(500_000_992));
        assert_eq!(steps.opp(500_001_000), Opp(500_000), "a max is shown rounded up to kHz");
        assert_eq!(steps.opp(123_457_000), Opp(123_457), "off-table values keep their own number");
    }

    #[test]
    fn sentences_give_up_their_numbers() {
        assert_eq!(number_after("[03] freq:  848000, volt:  75000", "freq"), Some(848_000));
        assert_eq!(number_after("gpufreq keep opp frequency enabled\nfreq = 900000", "freq"), Some(900_000));
        assert_eq!(number_after("gpufreq keep opp frequency disabled", "freq"), None);
    }

    #[test]
    fn residency_tables_are_read_in_both_forms() {
        let steps = Steps::new([200_000_000, 300_000_000], 1000);
        let text = "     From  :   To\n           : 200000000 300000000   time(ms)\n\
                    * 200000000:         0         1      1234\n  300000000:         1         0      5678\n\
                    Total transition : 2\n";
        let expected = Residency(vec![(Opp(200_000), 1234), (Opp(300_000), 5678)]);
        assert_eq!(trans_stat(text, &steps), Some(expected));
        let khz = Steps::new([300_000], 1);
        let rows = residency_rows("300000 77\n", &khz);
        assert_eq!(rows, Some(Residency(vec![(Opp(300_000), 77)])));
        assert_eq!(residency_rows("", &khz), None);
    }

    #[test]
    fn the_device_wins_over_the_prior_and_the_difference_is_told() {
        let notes = differences(&[Opp(1000), Opp(2000)], &[Opp(2000), Opp(3000)], OppUnit::KiloHertz);
        assert_eq!(notes.len(), 2);
        assert!(
            notes[0].contains("does not list: 1 MHz") && notes[1].contains("not expect: 3 MHz"),
            "{notes:?}"
        );
        assert!(differences(&[], &[Opp(1)], OppUnit::KiloHertz).is_empty());
    }
}
