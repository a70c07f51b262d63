//! Reads an energy source while a stage runs.

use super::{EnergyReading, EnergySource};
use crate::clock::{Clock, Ticker};
use crate::device::lock;
use crate::sysfs::Nodes;
use crate::trial::SourceInfo;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Shortest and longest distance of two reads. A read costs power itself, and a source that is slower than
/// this is read often enough to see when it changed.
const FASTEST: Duration = Duration::from_millis(20);
const SLOWEST: Duration = Duration::from_millis(500);

/// A source that sampler and agent share.
pub type SharedSource = Arc<Mutex<Box<dyn EnergySource>>>;

/// What was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// The readings, in order.
    pub readings: Vec<EnergyReading>,
    /// Reads that gave no value.
    pub lost: u32,
}

/// A running sampler: reads at once, then twice per period of the source, and once more when it is stopped.
pub struct Sampler {
    probe: Probe,
    ticker: Ticker,
}

#[derive(Clone)]
struct Probe {
    source: SharedSource,
    nodes: Arc<dyn Nodes>,
    clock: Arc<dyn Clock>,
    samples: Arc<Mutex<Samples>>,
}

impl Probe {
    fn take(&self) {
        let reading = lock(&self.source).read(&*self.nodes, self.clock.now());
        let mut samples = lock(&self.samples);
        match reading {
            Ok(reading) => samples.readings.push(reading),
            Err(_) => samples.lost += 1,
        }
    }
}

impl Sampler {
    /// Starts reading `source`.
    pub fn start(source: SharedSource, nodes: Arc<dyn Nodes>, clock: Arc<dyn Clock>) -> Sampler {
        let period = period(lock(&source).info());
        let probe = Probe { source, nodes, clock: clock.clone(), samples: Arc::default() };
        probe.take();
        let each = probe.clone();
        Sampler { probe, ticker: clock.every(period, Box::new(move || each.take())) }
    }

    /// Looks at what was read so far.
    pub fn look<T>(&self, look: impl FnOnce(&SourceInfo, &Samples) -> T) -> T {
        look(lock(&self.probe.source).info(), &lock(&self.probe.samples))
    }

    /// Reads once more and ends.
    pub fn stop(self) -> Samples {
        drop(self.ticker);
        self.probe.take();
        std::mem::take(&mut *lock(&self.probe.samples))
    }
}

/// Two reads per period see every value of the source; more would only be duplicates.
fn period(info: &SourceInfo) -> Duration {
    Duration::from_secs_f64(info.period_ms.max(0.0) / 2e3).clamp(FASTEST, SLOWEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::doubles::{MapNodes, StepClock};
    use crate::sysfs::NodeError;
    use crate::trial::EnergyKind;
    use crate::units::{BootNanos, MilliWatt};

    struct Flaky(SourceInfo, u32);

    impl EnergySource for Flaky {
        fn info(&self) -> &SourceInfo {
            &self.0
        }

        fn read(&mut self, _: &dyn Nodes, now: BootNanos) -> Result<EnergyReading, NodeError> {
            self.1 += 1;
            match self.1 {
                2 => Err(super::super::silent("gauge", "asleep")),
                _ => Ok(EnergyReading::Instant { at: now, power: MilliWatt(1.0) }),
            }
        }
    }

    #[test]
    fn both_ends_and_twice_a_period_in_between_and_losses_are_counted() {
        let info = SourceInfo {
            kind: EnergyKind::Gauge,
            name: "bat".into(),
            period_ms: 200.0,
            external_power: None,
        };
        let clock = StepClock::default();
        let source: SharedSource = Arc::new(Mutex::new(Box::new(Flaky(info, 0))));
        let sampler = Sampler::start(source, Arc::new(MapNodes::default()), Arc::new(clock.clone()));
        clock.sleep(Duration::from_millis(350));
        assert_eq!(sampler.look(|_, samples| samples.readings.len()), 3);
        let samples = sampler.stop();
        let at: Vec<u64> = samples
            .readings
            .iter()
            .map(|r| match r {
                EnergyReading::Instant { at, .. } | EnergyReading::Cumulative { at, .. } => at.0 / 1_000_000,
            })
            .collect();
        assert_eq!((at, samples.lost), (vec![0, 200, 300, 350], 1));
        clock.sleep(Duration::from_secs(1));
    }

    #[test]
    fn slow_and_continuous_sources_are_not_over_sampled() {
        let info = |period_ms| SourceInfo {
            kind: EnergyKind::Gauge,
            name: String::new(),
            period_ms,
            external_power: None,
        };
        assert_eq!(period(&info(0.0)), FASTEST);
        assert_eq!(period(&info(30_000.0)), SLOWEST);
        assert_eq!(period(&info(160.0)), Duration::from_millis(80));
    }
}
