//! The device's clock. Real devices run on `CLOCK_BOOTTIME`; a twin runs on virtual time.

use crate::units::BootNanos;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Time as the agent sees it. Sleeping and periodic work go through here so that a twin can let hours of
/// cooling pass in a millisecond.
pub trait Clock: Send + Sync {
    /// Now, in time since boot (suspend included).
    fn now(&self) -> BootNanos;

    /// Lets `span` pass.
    fn sleep(&self, span: Duration);

    /// Calls `tick` every `period` until the returned [`Ticker`] is dropped. The call may come from another
    /// thread (real time) or from inside whoever lets time pass (virtual time).
    fn every(&self, period: Duration, tick: Box<dyn FnMut() + Send>) -> Ticker;
}

/// Ends periodic work when dropped; after the drop, `tick` is not running and will not run again.
pub struct Ticker(Option<Box<dyn FnOnce() + Send>>);

impl Ticker {
    /// A ticker that runs `stop` when dropped.
    pub fn new(stop: impl FnOnce() + Send + 'static) -> Self {
        Ticker(Some(Box::new(stop)))
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        if let Some(stop) = self.0.take() {
            stop();
        }
    }
}

/// `CLOCK_BOOTTIME` of the kernel the agent runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> BootNanos {
        // CLOCK_BOOTTIME exists since Linux 2.6.39; a failure would mean another operating system.
        match nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME) {
            Ok(t) => BootNanos(t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64),
            Err(_) => BootNanos(0),
        }
    }

    fn sleep(&self, span: Duration) {
        std::thread::sleep(span);
    }

    fn every(&self, period: Duration, mut tick: Box<dyn FnMut() + Send>) -> Ticker {
        let (stop, stopped): (Sender<()>, _) = channel();
        let worker = std::thread::spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(period) {
                tick();
            }
        });
        Ticker::new(move || {
            drop(stop);
            // A panicking tick has already printed; there is nothing more to do about it here.
            let _ = worker.join();
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticker_ticks_until_it_is_dropped() {
        let (told, heard) = channel();
        let ticker = BootClock.every(
            Duration::from_millis(1),
            Box::new(move || {
                let _ = told.send(());
            }),
        );
        assert!(heard.recv_timeout(Duration::from_secs(10)).is_ok());
        drop(ticker);
        while heard.try_recv().is_ok() {}
        assert!(heard.recv().is_err(), "the tick closure is gone after the drop");
    }
}
