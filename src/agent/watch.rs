//! Watching the pins while a stage runs: asked, accepted and seen are three different things.
//!
//! A pin holds when at least 99 % of the window was spent on it, by the driver's residency counters or, where
//! it has none, by sampled clocks, and no source of the family states a limit beyond the pin. A range that
//! somebody rewrote is put back a bounded number of times.

use super::pins::{HeldKnob, Pins, SharedPins, excludes};
use super::series::Track;
use crate::clock::{Clock, Ticker};
use crate::device::lock;
use crate::knob::{Glimpse, KnobInfo, Residency};
use crate::protocol::Series;
use crate::sysfs::Nodes;
use crate::trial::{Choice, Combination, KnobId, KnobSeen, Verdict};
use crate::units::{BootNanos, Opp};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time between two looks at the knobs.
const LOOK: Duration = Duration::from_millis(50);
/// Share of the window on the pin that counts as held.
const HELD_SHARE: f64 = 0.99;
/// How often a rewritten pin is applied again within one trial.
const MAX_REAPPLIED: u32 = 3;
/// Counters tick every 10 ms on most drivers: fewer ticks than this say nothing of 1 %.
const MIN_TICKS: u64 = 50;
/// How far a measured clock may be off the operating point it belongs to.
const CLOCK_SLACK: f64 = 0.02;

/// What was seen of one knob.
#[derive(Clone, Debug, PartialEq)]
struct Record {
    asked: Choice,
    accepted: Option<Opp>,
    before: Option<Residency>,
    cpu_time: Option<Duration>,
    clocks: Vec<Opp>,
    limited_by: Option<String>,
    reapplied: u32,
    given_up: bool,
    /// The clock over time.
    track: Track,
    /// The lowest upper limit that anybody states, over time.
    limit: Track,
}

impl Record {
    fn new(held: &HeldKnob, combination: &Combination, nodes: &dyn Nodes) -> Self {
        let info = held.knob.info();
        let track = |what: &str| Track::new(format!("{what}.{}", info.id), info.unit.word());
        Record {
            asked: held.choice(combination),
            accepted: held.pinned,
            before: held.knob.residency(nodes),
            cpu_time: held.knob.cpu_time(nodes),
            clocks: Vec::new(),
            limited_by: None,
            reapplied: 0,
            given_up: false,
            track: track("clock"),
            limit: track("limit"),
        }
    }

    fn note(&mut self, now: BootNanos, glimpse: &Glimpse) {
        let limit = glimpse.limits.iter().filter_map(|limit| limit.max).min();
        if let Some(clock) = glimpse.clock {
            // Some drivers show the clock they asked for: it is not faster than a limit lets it be.
            self.clocks.push(limit.map_or(clock, |limit| clock.min(limit)));
            self.track.note(now, clock.0 as f64);
        }
        if let Some(limit) = limit {
            self.limit.note(now, limit.0 as f64);
        }
    }
}

/// A running watch.
pub struct Watch {
    pins: SharedPins,
    nodes: Arc<dyn Nodes>,
    clock: Arc<dyn Clock>,
    records: Arc<Mutex<Vec<Record>>>,
    ticker: Ticker,
    started: BootNanos,
}

impl Watch {
    /// Starts watching the knobs as they are pinned now under `combination`.
    pub fn start(
        pins: &SharedPins,
        combination: &Combination,
        nodes: Arc<dyn Nodes>,
        clock: &Arc<dyn Clock>,
    ) -> Watch {
        let started = clock.now();
        let records: Vec<Record> =
            lock(pins).knobs.iter().map(|held| Record::new(held, combination, &*nodes)).collect();
        let records = Arc::new(Mutex::new(records));
        let (shared, seen, files) = (pins.clone(), records.clone(), nodes.clone());
        let time = clock.clone();
        let look = move || look(&mut lock(&shared), &mut lock(&seen), &*files, time.now());
        look();
        let ticker = clock.every(LOOK, Box::new(look));
        Watch { pins: pins.clone(), nodes, clock: clock.clone(), started, records, ticker }
    }

