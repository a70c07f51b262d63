//! The parts that need no agent: axes, plan, goals, merge.

use super::config::{Budget, GoalKind};
use super::plan::{Plan, goal};
use super::script::{CPU, Device, GPU, LITTLE, knob};
use super::*;
use crate::profile::{Follow, Profile, Use};
use crate::search::{Point, Value};
use crate::trial::{Choice, KnobId};
use crate::units::{MilliJoule, Millis, Opp, OppUnit};

fn pins(profile: &Profile, unit: OppUnit, point: Point) -> Vec<(String, Choice)> {
    let mut knobs =
        vec![knob("gpu", &GPU), knob("cpu-big", &CPU), knob("cpu-little", &LITTLE), knob("mem", &GPU)];
    knobs.iter_mut().for_each(|k| k.unit = unit);
    let axes = axes::DeviceAxes::new(profile, &knobs).unwrap();
    let combination = axes.combination(point);
    assert_eq!(axes.point(&combination), point);
    combination.0.into_iter().map(|(id, choice)| (id.0, choice)).collect()
}

fn at(gpu: u64, cpu: u64) -> Point {
    Point { gpu: Some(Opp(gpu)), cpu: Some(Opp(cpu)) }
}

#[test]
fn a_point_pins_leads_followers_and_fixed_knobs() {
    let pin = |id: &str, khz| (id.to_owned(), Choice::Pin(Opp(khz)));
    // 1000 MHz is half of the big maximum; half of 1200 MHz lies between 300 and 900, both 300 away.
    let expected =
        [pin("cpu-big", 1_000_000), pin("cpu-little", 900_000), pin("gpu", 200_000), pin("mem", 300_000)];
    assert_eq!(pins(&profile(), OppUnit::KiloHertz, at(200_000, 1_000_000)), expected);
    let gpu_only = Point { gpu: Some(Opp(200_000)), cpu: None };
    assert_eq!(pins(&profile(), OppUnit::KiloHertz, gpu_only), [pin("gpu", 200_000), pin("mem", 300_000)]);
}

#[test]
fn followers_follow_as_the_profile_says() {
    let little = |follow| {
        let mut profile = profile();
        let axis = profile.axes.cpu.as_mut().unwrap();
        axis.follow.insert(KnobId("cpu-little".into()), follow);
        pins(&profile, OppUnit::KiloHertz, at(200_000, 500_000))[1].1
    };
    let pin = |khz| Choice::Pin(Opp(khz));
    assert_eq!(little(Follow::Proportional), pin(300_000));
    assert_eq!(little(Follow::Max), pin(1_200_000));
    assert_eq!(little(Follow::Min), pin(300_000));
    assert_eq!(little(Follow::At(Opp(900_000))), pin(900_000));
    // By place in the table: second of four is as far as the second of three, less a little.
    let by_index = pins(&profile(), OppUnit::Index, at(200_000, 1_000_000))[1].1;
    assert_eq!(by_index, pin(900_000));
}

#[test]
fn knobs_and_points_that_are_not_there_are_named() {
    let knobs = |ids: &[&str]| ids.iter().map(|id| knob(id, &GPU)).collect::<Vec<_>>();
    let fault = |profile: &Profile, ids: &[&str]| {
        axes::DeviceAxes::new(profile, &knobs(ids)).unwrap_err().to_string()
    };
    let all = ["gpu", "cpu-big", "cpu-little", "mem"];
    assert!(fault(&profile(), &all[1..]).contains("`gpu`"));
    assert!(fault(&profile(), &["gpu", "cpu-big", "mem"]).contains("`cpu-little`"));
    assert!(fault(&profile(), &all[..3]).contains("`mem`"));
    let mut odd = profile();
    odd.knobs[3].usage = Use::Pin(Opp(123_000));
    let text = fault(&odd, &all);
    assert!(text.contains("123 MHz") && text.contains("100 MHz, 200 MHz"), "{text}");
}

