//! Virtual time: whoever sleeps or works advances the simulation, and periodic work runs from inside that.

use super::serve::{Shared, Twin};
use super::soc::Job;
use crate::clock::{Clock, Ticker};
use crate::units::BootNanos;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

type Call = Arc<Mutex<Option<Box<dyn FnMut() + Send>>>>;

struct Tick {
    id: u64,
    period: u64,
    next: u64,
    call: Call,
}

/// Periodic work.
#[derive(Default)]
pub(super) struct Tickers(Mutex<(u64, Vec<Tick>)>);

impl Tickers {
    fn lock(&self) -> MutexGuard<'_, (u64, Vec<Tick>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, period: u64, now: u64, call: Call) -> u64 {
        let (last, ticks) = &mut *self.lock();
        *last += 1;
        ticks.push(Tick { id: *last, period, next: now + period, call });
        *last
    }

    fn remove(&self, id: u64) {
        self.lock().1.retain(|tick| tick.id != id);
    }

    fn next(&self) -> u64 {
        self.lock().1.iter().map(|tick| tick.next).min().unwrap_or(u64::MAX)
    }

    /// The longest overdue call, its next time set.
    fn take_due(&self, now: u64) -> Option<Call> {
        let ticks = &mut self.lock().1;
        let due = ticks.iter_mut().filter(|tick| tick.next <= now).min_by_key(|tick| (tick.next, tick.id))?;
        due.next = now.max(due.next) + due.period;
        Some(due.call.clone())
    }
}

impl Shared {
    /// Lets time pass until `until` or until `job` is done; periodic work runs when it is due, without the
    /// simulation being locked.
    pub(super) fn advance(&self, until: u64, mut job: Option<&mut Job>) -> BootNanos {
        loop {
            let target = until.min(self.tickers.next());
            let now = {
                let mut machine = self.machine();
                machine.advance(target, job.as_deref_mut());
                machine.soc.now
            };
            while let Some(call) = self.tickers.take_due(now) {
                // A call that is running is its own re-entry (a tick that sleeps): it is not run twice at once.
                if let Ok(mut call) = call.try_lock()
                    && let Some(call) = call.as_mut()
                {
                    call();
                }
            }
            if now >= until || job.as_ref().is_some_and(|job| job.left <= 0.0) {
                return BootNanos(now);
            }
        }
    }
}

/// The clock of a twin.
pub struct TwinClock(pub(super) Twin);

impl Clock for TwinClock {
    fn now(&self) -> BootNanos {
        self.0.now()
    }

    fn sleep(&self, span: Duration) {
        let until = self.now().plus(span).0;
        self.0.0.advance(until, None);
    }

    fn every(&self, period: Duration, tick: Box<dyn FnMut() + Send>) -> Ticker {
        let call: Call = Arc::new(Mutex::new(Some(tick)));
        let period = (period.as_nanos() as u64).max(1);
        let id = self.0.0.tickers.add(period, self.now().0, call.clone());
        let shared = self.0.0.clone();
        Ticker::new(move || {
            shared.tickers.remove(id);
            // Waits for a call that is running in another thread.
            call.lock().unwrap_or_else(PoisonError::into_inner).take();
        })
    }
}