    /// Looks a last time and judges; with clocks and limits over time.
    pub fn stop(self) -> (BTreeMap<KnobId, KnobSeen>, Vec<Series>) {
        drop(self.ticker);
        let mut pins = lock(&self.pins);
        let mut records = lock(&self.records);
        let now = self.clock.now();
        look(&mut pins, &mut records, &*self.nodes, now);
        let window = now.since(self.started);
        let judged = pins.knobs.iter().zip(records.iter()).map(|(held, record)| {
            let after = held.knob.residency(&*self.nodes);
            let mut seen = judge(held.knob.info(), record, after.as_ref());
            let used = held.knob.cpu_time(&*self.nodes);
            seen.seen_mean = seen.seen_mean.or_else(|| used_share(record.cpu_time, used, window));
            (held.id().clone(), seen)
        });
        let judged = judged.collect();
        let tracks = records.drain(..).flat_map(|record| [record.track, record.limit]);
        (judged, tracks.filter_map(Track::end).collect())
    }
}

fn look(pins: &mut Pins, records: &mut [Record], nodes: &dyn Nodes, now: BootNanos) {
    for (index, record) in records.iter_mut().enumerate() {
        let glimpse = pins.knobs[index].knob.glimpse(nodes);
        record.note(now, &glimpse);
        if let (Choice::Pin(opp), Some(accepted)) = (record.asked, record.accepted) {
            defend(record, &glimpse, accepted, || pins.pin(index, opp).is_ok());
        }
    }
}

/// Notes what stands against a pin, and applies it again when somebody rewrote it. A range that cannot be
/// put back was not rewritten but clamped.
fn defend(record: &mut Record, glimpse: &Glimpse, accepted: Opp, reapply: impl FnOnce() -> bool) {
    let rewritten = glimpse.range.is_some_and(|range| range != (accepted, accepted));
    if rewritten && record.reapplied >= MAX_REAPPLIED {
        record.given_up = true;
    } else if rewritten && reapply() {
        record.reapplied += 1;
    } else if let Some(limit) = glimpse.limits.iter().find(|limit| excludes(limit, accepted)) {
        record.limited_by.get_or_insert_with(|| limit.source.clone());
    } else if rewritten {
        record.limited_by.get_or_insert_with(|| "a limit that no node names".into());
    }
}

/// Thousandths of a CPU that were used in the window.
fn used_share(before: Option<Duration>, after: Option<Duration>, window: Duration) -> Option<f64> {
    let used = after?.checked_sub(before?)?;
    (!window.is_zero()).then(|| 1e3 * used.as_secs_f64() / window.as_secs_f64())
}

/// Counters that swear to a pin while a source states a limit below it count what was asked for, not what ran
/// (firmware clamps below cpufreq): then the sampled clocks are what was seen.
fn judge(info: &KnobInfo, record: &Record, after: Option<&Residency>) -> KnobSeen {
    let blind = |rows: &[(Opp, u64)]| {
        record.limited_by.is_some() && record.accepted.is_some_and(|pin| share(rows, pin) >= HELD_SHARE)
    };
    let counted = after.and_then(|after| spent(record.before.as_ref()?, after));
    let time = counted.filter(|rows| !blind(rows));
    let seen_mean = time.as_deref().map(weighted_mean).or_else(|| mean(&record.clocks));
    let share_on_pin = record.accepted.and_then(|pin| match &time {
        Some(rows) => Some(share(rows, pin)),
        None => sampled_share(info, &record.clocks, pin),
    });
    let verdict = verdict(record, share_on_pin);
    KnobSeen { asked: record.asked, accepted: record.accepted, seen_mean, share_on_pin, verdict }
}

fn verdict(record: &Record, share: Option<f64>) -> Verdict {
    let reapplied = record.reapplied;
    match (record.asked, &record.limited_by, share) {
        (Choice::Governor, ..) => Verdict::Free,
        _ if record.given_up => Verdict::Contended { reapplied },
        (_, Some(by), _) => Verdict::Clamped { by: by.clone() },
        (_, None, Some(share)) if share >= HELD_SHARE => Verdict::Held,
        (_, None, Some(_)) if reapplied > 0 => Verdict::Contended { reapplied },
        (_, None, Some(_)) => Verdict::Clamped { by: "a limit that no node names".into() },
        (_, None, None) => Verdict::Unverifiable {
            why: "the domain has no residency counters and never showed a clock".into(),
        },
    }
}

