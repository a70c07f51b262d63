//! Whole runs against a scripted agent, in memory and on paused time.

mod faults;
mod pure;
mod resume;
mod script;
mod twin;

use super::config::{Budget, GoalKind};
use super::*;
use crate::search::Goal;
use crate::table::Table;
use crate::trial::{Purpose, Stage};
use script::{Act, Device, config, profile};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio_util::sync::CancellationToken;

/// A directory that ends with the test, and a fresh run in it.
fn fresh() -> (tempfile::TempDir, RunDir) {
    let dir = tempfile::tempdir().unwrap();
    let run = RunDir::create(dir.path(), jiff::civil::date(2026, 2, 3), "script", "night").unwrap();
    (dir, run)
}

async fn sweep(device: &Device, run: &RunDir, more: &str) -> Result<Outcome, CampaignError> {
    let campaign = Campaign::new(config(more), profile(), run.clone(), device.connector())?;
    campaign.run(CancellationToken::new(), &mut ()).await
}

/// A sample file for every trial of the journal, and no other file.
fn assert_every_trial_has_its_samples(run: &RunDir) {
    let of = |line: &journal::Line| match &line.event {
        journal::Event::Finished { measurement } => Some(samples::file_name(&measurement.id)),
        _ => None,
    };
    let wanted: BTreeSet<String> = events(run).iter().filter_map(of).collect();
    let files = std::fs::read_dir(run.samples()).unwrap();
    let found: BTreeSet<String> = files.map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(found, wanted);
    let first = std::fs::read_to_string(run.samples().join(found.first().unwrap())).unwrap();
    assert_eq!(first, "boot_ms,series,unit,value\n1.000,power,mW,1000\n");
}

fn events(run: &RunDir) -> Vec<journal::Line> {
    journal::read(&run.journal()).unwrap().lines
}

#[tokio::test(start_paused = true)]
async fn a_sweep_measures_the_baseline_searches_and_leaves_a_complete_directory() {
    let (_dir, run) = fresh();
    let device = Device::honest();
    let outcome = sweep(&device, &run, "").await.unwrap();
    assert_eq!((outcome.end.clone(), outcome.exit_code()), (End::Done, 0));
    let table = outcome.table.unwrap();
    assert_eq!(table.entries.len(), 3);
    assert!(
        table.entries.iter().all(|e| e.met && e.expected.latency_ms.median < e.baseline.latency_ms.median)
    );
    assert_eq!(Table::load(&run.table()).unwrap(), table);
    assert_eq!(table_of(&events(&run), &config(""), &profile()).unwrap(), table);
    assert!(run.path().join("environment.json").is_file());
    assert_every_trial_has_its_samples(&run);
    assert_eq!((run.config().unwrap(), run.profile().unwrap()), (config(""), profile()));
    assert_eq!(device.with(|w| (w.opens, w.byes)), (1, 1));
    assert!(script::times(&device.with(|w| w.ran.clone())).values().all(|&n| n == 1));
}

#[tokio::test(start_paused = true)]
async fn the_baseline_comes_first_and_shuffled_by_the_seed() {
    let order = async |seed: u32| {
        let (_dir, run) = fresh();
        let device = Device::honest();
        sweep(&device, &run, &format!("search = {{ seed = {seed} }}")).await.unwrap();
        device.with(|w| w.ran.clone())
    };
    let (first, again, other) = (order(1).await, order(1).await, order(2).await);
    assert!(first[..9].iter().all(|id| id.purpose == Purpose::Baseline));
    assert!(first[9..].iter().all(|id| id.purpose == Purpose::Search));
    assert_eq!(first, again);
    assert_ne!(first[..9], other[..9]);
}

/// What a configuration that does not say otherwise is for.
const GOAL: (GoalKind, Budget) = (GoalKind::Latency, Budget::Baseline);

