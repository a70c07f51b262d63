//! What goes wrong between host and device, and how the run ends.

use super::script::{failure, times};
use super::*;
use crate::protocol::FailureClass;
use crate::search::Point;
use crate::transport::TransportError;
use crate::trial::{Flag, TrialId};
use crate::units::Celsius;
use journal::Event;

/// The `nth` trial given to the agent (from 0), and all from there up to `more` later, act like this.
fn from_trial(nth: u32, more: u32, act: Act) -> Device {
    let mut count = 0;
    Device::new(move |_| {
        count += 1;
        match (nth + 1..=nth + 1 + more).contains(&count) {
            true => act.clone(),
            false => Act::Measure,
        }
    })
}

fn unavailable() -> TransportError {
    TransportError::Unavailable { device: "script".into(), why: "gone".into(), next: "Plug it in".into() }
}

/// Runs against a device with faults; the table must be the one of an honest device.
async fn same_table(device: &Device) -> (Outcome, Vec<journal::Line>) {
    let (_dir, honest) = fresh();
    let table = sweep(&Device::honest(), &honest, "").await.unwrap().table;
    let (_dir, run) = fresh();
    let outcome = sweep(device, &run, "").await.unwrap();
    assert_eq!(outcome.table, table);
    assert!(times(&device.with(|w| w.ran.clone())).values().all(|&n| n == 1));
    (outcome, events(&run))
}

fn flagged(lines: &[journal::Line]) -> Vec<TrialId> {
    let one = |line: &journal::Line| match &line.event {
        Event::Finished { measurement: m } if m.flags.contains(&Flag::RepeatedAfterLinkLoss) => {
            Some(m.id.clone())
        }
        _ => None,
    };
    lines.iter().filter_map(one).collect()
}

