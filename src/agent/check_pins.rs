//! Trying every operating point of every knob of the open device, one knob at a time, the others left to their
//! governors. The same watch that judges trials judges here.

use super::taken::Taken;
use super::watch::Watch;
use crate::device::{Device, lock};
use crate::knob::KnobInfo;
use crate::protocol::{PinCheck, PinRow, ToHost};
use crate::trial::{Choice, Combination};
use crate::units::{Opp, OppUnit};
use std::time::Duration;

/// How long each operating point is watched: residency counters that tick every 10 ms say something after
/// half a second, and most vendor daemons have reacted.
const WATCHED: Duration = Duration::from_millis(600);

/// Largest departure of work per clock from that of the fastest operating point that counts as following the
/// clock. Caches and memory do not matter to a spin loop; a shared machine does.
const WORK_RATE_TOLERANCE: f64 = 0.08;

/// Tries the knobs and gives every one back.
pub fn check_pins(taken: &Taken) -> ToHost {
    let infos: Vec<KnobInfo> =
        lock(&taken.handle.pins).knobs.iter().map(|held| held.knob.info().clone()).collect();
    let knobs = infos.iter().map(|info| check_knob(taken, info)).collect();
    let restored = lock(&taken.handle.pins).release_all();
    ToHost::PinsChecked { knobs, restored }
}

fn check_knob(taken: &Taken, info: &KnobInfo) -> PinCheck {
    let mut rows: Vec<PinRow> = info.opps.iter().map(|&opp| try_opp(taken, info, opp)).collect();
    let work_rate_note = relate_work(&mut rows, info.unit).or_else(|| untried(taken, info, &rows));
    PinCheck { knob: info.id.clone(), unit: info.unit, rows, work_rate_note }
}

fn try_opp(taken: &Taken, info: &KnobInfo, opp: Opp) -> PinRow {
    let device = &taken.device;
    let alone = Combination([(info.id.clone(), Choice::Pin(opp))].into());
    let applied = lock(&taken.handle.pins).apply(&alone);
    if let Err(error) = applied {
        return PinRow {
            opp,
            accepted: None,
            clock: None,
            work_rate: None,
            problem: Some(error.to_string()),
        };
    }
    let watch = Watch::start(&taken.handle.pins, &alone, device.nodes.clone(), &device.clock);
    device.clock.sleep(WATCHED);
    let work_rate = work_rate(device, info);
    let seen = watch.stop().0.remove(&info.id);
    PinRow {
        opp,
        accepted: seen.as_ref().and_then(|seen| seen.accepted),
        clock: seen.as_ref().and_then(|seen| seen.seen_mean).map(|mean| Opp(mean.round() as u64)),
        work_rate,
        problem: seen.and_then(|seen| seen.verdict.problem()),
    }
}

/// Loop rounds per second on the first CPU of the domain.
fn work_rate(device: &Device, info: &KnobInfo) -> Option<f64> {
    (device.work_rate?)(*info.cpus.first()?)
}

/// Why no loop was run, where none was.
fn untried(taken: &Taken, info: &KnobInfo, rows: &[PinRow]) -> Option<String> {
    let why = match (rows.iter().any(|row| row.work_rate.is_some()), info.cpus.is_empty()) {
        (true, _) => return None,
        (false, true) => "a loop on a CPU says nothing of this domain",
        (false, false) if taken.device.work_rate.is_none() => {
            "simulated clocks drive no CPU that a loop could run on"
        }
        (false, false) => "no thread could be moved to the domain's CPUs (offline, or outside the cpuset)",
    };
    Some(format!("not tried: {why}"))
}

/// Turns loop rates into work per clock relative to the fastest operating point that was tried, and says so
/// where work does not follow the clock: a read-back alone does not prove a clock.
fn relate_work(rows: &mut [PinRow], unit: OppUnit) -> Option<String> {
    let (top_rate, top) = rows.iter().rev().find_map(|row| Some((row.work_rate?, row.opp)))?;
    let mut off = Vec::new();
    for row in rows.iter_mut() {
        let Some(rate) = row.work_rate else { continue };
        let per_clock = (rate / row.opp.0 as f64) / (top_rate / top.0 as f64);
        row.work_rate = Some(per_clock);
        if (per_clock - 1.0).abs() > WORK_RATE_TOLERANCE {
            off.push(row.opp.show(unit));
        }
    }
    let share = format!("{} of {}", off.len(), rows.len());
    (!off.is_empty()).then(|| {
        format!(
            "work does not follow the clock at {share} operating points ({}): do not trust these pins",
            off.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(opp: u64, rate: f64) -> PinRow {
        PinRow { opp: Opp(opp), accepted: Some(Opp(opp)), clock: None, work_rate: Some(rate), problem: None }
    }

    #[test]
    fn work_that_follows_the_clock_is_one_everywhere() {
        let mut rows = [row(500_000, 50.0), row(1_000_000, 101.0), row(2_000_000, 200.0)];
        assert_eq!(relate_work(&mut rows, OppUnit::KiloHertz), None);
        assert_eq!(rows[2].work_rate, Some(1.0));
    }

    #[test]
    fn a_clock_that_lies_is_named() {
        let mut rows = [row(500_000, 190.0), row(1_000_000, 100.0), row(2_000_000, 200.0)];
        let note = relate_work(&mut rows, OppUnit::KiloHertz).unwrap();
        assert!(note.contains("1 of 3") && note.contains("500 MHz"), "{note}");
    }
}
