//! Every knob family on mounted simulated devices: the production code, real file accesses, real errors.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod support;

use opptune::clock::BootClock;
use opptune::guard::{Place, put_back};
use opptune::knob::{self, Knob};
use opptune::profile::{KnobSpec, Role};
use opptune::sysfs::{NoProperties, NodePath, Nodes, RootedNodes};
use opptune::units::Opp;
use std::fmt::Write;
use std::process::Command;
use support::{Mounted, TWINS, can_mount, until};

/// What one knob went through.
struct Row {
    name: String,
    pinned: usize,
    opps: usize,
    clamp: &'static str,
    contention: &'static str,
    restored: bool,
}

/// The nodes of a knob that decide what it does, as they read.
fn state(knob: &dyn Knob, nodes: &RootedNodes) -> Vec<String> {
    let steps = knob.snapshot(nodes).unwrap();
    steps.iter().map(|step| format!("{:?} {}", step.target, step.write)).collect()
}

/// Pins every operating point and looks whether it reads back and, where a clock is shown, runs.
fn pin_all(knob: &mut dyn Knob, nodes: &RootedNodes) -> usize {
    let opps = knob.info().opps.clone();
    let mut holds = |opp: &Opp| knob.pin(nodes, *opp).is_ok_and(|found| found == *opp);
    opps.iter().filter(|opp| holds(opp)).count()
}

fn clamped(device: &Mounted, knob: &mut dyn Knob, nodes: &RootedNodes) -> &'static str {
    let (id, opps) = (knob.info().id.clone(), knob.info().opps.clone());
    knob.pin(nodes, *opps.last().unwrap()).unwrap();
    device.tell(&format!("clamp {id} {}", clamp_value(knob, opps[0])));
    let glimpse = knob.glimpse(nodes);
    let top = *opps.last().unwrap();
    let by = glimpse.limits.iter().find(|limit| limit.max.is_some_and(|max| max < top));
    let slower = glimpse.clock.is_some_and(|clock| clock < top);
    device.tell(&format!("unclamp {id}"));
    match (by, slower) {
        (Some(_), _) => "named",
        (None, true) => "by the clock",
        (None, false) => "unseen",
    }
}

/// The device counts the domain's operating points as its profile does.
fn clamp_value(knob: &dyn Knob, opp: Opp) -> u64 {
    // gpufreqv2 with a clock listed twice shows indices; its clamp is a clock all the same.
    if knob.info().unit == opptune::units::OppUnit::Index { 390_000 } else { opp.0 }
}

fn contended(device: &Mounted, knob: &mut dyn Knob, nodes: &RootedNodes) -> &'static str {
    let (id, lowest) = (knob.info().id.clone(), knob.info().opps[0]);
    if knob.info().family == "cpu-quota" {
        return "does not apply";
    }
    knob.pin(nodes, lowest).unwrap();
    device.tell(&format!("fight {id} 20"));
    until("the daemon's rewrite is seen", || knob.glimpse(nodes).range != Some((lowest, lowest)));
    device.tell("calm");
    "seen"
}

fn exercise(device: &Mounted, spec: &KnobSpec, nodes: &RootedNodes) -> Row {
    let mut knob = knob::open(spec, nodes).unwrap();
    let knob = &mut *knob;
    let saved = knob.snapshot(nodes).unwrap();
    let before = state(knob, nodes);
    let pinned = pin_all(knob, nodes);
    let clamp =
        if knob.info().family == "cpu-quota" { "does not apply" } else { clamped(device, knob, nodes) };
    let contention = contended(device, knob, nodes);
    let report = put_back(&saved, Place { nodes, properties: &NoProperties, clock: &BootClock });
    Row {
        name: format!("{:<26} {:<12} {}", device.profile().name, spec.id, knob.info().family),
        pinned,
        opps: knob.info().opps.len(),
        clamp,
        contention,
        restored: report.complete() && state(knob, nodes) == before,
    }
}

/// Votes and floors that the profile's companions would withdraw first.
fn withdraw_votes(nodes: &RootedNodes) {
    let max = NodePath::new("/sys/module/msm_performance/parameters/cpu_max_freq").unwrap();
    if nodes.exists(&max) {
        nodes.write(&max, "7:4294967295").unwrap();
    }
}

