//! From time stamps and readings to the numbers of a measurement.
//!
//! Definitions (README, "What the numbers mean"): TTFT = first token - request; TPOT = (last token - first
//! token) / (tokens - 1), defined for more than one token only; energy is the integral of power over the
//! window, by the source's own time stamps.

use crate::engine::PassTimes;
use crate::sensor::EnergyReading;
use crate::stats::Sample;
use crate::trial::{Energy, ItlSummary, Latency, Setting, SourceInfo, Stage};
use crate::units::{BootNanos, MilliJoule, MilliWatt, Millis};
use std::time::Duration;

/// ITL p99 above this many medians is scheduling jitter.
const JITTER_RATIO: f64 = 3.0;

/// A span on the device's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its start.
    pub start: BootNanos,
    /// Its end.
    pub end: BootNanos,
}

impl Window {
    /// From the start of the first pass to the last token of the last.
    pub fn of(passes: &[PassTimes]) -> Option<Window> {
        let start = passes.first()?.start;
        Some(Window { start, end: *passes.last()?.tokens.last()? })
    }

    /// How long it is.
    pub fn length(&self) -> Duration {
        self.end.since(self.start)
    }

    fn holds(&self, at: BootNanos) -> bool {
        self.start < at && at <= self.end
    }
}

/// Latency of the stage over all passes.
pub fn latency(setting: Setting, passes: &[PassTimes]) -> Latency {
    match setting.stage {
        Stage::Prefill => Latency {
            ttft: median(passes.iter().filter_map(|p| Some(p.tokens.first()?.since(p.start)))),
            prefill_time: median(passes.iter().filter_map(|p| Some(p.prefill_end?.since(p.start)))),
            ..Latency::default()
        },
        Stage::Decode => {
            let gaps = millis(passes.iter().flat_map(gaps));
            Latency { tpot: gaps.mean().map(Millis), itl: summary(&gaps), ..Latency::default() }
        }
    }
}

/// Whether some gaps between tokens are far off the usual one.
pub fn jitters(itl: &ItlSummary) -> bool {
    itl.p99.0 > JITTER_RATIO * itl.p50.0
}

/// Energy over the window; `None` when no reading covers it or nothing was produced.
pub fn energy(
    source: &SourceInfo,
    readings: &[EnergyReading],
    window: Window,
    tokens: u64,
    min_updates: u32,
) -> Option<Energy> {
    let seconds = window.length().as_secs_f64();
    if tokens == 0 || seconds <= 0.0 {
        return None;
    }
    let total = Curve::of(readings)?.over(window);
    let updates = updates(source, readings, window);
    Some(Energy {
        source: source.clone(),
        total,
        per_token: MilliJoule(total.0 / tokens as f64),
        mean_power: MilliWatt(total.0 / seconds),
        updates,
        too_short: updates < min_updates,
    })
}

/// Distinct values of the source inside the window. A continuous source (period 0) has a new value at every
/// reading; any other is counted when its value changes, because reading faster only yields duplicates.
pub fn updates(source: &SourceInfo, readings: &[EnergyReading], window: Window) -> u32 {
    let continuous = source.period_ms <= 0.0;
    let mut last = None;
    let mut count = 0;
    for reading in readings {
        let (at, value) = parts(reading);
        let fresh = continuous || last.is_some_and(|before| before != value);
        count += u32::from(fresh && window.holds(at));
        last = Some(value);
    }
    count
}

/// When, and the value.
pub fn parts(reading: &EnergyReading) -> (BootNanos, f64) {
    match *reading {
        EnergyReading::Cumulative { at, micro_joules } => (at, micro_joules),
        EnergyReading::Instant { at, power } => (at, power.0),
    }
}

/// Readings as a function of time, piecewise linear: (seconds, microjoules) or (seconds, milliwatts).
enum Curve {
    Cumulative(Vec<(f64, f64)>),
    Power(Vec<(f64, f64)>),
}

