//! What is done about a failure. Decided by its class, never by its text.

use super::config::RetryConfig;
use crate::protocol::FailureClass;
use std::time::Duration;

/// Longest single wait between two attempts.
const LONGEST: Duration = Duration::from_secs(30);

/// What is done about the n-th failure of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Recorded; the run goes on without the trial.
    GiveUp,
    /// The trial is tried again after this long.
    Again(Duration),
    /// The trial goes to the end of its batch.
    Later,
    /// The run stops, resumable.
    Stop,
}

/// The `nth` wait (from 1): the first as configured, doubled each time, bounded.
pub fn wait(retry: &RetryConfig, nth: u32) -> Duration {
    let factor = 1u64.checked_shl(nth.saturating_sub(1)).unwrap_or(u64::MAX);
    Duration::from_millis(retry.backoff_ms.max(1).saturating_mul(factor)).min(LONGEST)
}

/// All waits up to the `nth`, together.
fn waited(retry: &RetryConfig, nth: u32) -> Duration {
    (1..=nth).map(|n| wait(retry, n)).sum()
}

/// What is done about the `nth` failure (from 1) of this class of one trial.
pub fn treat(retry: &RetryConfig, class: FailureClass, nth: u32) -> Treatment {
    let tries_left = nth < retry.attempts;
    match class {
        FailureClass::Rejected | FailureClass::Permanent => Treatment::GiveUp,
        FailureClass::Transient if tries_left => Treatment::Again(wait(retry, nth)),
        FailureClass::Transient => Treatment::GiveUp,
        FailureClass::Unavailable => {
            let patience = Duration::from_secs(retry.wait_for_device_s);
            match waited(retry, nth) <= patience {
                true => Treatment::Again(wait(retry, nth)),
                false => Treatment::Stop,
            }
        }
        // The gate is about the device, not about the trial: skipping the trial would not help the next one.
        FailureClass::Gate if tries_left => Treatment::Later,
        FailureClass::Gate => Treatment::Stop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound() {
        let retry = RetryConfig { backoff_ms: 500, ..RetryConfig::default() };
        let waits = [1, 2, 3, 6, 7, 200].map(|nth| wait(&retry, nth).as_millis());
        assert_eq!(waits, [500, 1000, 2000, 16_000, 30_000, 30_000]);
    }

    #[test]
    fn each_class_has_its_treatment() {
        use FailureClass::*;
        let retry = RetryConfig { attempts: 2, backoff_ms: 1000, wait_for_device_s: 7, ..Default::default() };
        let again = |s| Treatment::Again(Duration::from_secs(s));
        let told = |class| [1, 2, 3, 4].map(|nth| treat(&retry, class, nth));
        assert_eq!(told(Rejected), [Treatment::GiveUp; 4]);
        assert_eq!(told(Permanent), [Treatment::GiveUp; 4]);
        assert_eq!(told(Transient)[..2], [again(1), Treatment::GiveUp]);
        assert_eq!(told(Unavailable), [again(1), again(2), again(4), Treatment::Stop]);
        assert_eq!(told(Gate)[..2], [Treatment::Later, Treatment::Stop]);
    }
}
