//! Learning how a source behaves by looking at it for a while.

use crate::clock::Clock;
use crate::sysfs::NodeError;
use crate::units::BootNanos;
use std::time::Duration;

/// Distance of two looks. Polling every 10 ms is known to raise the power drawn; this lasts seconds only.
const LOOK: Duration = Duration::from_millis(20);
/// How long a source is looked at at most. Slower ones are given this as their period, which is then known to
/// be too short a claim for none of the common gauges but one (30 s).
const LONGEST: Duration = Duration::from_secs(5);
/// Changes after which the period is known well enough.
const ENOUGH: usize = 5;

/// What was seen of a source.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Values in the order they appeared, without repetitions in a row.
    pub values: Vec<i64>,
    /// Median time between changes; the whole time of looking if there were fewer than two.
    pub period: Duration,
}

/// Looks at a source until it changed often enough or the time is up.
///
/// # Errors
/// When the very first read fails; later ones are skipped.
pub fn look(
    clock: &dyn Clock,
    mut read: impl FnMut(BootNanos) -> Result<i64, NodeError>,
) -> Result<Seen, NodeError> {
    let begun = clock.now();
    let mut values = vec![read(begun)?];
    let mut changes: Vec<BootNanos> = Vec::new();
    while changes.len() < ENOUGH && clock.now().since(begun) < LONGEST {
        clock.sleep(LOOK);
        let now = clock.now();
        if let Ok(value) = read(now)
            && values.last() != Some(&value)
        {
            values.push(value);
            changes.push(now);
        }
    }
    Ok(Seen { values, period: period(&changes).unwrap_or(LONGEST) })
}

fn period(changes: &[BootNanos]) -> Option<Duration> {
    let mut spans: Vec<Duration> = changes.windows(2).map(|w| w[1].since(w[0])).collect();
    spans.sort_unstable();
    spans.get(spans.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::doubles::StepClock;

    #[test]
    fn the_period_is_that_of_distinct_values() {
        let seen = look(&StepClock::default(), |now| Ok((now.0 / 1_000_000_000) as i64)).unwrap();
        assert_eq!(seen.period, Duration::from_secs(1));
    }

    #[test]
    fn a_source_that_never_changes_is_slower_than_the_look() {
        let clock = StepClock::default();
        let seen = look(&clock, |_| Ok(7)).unwrap();
        assert_eq!(seen, Seen { values: vec![7], period: LONGEST });
        assert_eq!(clock.now(), BootNanos(5_000_000_000));
    }
}