impl Curve {
    fn of(readings: &[EnergyReading]) -> Option<Curve> {
        let mut points: Vec<(f64, f64)> = Vec::with_capacity(readings.len());
        for (at, value) in readings.iter().map(parts) {
            let at = at.0 as f64 / 1e9;
            if points.last().is_none_or(|&(last, _)| at > last) {
                points.push((at, value));
            }
        }
        match readings.first()? {
            EnergyReading::Cumulative { .. } if points.len() < 2 => None,
            EnergyReading::Cumulative { .. } => Some(Curve::Cumulative(points)),
            EnergyReading::Instant { .. } => Some(Curve::Power(points)),
        }
    }

    fn over(&self, window: Window) -> MilliJoule {
        let (start, end) = (window.start.0 as f64 / 1e9, window.end.0 as f64 / 1e9);
        match self {
            // A counter is continued past its outermost readings at the slope found there.
            Curve::Cumulative(points) => MilliJoule((line(points, end) - line(points, start)) / 1e3),
            Curve::Power(points) => MilliJoule(trapezoid(points, start, end)),
        }
    }
}

/// Value at `t` on the straight line through the two points around it (the outermost two beyond the ends).
fn line(points: &[(f64, f64)], t: f64) -> f64 {
    let after = points.partition_point(|&(at, _)| at < t).clamp(1, points.len() - 1);
    let ((t0, v0), (t1, v1)) = (points[after - 1], points[after]);
    v0 + (v1 - v0) * (t - t0) / (t1 - t0)
}

/// Integral from `start` to `end`; the outermost values hold beyond the ends.
fn trapezoid(points: &[(f64, f64)], start: f64, end: f64) -> f64 {
    let (first, last) = (points[0], points[points.len() - 1]);
    let value = |t: f64| if points.len() < 2 { first.1 } else { line(points, t.clamp(first.0, last.0)) };
    let inside = points.iter().copied().filter(|&(at, _)| start < at && at < end);
    let path = std::iter::once((start, value(start))).chain(inside).chain([(end, value(end))]);
    let path: Vec<_> = path.collect();
    path.windows(2).map(|w| (w[1].0 - w[0].0) * (w[0].1 + w[1].1) / 2.0).sum()
}

fn gaps(pass: &PassTimes) -> impl Iterator<Item = Duration> + '_ {
    pass.tokens.windows(2).map(|pair| pair[1].since(pair[0]))
}

fn millis(spans: impl Iterator<Item = Duration>) -> Sample {
    spans.map(|span| span.as_secs_f64() * 1e3).collect()
}

fn median(spans: impl Iterator<Item = Duration>) -> Option<Millis> {
    millis(spans).median().map(Millis)
}