#[test]
fn every_family_is_pinned_clamped_contended_and_restored() {
    if !can_mount() {
        return;
    }
    let mut table = String::from("device, knob, family: pinned, clamp, contention, restored\n");
    let mut rows = Vec::new();
    for twin in TWINS {
        let device = Mounted::new(twin);
        let nodes = device.nodes();
        // Something runs, or a GPU shows no clock.
        device.tell("load 0.5");
        withdraw_votes(&nodes);
        rows.extend(
            device.profile().knobs.iter().map(|spec| (spec.clone(), exercise(&device, spec, &nodes))),
        );
    }
    for (_, row) in &rows {
        let Row { name, pinned, opps, clamp, contention, restored } = row;
        let _ = writeln!(table, "{name:<52} {pinned:>2}/{opps:<2}  {clamp:<14} {contention:<14} {restored}");
    }
    // Past the capture of the test harness: the table is to be seen always.
    std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("\n{table}\n")).unwrap();
    for (spec, row) in &rows {
        // Memory has floors that other domains ask for: its low points cannot be held against them.
        let free = spec.role != Role::Memory;
        assert!(!free || row.pinned == row.opps, "{}: not every pin held\n{table}", row.name);
        assert!(row.restored, "{}: not restored\n{table}", row.name);
        assert!(row.clamp != "unseen", "{}: clamp unseen\n{table}", row.name);
    }
}

#[test]
fn check_pins_walks_a_mounted_device_and_leaves_it_as_it_was() {
    if !can_mount() {
        return;
    }
    let device = Mounted::new("twins/mediatek-gpufreqv1");
    device.tell("load 0.5");
    let (knobs, nodes) = (device.profile().knobs, device.nodes());
    let look = || -> Vec<_> {
        knobs.iter().map(|spec| state(&*knob::open(spec, &nodes).unwrap(), &nodes)).collect()
    };
    let before = look();
    let mut command = Command::new(env!("CARGO_BIN_EXE_opptune"));
    command.args(["check-pins", "--json", "--profile"]).arg(device.profile_file());
    command.args(device.agent_args().map(|arg| format!("--agent-arg={arg}")));
    let output = command.output().unwrap();
    let (text, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{text}{log}", output.status);
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let rows: Vec<_> =
        report["knobs"].as_array().unwrap().iter().flat_map(|k| k["rows"].as_array().unwrap()).collect();
    assert_eq!(
        rows.len(),
        knobs.iter().map(|k| knob::open(k, &nodes).unwrap().info().opps.len()).sum::<usize>()
    );
    assert!(rows.iter().all(|row| row["problem"].is_null()), "{text}");
    assert_eq!(look(), before);
}

/// The host binary with its agent on a mounted device.
fn opptune(device: &Mounted, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_opptune"));
    command.args(args).args(device.agent_args().map(|arg| format!("--agent-arg={arg}")));
    command
}

fn answer(mut command: Command) -> String {
    let output = command.output().unwrap();
    let (text, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{text}{log}", output.status);
    text.into_owned()
}

const SWEEP: &str = r#"
schema = 1
name = "mounted"
device = { profile = "@PROFILE@" }
engine = { kind = "spin", threads = 1 }
settings = { decode = [4], prefill = [] }
search = { strategy = "exhaustive", budget = { absolute = 1e9 }, max-inferences = 2 }
measure = { repeats = 1, baseline-repeats = 1, min-window-ms = 100, min-updates = 1 }
"#;

#[test]
fn numbers_of_a_mounted_device_are_told_simulated_wherever_they_are_printed() {
    if !can_mount() {
        return;
    }
    for family in ["twins/pixel-7", "twins/snapdragon-8-gen-2", "twins/mediatek-gpufreqv2"] {
        let device = Mounted::new(family);
        let profile = device.profile_file();
        let profile = profile.to_str().unwrap();
        for command in ["probe", "doctor"] {
            let text = answer(opptune(&device, &[command, "--profile", profile]));
            let first = text.lines().next().unwrap();
            assert!(first.contains("(simulated)") && !text.contains("measured"), "{text}");
        }
    }
}

#[test]
fn a_sweep_of_a_mounted_device_is_told_simulated_in_table_and_journal() {
    if !can_mount() {
        return;
    }
    let device = Mounted::new("twins/legacy-qualcomm");
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("sweep.toml");
    std::fs::write(&config, SWEEP.replace("@PROFILE@", device.profile_file().to_str().unwrap())).unwrap();
    let results = dir.path().join("results");
    let (config, into) = (config.to_str().unwrap(), results.to_str().unwrap());
    let output = opptune(&device, &["sweep", config, "--results", into]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    // Two trials need not find an operating point that holds: the table is printed all the same (exit code 5).
    assert!(
        text.contains("SIMULATED"),
        "{}: {text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let run = std::fs::read_dir(&results).unwrap().next().unwrap().unwrap().path();
    let journal = std::fs::read_to_string(run.join("journal.jsonl")).unwrap();
    assert!(journal.contains(r#""origin":"simulated""#) && !journal.contains(r#""origin":"measured""#));
    assert!(std::fs::read_to_string(run.join("table.toml")).unwrap().contains(r#"origin = "simulated""#));
}