#[test]
fn the_bound_comes_from_the_baseline_or_stands_alone() {
    let baseline = Some(Value { latency: Millis(200.0), energy: MilliJoule(400.0) });
    let fastest = |mj| Some(Goal::LowestLatency { within: MilliJoule(mj) });
    assert_eq!(goal(GoalKind::Latency, Budget::Baseline, baseline), fastest(400.0));
    assert_eq!(goal(GoalKind::Latency, Budget::Factor(0.5), baseline), fastest(200.0));
    assert_eq!(goal(GoalKind::Latency, Budget::Absolute(350.0), None), fastest(350.0));
    assert_eq!(goal(GoalKind::Latency, Budget::Baseline, None), None);
    let thriftiest = Some(Goal::LowestEnergy { within: Millis(100.0) });
    assert_eq!(goal(GoalKind::Energy, Budget::Factor(0.5), baseline), thriftiest);
}

#[test]
fn the_seed_of_a_trial_depends_on_run_and_trial_alone() {
    let seeds = |more: &str| {
        let config = config(more);
        let plan = Plan::new(&config, plan_axes());
        let mut all: Vec<_> =
            plan.baseline_trials().iter().map(|id| (id.clone(), plan.spec(id).seed)).collect();
        all.sort();
        all
    };
    let first = seeds("");
    assert_eq!(first, seeds("measure = { repeats = 9, drift-every = 3 }"));
    assert_ne!(first, seeds("search = { seed = 2 }"));
    let distinct: std::collections::BTreeSet<u64> = first.iter().map(|(_, seed)| *seed).collect();
    assert_eq!(distinct.len(), first.len());
    // Runs of other builds must stay resumable: this number may not change within a journal version.
    assert_eq!(first[0].1, 16_042_070_181_289_742_681);
}

/// A finished run of `more` on a device of this serial.
async fn run_of(serial: &str, more: &str) -> (tempfile::TempDir, Run) {
    let (dir, run) = fresh();
    let device = Device::honest();
    device.with(|w| w.serial = serial.into());
    sweep(&device, &run, more).await.unwrap();
    (dir, Run::load(&run).unwrap())
}

#[tokio::test(start_paused = true)]
async fn like_runs_merge_into_one_with_all_their_trials() {
    let (_a, one) = run_of("one", "").await;
    let (_b, two) = run_of("two", "search = { seed = 9 }").await;
    let (trials, spent) = (one.ledger.finished().count() + two.ledger.finished().count(), |run: &Run| {
        run.ledger.inferences(run.config.settings.list()[0])
    });
    let merged = merge(&[one.clone(), two.clone()]).unwrap();
    assert_eq!(merged.ledger.finished().count(), trials, "trials of equal name are kept apart");
    assert_eq!(spent(&merged), spent(&one) + spent(&two));
    let table = merged.table().unwrap();
    assert_eq!(table.entries.len(), 3);
    assert!(table.entries.iter().all(|e| e.met && e.baseline.latency_ms.n == 6));
    let (_dir, into) = fresh();
    merged.save(&into).unwrap();
    assert_eq!(Run::load(&into).unwrap().table().unwrap(), table);
    assert_eq!(Table::load(&into.table()).unwrap(), table);
}

#[tokio::test(start_paused = true)]
async fn other_settings_merge_side_by_side() {
    let (_a, one) = run_of("one", "").await;
    let (_b, mut two) = run_of("two", "").await;
    two.config.settings.prefill = vec![256];
    let merged = merge(&[one, two]).unwrap();
    assert_eq!(merged.config.settings.list().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn unlike_runs_are_refused_by_what_differs() {
    let (_a, one) = run_of("one", "").await;
    let (_b, two) = run_of("two", "search = { goal = \"energy\" }\nmeasure = { min-window-ms = 5 }").await;
    let error = merge(&[one.clone(), two]).unwrap_err().to_string();
    assert!(error.contains("goal") && error.contains("min window"), "{error}");
    let (_c, mut three) = run_of("three", "").await;
    three.lines.iter_mut().for_each(|line| {
        if let journal::Event::Opened { opened } = &mut line.event {
            opened.device.kernel = "6.9".into();
        }
    });
    let error =
        merge(&[one, Run { ledger: ledger::Ledger::of(&three.lines), ..three }]).unwrap_err().to_string();
    assert!(error.contains("kernel"), "{error}");
}