/// Time at each operating point between two readings of the counters; `None` when it is too short to tell.
fn spent(before: &Residency, after: &Residency) -> Option<Vec<(Opp, u64)>> {
    let earlier: BTreeMap<Opp, u64> = before.0.iter().copied().collect();
    let rows: Vec<(Opp, u64)> = after
        .0
        .iter()
        .map(|&(opp, ticks)| (opp, ticks.saturating_sub(earlier.get(&opp).copied().unwrap_or(0))))
        .collect();
    (total(&rows) >= MIN_TICKS).then_some(rows)
}

fn total(rows: &[(Opp, u64)]) -> u64 {
    rows.iter().map(|(_, ticks)| ticks).sum()
}

fn weighted_mean(rows: &[(Opp, u64)]) -> f64 {
    let weighted: f64 = rows.iter().map(|(opp, ticks)| opp.0 as f64 * *ticks as f64).sum();
    weighted / total(rows) as f64
}

fn mean(clocks: &[Opp]) -> Option<f64> {
    (!clocks.is_empty()).then(|| clocks.iter().map(|c| c.0 as f64).sum::<f64>() / clocks.len() as f64)
}

fn share(rows: &[(Opp, u64)], pin: Opp) -> f64 {
    let there = rows.iter().find(|(opp, _)| *opp == pin).map_or(0, |(_, ticks)| *ticks);
    there as f64 / total(rows) as f64
}

fn sampled_share(info: &KnobInfo, clocks: &[Opp], pin: Opp) -> Option<f64> {
    let there = clocks.iter().filter(|clock| belongs_to(info, **clock, pin)).count();
    (!clocks.is_empty()).then(|| there as f64 / clocks.len() as f64)
}

