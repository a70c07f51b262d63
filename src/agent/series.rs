//! What was sampled while a trial ran, as series over time. A series is kept small, so that a run of a thousand
//! trials is still a directory that can be copied.

use super::metrics;
use crate::engine::PassTimes;
use crate::protocol::Series;
use crate::sensor::EnergyReading;
use crate::trial::{Setting, Stage};
use crate::units::BootNanos;

/// Most points of a series. At half of that a curve is still drawn well.
const MOST: usize = 256;

/// A series that grows. It has a point where the value changed, and the last; when it has [`MOST`] points, every
/// second one goes, and of the changes to come as many more are left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    series: Series,
    /// One in so many changes is kept.
    every: usize,
    changes: usize,
    last: Option<(BootNanos, f64)>,
}

impl Track {
    /// An empty series.
    pub fn new(name: String, unit: &str) -> Self {
        let series = Series { name, unit: unit.into(), points: Vec::new() };
        Track { series, every: 1, changes: 0, last: None }
    }

    /// The value at a time after the last one.
    pub fn note(&mut self, at: BootNanos, value: f64) {
        let changed = self.last.is_none_or(|(_, before)| before != value);
        self.last = Some((at, value));
        if !changed {
            return;
        }
        if self.changes.is_multiple_of(self.every) {
            self.series.points.push((at, value));
        }
        self.changes += 1;
        if self.series.points.len() == MOST {
            let mut nth = 0..;
            self.series.points.retain(|_| nth.next().is_some_and(|n: usize| n.is_multiple_of(2)));
            self.every *= 2;
        }
    }

    /// The series with its last point; `None` when nothing was noted.
    pub fn end(mut self) -> Option<Series> {
        let last = self.last?;
        if self.series.points.last() != Some(&last) {
            self.series.points.push(last);
        }
        Some(self.series)
    }
}

/// The readings of the energy source, as they were: power, or a counter.
pub fn energy(readings: &[EnergyReading]) -> Option<Series> {
    let (name, unit) = match readings.first()? {
        EnergyReading::Cumulative { .. } => ("energy", "uJ"),
        EnergyReading::Instant { .. } => ("power", "mW"),
    };
    let mut track = Track::new(name.into(), unit);
    for (at, value) in readings.iter().map(metrics::parts) {
        track.note(at, value);
    }
    track.end()
}

/// Latencies as they came: the gaps between tokens of a decode, the TTFT of every prefill.
pub fn latency(setting: Setting, passes: &[PassTimes]) -> Option<Series> {
    let mut track = match setting.stage {
        Stage::Prefill => Track::new("ttft".into(), "ms"),
        Stage::Decode => Track::new("itl".into(), "ms"),
    };
    let mut note = |from: BootNanos, to: BootNanos| track.note(to, to.since(from).as_secs_f64() * 1e3);
    for pass in passes {
        match setting.stage {
            Stage::Prefill => pass.tokens.iter().take(1).for_each(|&first| note(pass.start, first)),
            Stage::Decode => pass.tokens.windows(2).for_each(|pair| note(pair[0], pair[1])),
        }
    }
    track.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: impl Iterator<Item = u64>) -> Vec<(u64, f64)> {
        let mut track = Track::new("clock".into(), "kHz");
        values.enumerate().for_each(|(at, value)| track.note(BootNanos(at as u64), value as f64));
        track.end().unwrap().points.into_iter().map(|(at, value)| (at.0, value)).collect()
    }

    #[test]
    fn a_value_that_stays_is_two_points() {
        let steps = series([5, 5, 5, 8, 8, 8].into_iter());
        assert_eq!(steps, [(0, 5.0), (3, 8.0), (5, 8.0)]);
        assert_eq!(series([5].into_iter()), [(0, 5.0)]);
        assert_eq!(Track::new(String::new(), "").end(), None);
    }

    #[test]
    fn a_long_series_stays_small_and_reaches_from_first_to_last() {
        let long = series(0..100_000);
        assert!((MOST / 2..=MOST + 1).contains(&long.len()), "{}", long.len());
        assert_eq!((long[0], long[long.len() - 1]), ((0, 0.0), (99_999, 99_999.0)));
        let gaps = long.windows(2).map(|pair| pair[1].0 - pair[0].0);
        assert!(gaps.clone().max().unwrap() <= 2 * gaps.rev().skip(1).min().unwrap(), "evenly thinned");
    }
}