#[tokio::test(start_paused = true)]
async fn two_step_spends_less_than_exhaustive_and_compare_says_how_much_it_loses() {
    let (_dir, run) = fresh();
    let exhaustive = "search = { strategy = \"exhaustive\" }\nmeasure = { repeats = 1 }";
    let full = sweep(&Device::honest(), &run, exhaustive).await.unwrap().table.unwrap();
    assert!(full.entries.iter().all(|e| e.inferences == 16));
    let compared = compare(&events(&run), &config(exhaustive), &profile(), GOAL).unwrap();
    assert_eq!(compared.len(), 3);
    for one in &compared {
        let regret = one.regret().unwrap();
        assert!((0.0..0.2).contains(&regret), "{one:?}");
        assert!(one.two_step.points < one.exhaustive.points && one.exhaustive.points == 16, "{one:?}");
    }
    let (_dir, half) = fresh();
    sweep(&Device::honest(), &half, "").await.unwrap();
    let error = compare(&events(&half), &config(""), &profile(), GOAL).unwrap_err().to_string();
    assert!(error.contains("exhaustive"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_budget_leaves_the_governor_and_does_not_end_the_sweep() {
    let (_dir, run) = fresh();
    let outcome = sweep(&Device::honest(), &run, "search = { budget = { absolute = 1.0 } }").await.unwrap();
    assert_eq!(outcome.exit_code(), 5);
    assert!(matches!(&outcome.end, End::Unreachable { settings } if settings.len() == 3));
    let table = outcome.table.unwrap();
    assert!(table.entries.iter().all(|e| !e.met && e.expected == e.baseline));
    assert_eq!(table.entries[0].pins, plan_axes().baseline());
}

fn plan_axes() -> axes::DeviceAxes {
    let knobs = [("gpu", &script::GPU[..]), ("cpu-big", &script::CPU), ("cpu-little", &script::LITTLE)];
    let mut knobs: Vec<_> = knobs.map(|(id, opps)| script::knob(id, opps)).into();
    knobs.push(script::knob("mem", &script::GPU));
    axes::DeviceAxes::new(&profile(), &knobs).unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_lowest_energy_goal_keeps_the_latency_of_the_baseline() {
    let (_dir, run) = fresh();
    let table =
        sweep(&Device::honest(), &run, "search = { goal = \"energy\" }").await.unwrap().table.unwrap();
    for entry in &table.entries {
        let Goal::LowestEnergy { within } = entry.goal else { panic!("{:?}", entry.goal) };
        assert!(entry.met && entry.expected.latency_ms.median <= within.0 + 0.01);
    }
}

#[tokio::test(start_paused = true)]
async fn a_bound_on_inferences_holds() {
    let (_dir, run) = fresh();
    let table =
        sweep(&Device::honest(), &run, "search = { max-inferences = 7 }").await.unwrap().table.unwrap();
    assert!(table.entries.iter().all(|e| e.inferences <= 7 && e.inferences > 0));
}

#[tokio::test(start_paused = true)]
async fn clamped_samples_pick_nothing() {
    let (_dir, run) = fresh();
    // The two fastest GPU clocks never hold.
    let device = Device::new(|spec| match plan_axes().point(&spec.id.combination).gpu {
        Some(opp) if opp.0 >= 300_000 => Act::Clamped,
        _ => Act::Measure,
    });
    let table = sweep(&device, &run, "").await.unwrap().table.unwrap();
    for entry in table.entries {
        let gpu = plan_axes().point(&entry.pins).gpu.unwrap();
        assert!(entry.met && gpu.0 < 300_000, "{gpu:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn drift_is_controlled_at_intervals() {
    let (_dir, run) = fresh();
    let device = Device::honest();
    sweep(&device, &run, "measure = { drift-every = 5 }").await.unwrap();
    let ran = device.with(|w| w.ran.clone());
    let drift: Vec<usize> = (0..ran.len()).filter(|&i| ran[i].purpose == Purpose::Drift).collect();
    assert_eq!(drift[..3], [5, 11, 17]);
    assert!(drift.iter().all(|&i| ran[i].setting.stage == Stage::Decode));
}

#[tokio::test(start_paused = true)]
async fn watchers_hear_of_every_trial_once() {
    struct Ear(Arc<AtomicU32>);
    impl Observer for Ear {
        fn update(&mut self, news: Update<'_>) {
            if let Update::Finished { done, about, .. } = news {
                assert_eq!(done, self.0.fetch_add(1, Ordering::Relaxed) + 1);
                assert!(done <= about);
            }
        }
    }
    let (_dir, run) = fresh();
    let (device, heard) = (Device::honest(), Arc::new(AtomicU32::new(0)));
    let campaign = Campaign::new(config(""), profile(), run, device.connector()).unwrap();
    campaign.run(CancellationToken::new(), &mut Ear(heard.clone())).await.unwrap();
    assert_eq!(heard.load(Ordering::Relaxed) as usize, device.with(|w| w.ran.len()));
}

#[test]
fn a_run_can_be_spawned() {
    fn sent<T: Send>(_: &T) {}
    let (_dir, run) = fresh();
    let campaign = Campaign::new(config(""), profile(), run, Device::honest().connector()).unwrap();
    sent(&campaign.run(CancellationToken::new(), &mut ()));
}