/// Whether a measured clock is that of `pin`: no other operating point is nearer, and it is near.
fn belongs_to(info: &KnobInfo, clock: Opp, pin: Opp) -> bool {
    let off = clock.0.abs_diff(pin.0);
    off as f64 <= pin.0 as f64 * CLOCK_SLACK && info.opps.iter().all(|other| clock.0.abs_diff(other.0) >= off)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knob::Limit;
    use crate::units::OppUnit;

    const PIN: Opp = Opp(1_000_000);

    fn info() -> KnobInfo {
        KnobInfo {
            id: KnobId("cpu".into()),
            family: "cpufreq".into(),
            unit: OppUnit::KiloHertz,
            opps: [500_000, 985_000, 1_000_000, 2_000_000].map(Opp).to_vec(),
            boost: Vec::new(),
            cpus: vec![0],
            table_notes: Vec::new(),
        }
    }

    fn record(asked: Choice) -> Record {
        let accepted = matches!(asked, Choice::Pin(_)).then_some(PIN);
        Record {
            asked,
            accepted,
            before: Some(residency(&[(500_000, 10), (1_000_000, 10)])),
            cpu_time: None,
            clocks: Vec::new(),
            limited_by: None,
            reapplied: 0,
            given_up: false,
            track: Track::new("clock.cpu".into(), "kHz"),
            limit: Track::new("limit.cpu".into(), "kHz"),
        }
    }

    fn residency(rows: &[(u64, u64)]) -> Residency {
        Residency(rows.iter().map(|&(opp, ticks)| (Opp(opp), ticks)).collect())
    }

    fn pinned() -> Record {
        record(Choice::Pin(PIN))
    }

    fn glimpse(range: u64, limit: Option<(&str, u64)>) -> Glimpse {
        let limits =
            limit.map(|(source, max)| Limit { source: source.into(), min: None, max: Some(Opp(max)) });
        Glimpse {
            clock: Some(PIN),
            range: Some((Opp(range), Opp(range))),
            limits: limits.into_iter().collect(),
        }
    }

    #[test]
    fn counters_prove_a_pin_and_the_tail_of_one_percent_is_the_edge() {
        let held = judge(&info(), &pinned(), Some(&residency(&[(500_000, 11), (1_000_000, 109)])));
        assert_eq!((held.verdict, held.share_on_pin), (Verdict::Held, Some(0.99)));
        let lost = judge(&info(), &pinned(), Some(&residency(&[(500_000, 12), (1_000_000, 108)])));
        assert_eq!(lost.verdict, Verdict::Clamped { by: "a limit that no node names".into() });
        assert_eq!(lost.seen_mean, Some(0.02 * 500_000.0 + 0.98 * 1_000_000.0));
    }

    #[test]
    fn without_counters_sampled_clocks_decide_and_without_clocks_nothing_does() {
        let mut seen = pinned();
        assert!(matches!(judge(&info(), &seen, None).verdict, Verdict::Unverifiable { .. }));
        seen.clocks = vec![Opp(1_000_000), Opp(1_003_000)];
        assert_eq!(judge(&info(), &seen, None).verdict, Verdict::Held);
        seen.clocks.push(Opp(986_000));
        let off = judge(&info(), &seen, None);
        assert!(off.share_on_pin < Some(0.7), "985 MHz is an operating point of its own");
        assert!(matches!(off.verdict, Verdict::Clamped { .. }));
    }

    #[test]
    fn cpu_time_used_in_a_window_is_a_share_of_it() {
        let second = Duration::from_secs(1);
        assert_eq!(used_share(Some(second), Some(4 * second), 2 * second), Some(1500.0));
        assert_eq!(used_share(None, Some(second), second), None);
        assert_eq!(used_share(Some(second), Some(second), Duration::ZERO), None);
    }

    #[test]
    fn a_few_ticks_prove_nothing() {
        let mut seen = pinned();
        seen.clocks = vec![PIN];
        let judged = judge(&info(), &seen, Some(&residency(&[(500_000, 15), (1_000_000, 20)])));
        assert_eq!((judged.share_on_pin, judged.verdict), (Some(1.0), Verdict::Held));
    }

    #[test]
    fn a_governor_is_free_and_its_mean_is_weighted_by_time() {
        let after = residency(&[(500_000, 85), (1_000_000, 35)]);
        let free = judge(&info(), &record(Choice::Governor), Some(&after));
        assert_eq!((free.verdict, free.share_on_pin), (Verdict::Free, None));
        assert_eq!(free.seen_mean, Some((75.0 * 500_000.0 + 25.0 * 1_000_000.0) / 100.0));
    }

    #[test]
    fn a_rewritten_range_is_put_back_a_bounded_number_of_times() {
        let mut seen = pinned();
        for _ in 0..MAX_REAPPLIED {
            defend(&mut seen, &glimpse(2_000_000, None), PIN, || true);
            assert!(!seen.given_up);
        }
        defend(&mut seen, &glimpse(2_000_000, None), PIN, || panic!("not once more"));
        assert_eq!(verdict(&seen, Some(1.0)), Verdict::Contended { reapplied: MAX_REAPPLIED });
    }

    #[test]
    fn a_pin_put_back_quickly_still_held_and_slowly_was_contended() {
        let mut seen = pinned();
        defend(&mut seen, &glimpse(2_000_000, None), PIN, || true);
        assert_eq!(verdict(&seen, Some(0.995)), Verdict::Held);
        assert_eq!(verdict(&seen, Some(0.9)), Verdict::Contended { reapplied: 1 });
    }

    #[test]
    fn a_limit_beyond_the_pin_is_a_clamp_and_says_who() {
        let mut seen = pinned();
        defend(&mut seen, &glimpse(PIN.0, Some(("dcvsh_freq_limit", 2_000_000))), PIN, || false);
        assert_eq!(verdict(&seen, Some(1.0)), Verdict::Held);
        defend(&mut seen, &glimpse(PIN.0, Some(("dcvsh_freq_limit", 500_000))), PIN, || false);
        assert_eq!(verdict(&seen, Some(1.0)), Verdict::Clamped { by: "dcvsh_freq_limit".into() });
    }

    #[test]
    fn counters_that_do_not_see_a_clamp_are_not_what_was_seen() {
        let mut seen = pinned();
        let capped = glimpse(PIN.0, Some(("cpuinfo_cur_freq", 500_000)));
        seen.note(BootNanos(1), &capped);
        defend(&mut seen, &capped, PIN, || false);
        let told = judge(&info(), &seen, Some(&residency(&[(500_000, 10), (1_000_000, 110)])));
        assert_eq!(told.verdict, Verdict::Clamped { by: "cpuinfo_cur_freq".into() });
        assert_eq!((told.seen_mean, told.share_on_pin), (Some(500_000.0), Some(0.0)));
    }

    #[test]
    fn a_range_that_cannot_be_put_back_was_clamped() {
        let mut seen = pinned();
        defend(&mut seen, &glimpse(500_000, Some(("scaling_max_freq", 500_000))), PIN, || false);
        assert_eq!(verdict(&seen, Some(0.5)), Verdict::Clamped { by: "scaling_max_freq".into() });
    }
}