#[tokio::test(start_paused = true)]
async fn a_trial_in_flight_when_the_link_is_lost_is_repeated_and_flagged() {
    for act in [Act::HangUp, Act::FallSilent] {
        let device = from_trial(12, 0, act);
        let (outcome, lines) = same_table(&device).await;
        assert_eq!((outcome.exit_code(), device.with(|w| w.opens)), (0, 2));
        assert_eq!(flagged(&lines).len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_trial_that_loses_the_link_twice_is_given_up_and_the_run_goes_on() {
    let device = from_trial(3, 1, Act::HangUp);
    let (_dir, run) = fresh();
    let outcome = sweep(&device, &run, "").await.unwrap();
    assert_eq!(outcome.exit_code(), 0);
    let given_up =
        events(&run).iter().filter(|l| matches!(l.event, Event::Failed { given_up: true, .. })).count();
    assert_eq!((given_up, device.with(|w| w.opens)), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn a_link_that_every_trial_loses_ends_the_run_before_it_gives_all_of_them_up() {
    let (_dir, run) = fresh();
    let outcome = sweep(&from_trial(10, 999, Act::HangUp), &run, "").await.unwrap();
    assert_eq!((outcome.exit_code(), outcome.resumable()), (3, true));
    let given_up =
        events(&run).iter().filter(|l| matches!(l.event, Event::Failed { given_up: true, .. })).count();
    assert_eq!(given_up, 2);
}

#[tokio::test(start_paused = true)]
async fn a_device_that_is_gone_for_a_while_is_waited_for() {
    let device = from_trial(5, 0, Act::HangUp);
    device.with(|w| {
        w.meanwhile = |w| {
            w.unreachable = vec![unavailable(), unavailable(), unavailable()];
            w.refuses = vec![FailureClass::Gate, FailureClass::Transient];
        }
    });
    let (outcome, _) = same_table(&device).await;
    assert_eq!(outcome.exit_code(), 0);
    assert!(device.with(|w| w.unreachable.is_empty() && w.refuses.is_empty()));
}

#[tokio::test(start_paused = true)]
async fn a_device_that_stays_away_ends_the_run_resumable() {
    let (_dir, run) = fresh();
    let device = from_trial(5, 0, Act::HangUp);
    device
        .with(|w| w.meanwhile = |w| w.unreachable = std::iter::repeat_with(unavailable).take(999).collect());
    let outcome = sweep(&device, &run, "retry = { wait-for-device-s = 120 }").await.unwrap();
    assert_eq!((outcome.exit_code(), outcome.resumable(), outcome.restored), (3, true, None));
    device.with(|w| w.unreachable.clear());
    let resumed = Campaign::resume(run.clone(), device.connector()).unwrap();
    assert_eq!(resumed.run(CancellationToken::new(), &mut ()).await.unwrap().exit_code(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_device_that_never_was_there_is_an_answer_at_once() {
    let (_dir, run) = fresh();
    let device = Device::honest();
    device.with(|w| w.unreachable = vec![unavailable()]);
    let before = tokio::time::Instant::now();
    let outcome = sweep(&device, &run, "").await.unwrap();
    assert_eq!((outcome.exit_code(), before.elapsed().as_millis()), (3, 0));
    device.with(|w| {
        let (device, doing) = ("script".into(), "connecting".into());
        let (why, next) = ("no root".into(), "Root it".into());
        w.unreachable = vec![TransportError::Refused { device, doing, why, next }];
    });
    assert_eq!(sweep(&device, &run, "").await.unwrap_err().exit_code(), 3);
}

#[tokio::test(start_paused = true)]
async fn failures_that_may_pass_are_tried_again() {
    for class in [FailureClass::Transient, FailureClass::Unavailable, FailureClass::Gate] {
        let (outcome, lines) = same_table(&from_trial(4, 1, Act::Fail(class))).await;
        assert_eq!(outcome.exit_code(), 0, "{class:?}");
        assert!(flagged(&lines).is_empty(), "nothing was lost, so nothing is flagged");
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_breaks_is_opened_again() {
    let device = from_trial(6, 0, Act::Fall);
    let (outcome, _) = same_table(&device).await;
    assert_eq!((outcome.exit_code(), device.with(|w| w.opens)), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn a_combination_that_fails_for_good_is_skipped_and_not_tried_again() {
    for (class, tries) in
        [(FailureClass::Rejected, 1), (FailureClass::Permanent, 3), (FailureClass::Transient, 9)]
    {
        let asked = Arc::new(AtomicU32::new(0));
        let (counter, bad) = (asked.clone(), Point { gpu: gpu(400_000), cpu: gpu(1_000_000) });
        let device = Device::new(move |spec| match plan_axes().point(&spec.id.combination) == bad {
            true if spec.id.setting.stage == Stage::Decode => {
                counter.fetch_add(1, Ordering::Relaxed);
                Act::Fail(class)
            }
            _ => Act::Measure,
        });
        let (_dir, run) = fresh();
        let outcome = sweep(&device, &run, "").await.unwrap();
        assert_eq!((outcome.exit_code(), asked.load(Ordering::Relaxed)), (0, tries), "{class:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_setting_without_baseline_is_left_out_and_the_others_are_not() {
    let (_dir, run) = fresh();
    let device = Device::new(|spec| match spec.id.setting.tokens {
        128 => Act::Fail(FailureClass::Rejected),
        _ => Act::Measure,
    });
    let outcome = sweep(&device, &run, "").await.unwrap();
    assert_eq!((outcome.exit_code(), &outcome.end), (5, &End::Unreachable { settings: vec![setting(128)] }));
    let lengths: Vec<u32> = outcome.table.unwrap().entries.iter().map(|e| e.measured_tokens).collect();
    assert_eq!(lengths, [32, 64]);
}

fn setting(tokens: u32) -> crate::trial::Setting {
    crate::trial::Setting { stage: Stage::Prefill, tokens }
}

fn gpu(khz: u64) -> Option<crate::units::Opp> {
    Some(crate::units::Opp(khz))
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_keeps_refusing_ends_the_run_resumable() {
    let (_dir, run) = fresh();
    let outcome = sweep(&from_trial(20, 999, Act::Fail(FailureClass::Gate)), &run, "").await.unwrap();
    assert_eq!((outcome.exit_code(), outcome.resumable()), (4, true));
    assert!(outcome.end.why().contains("Gate"), "{:?}", outcome.end);
    let again = Campaign::resume(run, Device::honest().connector()).unwrap();
    assert_eq!(again.run(CancellationToken::new(), &mut ()).await.unwrap().exit_code(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_device_held_by_another_is_refused_after_a_while() {
    let (_dir, run) = fresh();
    let device = Device::honest();
    device.with(|w| w.refuses = vec![FailureClass::Gate; 999]);
    assert_eq!(sweep(&device, &run, "").await.unwrap().exit_code(), 4);
    device.with(|w| w.refuses = vec![FailureClass::Rejected]);
    let error = sweep(&device, &run, "").await.unwrap_err();
    assert!(matches!(&error, CampaignError::Refused { failure: f, .. } if *f == failure(f.class)));
    assert_eq!(error.exit_code(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_reboot_is_noticed_and_handled_as_configured() {
    for (policy, code) in [("continue", 0), ("stop", 6)] {
        let (_dir, run) = fresh();
        let device = from_trial(7, 0, Act::HangUp);
        device.with(|w| w.meanwhile = |w| w.boot_id = "boot-2".into());
        let before = tokio::time::Instant::now();
        let outcome = sweep(&device, &run, &format!("retry = {{ on-reboot = \"{policy}\" }}")).await.unwrap();
        assert_eq!(outcome.exit_code(), code, "{policy}");
        assert!(events(&run).iter().any(|l| matches!(l.event, Event::Rebooted { .. })));
        assert_eq!(code == 0, before.elapsed().as_secs() >= 60, "it is let settle");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reboot_of_the_machine_that_the_agent_runs_on_is_not_the_devices() {
    let (_dir, run) = fresh();
    let device = from_trial(7, 0, Act::HangUp);
    device.with(|w| w.meanwhile = |w| w.agent_boot_id = "host-2".into());
    assert_eq!(sweep(&device, &run, "").await.unwrap().exit_code(), 0);
    assert!(!events(&run).iter().any(|l| matches!(l.event, Event::Rebooted { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_resumed_run_starts_its_trials_from_the_temperature_of_its_beginning() {
    let (_dir, run) = fresh();
    let device = from_trial(7, 0, Act::HangUp);
    device.with(|w| w.meanwhile = |w| w.boot_id = "boot-2".into());
    assert_eq!(sweep(&device, &run, "retry = { on-reboot = \"stop\" }").await.unwrap().exit_code(), 6);
    device.with(|w| w.celsius = Celsius(39.0));
    assert_eq!(sweep(&device, &run, "").await.unwrap().exit_code(), 0);
    assert!(device.with(|w| w.starts.iter().all(|start| *start == Some(Celsius(30.0)))));
    assert_every_trial_has_its_samples(&run);
    let (_dir, run) = fresh();
    device.with(|w| w.starts.clear());
    sweep(&device, &run, "gate = { start-celsius = 33.0 }").await.unwrap();
    assert!(device.with(|w| w.starts.iter().all(|start| *start == Some(Celsius(33.0)))));
}

#[tokio::test(start_paused = true)]
async fn a_run_is_not_resumed_on_another_device_and_both_are_named() {
    let (_dir, run) = fresh();
    let device = from_trial(7, 0, Act::HangUp);
    device.with(|w| w.model = "Pixel 7".into());
    device.with(|w| w.meanwhile = |w| w.boot_id = "boot-2".into());
    assert_eq!(sweep(&device, &run, "retry = { on-reboot = \"stop\" }").await.unwrap().exit_code(), 6);
    let trials = device.with(|w| w.ran.len());
    device.with(|w| w.model = "Pixel 6".into());
    let error = sweep(&device, &run, "").await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("Pixel 7") && text.contains("Pixel 6"), "{text}");
    assert_eq!((error.exit_code(), device.with(|w| w.ran.len())), (2, trials), "nothing was measured");
}

#[tokio::test(start_paused = true)]
async fn another_device_under_the_same_name_is_refused() {
    let (_dir, run) = fresh();
    let device = from_trial(7, 0, Act::HangUp);
    device.with(|w| w.meanwhile = |w| w.serial = "another".into());
    let error = sweep(&device, &run, "").await.unwrap_err();
    assert!(error.to_string().contains("serial"), "{error}");
    assert_eq!(device.with(|w| w.byes), 1, "it is put back all the same");
}

#[tokio::test(start_paused = true)]
async fn without_an_energy_source_nothing_is_measured() {
    let (_dir, run) = fresh();
    let device = Device::honest();
    device.with(|w| w.energy = false);
    let error = sweep(&device, &run, "").await.unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("no gauge"), "{error}");
    assert_eq!(device.with(|w| (w.ran.len(), w.byes)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_gives_the_trial_up_says_bye_and_resumes() {
    let (_dir, run) = fresh();
    let device = from_trial(11, 0, Act::Linger);
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    struct Canceller(CancellationToken);
    impl Observer for Canceller {
        fn update(&mut self, news: Update<'_>) {
            if let Update::Phase(_) = news {
                self.0.cancel();
            }
        }
    }
    let campaign = Campaign::new(config(""), profile(), run.clone(), device.connector()).unwrap();
    let outcome = campaign.run(cancel, &mut Canceller(stop)).await.unwrap();
    assert_eq!((outcome.exit_code(), outcome.resumable()), (6, true));
    assert_eq!(device.with(|w| (w.ran.len(), w.byes)), (11, 1));
    assert!(matches!(events(&run).last().unwrap().event, Event::Interrupted { .. }));

    let (_dir, honest) = fresh();
    let table = sweep(&Device::honest(), &honest, "").await.unwrap().table;
    let resumed = Campaign::resume(run.clone(), device.connector()).unwrap();
    assert_eq!(resumed.run(CancellationToken::new(), &mut ()).await.unwrap().table, table);
    assert!(flagged(&events(&run)).is_empty(), "it was given up on purpose");
}

#[tokio::test(start_paused = true)]
async fn a_long_trial_keeps_the_lease_by_heartbeats() {
    let (_dir, run) = fresh();
    let device = from_trial(2, 0, Act::Linger);
    let cancel = CancellationToken::new();
    let campaign = Campaign::new(config(""), profile(), run, device.connector()).unwrap();
    let later = cancel.clone();
    let timer = tokio::spawn(async move {
        tokio::time::sleep(std::time::Duration::from_secs(100)).await;
        later.cancel();
    });
    campaign.run(cancel, &mut ()).await.unwrap();
    timer.await.unwrap();
    // The default lease is 10 s; a third of it fits into 100 s thirty times.
    assert!(device.with(|w| w.pings) >= 29);
}

#[tokio::test(start_paused = true)]
async fn a_device_that_is_not_put_back_counts_before_everything_else() {
    let (_dir, run) = fresh();
    let device = Device::honest();
    device.with(|w| w.differs = vec!["/sys/x: wanted 1, found 2".into()]);
    assert_eq!(sweep(&device, &run, "").await.unwrap().exit_code(), 7);
}