fn summary(gaps: &Sample) -> Option<ItlSummary> {
    let at = |q| gaps.quantile(q).map(Millis);
    Some(ItlSummary {
        n: gaps.n(),
        p50: at(0.50)?,
        p90: at(0.90)?,
        p95: at(0.95)?,
        p99: at(0.99)?,
        max: at(1.0)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::EnergyKind;

    fn ms(at: u64) -> BootNanos {
        BootNanos(at * 1_000_000)
    }

    fn source(period_ms: f64) -> SourceInfo {
        SourceInfo { kind: EnergyKind::Gauge, name: "bat".into(), period_ms, external_power: None }
    }

    fn instant(at: u64, power: f64) -> EnergyReading {
        EnergyReading::Instant { at: ms(at), power: MilliWatt(power) }
    }

    fn counter(at: u64, micro_joules: f64) -> EnergyReading {
        EnergyReading::Cumulative { at: ms(at), micro_joules }
    }

    fn decode(tokens: &[u64]) -> PassTimes {
        PassTimes { start: ms(0), prefill_end: None, tokens: tokens.iter().map(|&t| ms(t)).collect() }
    }

    fn close(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 1e-6, "found {found}, wanted {wanted}");
    }

    const DECODE: Setting = Setting { stage: Stage::Decode, tokens: 4 };
    const PREFILL: Setting = Setting { stage: Stage::Prefill, tokens: 4 };

    #[test]
    fn tpot_counts_gaps_between_tokens_and_not_the_first_token() {
        let found = latency(DECODE, &[decode(&[50, 60, 70, 80]), decode(&[500, 520, 540, 560])]);
        close(found.tpot.unwrap().0, 15.0);
        let itl = found.itl.unwrap();
        assert_eq!(itl.n, 6);
        close(itl.p50.0, 15.0);
        close(itl.max.0, 20.0);
        assert!(found.ttft.is_none());
    }

    #[test]
    fn tpot_of_a_single_token_is_not_defined() {
        let found = latency(DECODE, &[decode(&[50])]);
        assert_eq!((found.tpot, found.itl), (None, None));
    }

    #[test]
    fn a_stall_is_jitter_and_an_even_pace_is_not() {
        let even: Vec<u64> = (1..=50).map(|i| i * 10).collect();
        assert!(!jitters(&latency(DECODE, &[decode(&even)]).itl.unwrap()));
        let mut stalled = even;
        stalled.extend([540, 580, 590]);
        assert!(jitters(&latency(DECODE, &[decode(&stalled)]).itl.unwrap()));
    }

    #[test]
    fn ttft_is_the_median_over_passes_and_apart_from_prefill_time() {
        let pass = |start: u64, end: u64, first: u64| PassTimes {
            start: ms(start),
            prefill_end: Some(ms(end)),
            tokens: vec![ms(first)],
        };
        let found = latency(PREFILL, &[pass(0, 90, 100), pass(100, 195, 210), pass(210, 900, 910)]);
        close(found.ttft.unwrap().0, 110.0);
        close(found.prefill_time.unwrap().0, 95.0);
        assert!(found.tpot.is_none());
    }

    #[test]
    fn power_is_integrated_by_trapezoid_within_the_window() {
        let readings = [instant(0, 1000.0), instant(1000, 3000.0), instant(2000, 3000.0)];
        let window = Window { start: ms(500), end: ms(2500) };
        let found = energy(&source(0.0), &readings, window, 10, 1).unwrap();
        close(found.total.0, 0.5 * 2500.0 + 1.5 * 3000.0);
        close(found.per_token.0, found.total.0 / 10.0);
        close(found.mean_power.0, found.total.0 / 2.0);
    }

    #[test]
    fn a_counter_is_interpolated_by_its_own_time_stamps() {
        let readings = [counter(0, 0.0), counter(160, 320_000.0), counter(320, 960_000.0)];
        let window = Window { start: ms(80), end: ms(400) };
        let found = energy(&source(160.0), &readings, window, 1, 1).unwrap();
        close(found.total.0, 1280.0 - 160.0);
        assert!(energy(&source(160.0), &readings[..1], window, 1, 1).is_none());
    }

    #[test]
    fn only_distinct_values_inside_the_window_are_updates() {
        let readings =
            [instant(0, 5.0), instant(100, 5.0), instant(200, 6.0), instant(300, 6.0), instant(400, 5.0)];
        let window = Window { start: ms(50), end: ms(350) };
        assert_eq!(updates(&source(200.0), &readings, window), 1);
        assert_eq!(updates(&source(0.0), &readings, window), 3);
        assert!(energy(&source(200.0), &readings, window, 1, 2).unwrap().too_short);
    }

    #[test]
    fn nothing_produced_is_not_a_zero() {
        let window = Window { start: ms(0), end: ms(1000) };
        assert!(energy(&source(0.0), &[instant(0, 5.0)], window, 0, 1).is_none());
        assert!(energy(&source(0.0), &[], window, 1, 1).is_none());
    }
}
