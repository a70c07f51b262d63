//! A run that was cut off anywhere goes on to the same table.

use super::script::{Device, times};
use super::*;
use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};
use std::sync::LazyLock;

const MORE: &str = "measure = { repeats = 2, drift-every = 7 }";

/// An uninterrupted run: the bytes of its journal, its table.
static WHOLE: LazyLock<(Vec<u8>, Table)> = LazyLock::new(|| {
    let (_dir, run) = fresh();
    let outcome = block_on(sweep(&Device::honest(), &run, MORE)).unwrap();
    (std::fs::read(run.journal()).unwrap(), outcome.table.unwrap())
});

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(future)
}

/// Goes on with a journal cut after `bytes`.
fn resume(bytes: &[u8]) -> (Table, Vec<journal::Line>, Vec<crate::trial::TrialId>) {
    let (_dir, run) = fresh();
    run.write_inputs(&config(MORE), &profile()).unwrap();
    std::fs::write(run.journal(), bytes).unwrap();
    let device = Device::honest();
    let campaign = Campaign::resume(RunDir::open(run.path()).unwrap(), device.connector()).unwrap();
    let outcome = block_on(campaign.run(CancellationToken::new(), &mut ())).unwrap();
    assert_eq!(outcome.exit_code(), 0);
    (outcome.table.unwrap(), events(&run), device.with(|w| w.ran.clone()))
}

/// Trials that finished, in the order of the journal.
fn finished(lines: &[journal::Line]) -> Vec<crate::trial::TrialId> {
    let one = |line: &journal::Line| match &line.event {
        journal::Event::Finished { measurement } => Some(measurement.id.clone()),
        _ => None,
    };
    lines.iter().filter_map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn a_journal_cut_at_any_byte_leads_to_the_same_table(place in 0.0f64..=1.0) {
        let (bytes, table) = &*WHOLE;
        let cut = (place * bytes.len() as f64) as usize;
        let (resumed, lines, ran) = resume(&bytes[..cut]);
        prop_assert_eq!(&resumed, table);
        let all = finished(&lines);
        prop_assert!(times(&all).values().all(|&n| n == 1), "a trial was run twice");
        let kept = bytes[..cut].split_inclusive(|&b| b == b'\n')
            .filter(|line| serde_json::from_slice::<journal::Line>(line)
                .is_ok_and(|l| matches!(l.event, journal::Event::Finished { .. })))
            .count();
        prop_assert_eq!(kept + ran.len(), all.len(), "a finished trial was lost");
    }
}

#[test]
fn a_journal_cut_after_any_event_leads_to_the_same_table() {
    let (bytes, table) = &*WHOLE;
    let ends = (0..bytes.len()).filter(|&i| bytes[i] == b'\n');
    for end in ends {
        let (resumed, lines, _) = resume(&bytes[..=end]);
        assert_eq!(&resumed, table, "cut after byte {end}");
        assert!(times(&finished(&lines)).values().all(|&n| n == 1));
    }
}

#[test]
fn a_complete_run_is_not_run_again() {
    let (bytes, table) = &*WHOLE;
    let (resumed, lines, ran) = resume(bytes);
    assert_eq!((&resumed, ran.len()), (table, 0));
    assert_eq!(lines.len(), bytes.iter().filter(|&&b| b == b'\n').count(), "nothing was appended");
}

#[test]
fn a_trial_that_was_in_flight_when_the_host_died_is_flagged() {
    let (bytes, _) = &*WHOLE;
    let text = std::str::from_utf8(bytes).unwrap();
    let cut = text.find("\"started\"").and_then(|at| text[at..].find('\n').map(|end| at + end + 1)).unwrap();
    let (_, lines, _) = resume(&bytes[..cut]);
    let flagged: Vec<_> = lines
        .iter()
        .filter_map(|line| match &line.event {
            journal::Event::Finished { measurement } if !measurement.flags.is_empty() => Some(measurement),
            _ => None,
        })
        .collect();
    assert_eq!(flagged.len(), 1);
}
