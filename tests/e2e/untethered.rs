//! Runs that the device does alone, over real links that go away.

use crate::lab::Daemon;
use crate::support::{Tree, journal, opptune, text, until};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn over(daemon: &Daemon, mut command: Command) -> Output {
    command.env("ANDROID_ADB_SERVER_PORT", &daemon.says["ADB_SERVER_PORT"]).output().unwrap()
}

/// Leaves a sweep of a tree to the device.
fn detach(daemon: &Daemon, tree: &Tree, results: &Path) -> Command {
    let mut sweep = opptune(["sweep", "--detach"]);
    sweep.arg(tree.config()).arg(format!("--device=adb:{}", daemon.says["ADB_SERIAL"]));
    sweep.arg("--results").arg(results).args(tree.agent_args());
    sweep
}

/// The run directory that `sweep --detach` made below `results`.
fn detached(daemon: &Daemon, tree: &Tree, results: &Path, options: &[&str]) -> PathBuf {
    let mut sweep = detach(daemon, tree, results);
    sweep.args(options);
    let output = over(daemon, sweep);
    assert!(output.status.success(), "{}", text(&output));
    run_in(results).unwrap()
}

fn run_in(results: &Path) -> Option<PathBuf> {
    Some(std::fs::read_dir(results).ok()?.next()?.ok()?.path())
}

fn about(run: &Path, command: &str) -> Command {
    let mut command = opptune([command]);
    command.arg(run);
    command
}

/// A file of the run directory on the device, which is this machine.
fn on_device(run: &Path, name: &str) -> PathBuf {
    let detached = std::fs::read_to_string(run.join("detached.json")).unwrap();
    let detached: serde_json::Value = serde_json::from_str(&detached).unwrap();
    Path::new(detached["dir"].as_str().unwrap()).join(name)
}

#[test]
fn a_detached_run_outlives_adbd_and_is_brought_home() {
    let (mut daemon, tree) = (Daemon::adbd(), Tree::new());
    let results = tempfile::tempdir().unwrap();
    let run = detached(&daemon, &tree, results.path(), &[]);
    until("the device is pinned", || tree.changed());
    daemon.tell("kill");
    let there = on_device(&run, "");
    until("the run is complete without a link", || {
        journal(&there).iter().any(|line| line["event"] == "completed")
    });
    until("the device is put back", || !tree.changed());
    daemon.start();

    let status = over(&daemon, about(&run, "status"));
    assert!(text(&status).contains("complete: "), "{}", text(&status));
    let collected = over(&daemon, about(&run, "collect"));
    assert!(collected.status.success(), "{}", text(&collected));
    for name in
        ["config.toml", "profile.toml", "environment.json", "journal.jsonl", "table.toml", "report.html"]
    {
        assert!(run.join(name).is_file(), "{name} is missing");
    }
    assert_eq!(journal(&run), journal(&there));
    let measured = journal(&run).iter().filter(|line| line["event"] == "finished").count();
    assert_eq!(std::fs::read_dir(run.join("samples")).unwrap().count(), measured);
    // The directory is as good as a tethered one: a resume finds nothing left to do.
    let resumed = opptune(["resume"]).arg(&run).output().unwrap();
    assert_eq!(resumed.status.code(), Some(0), "{}", text(&resumed));
    assert_eq!(journal(&run).iter().filter(|line| line["event"] == "completed").count(), 1);
}

/// What a host knows of a run that died before the device had answered.
fn forget_the_start(run: &Path) {
    let file = run.join("detached.json");
    let known = std::fs::read_to_string(&file).unwrap();
    assert!(known.contains("\"started\""), "{known}");
    std::fs::write(file, known.replace("\"started\"", "\"starting\"")).unwrap();
}

#[test]
fn a_host_that_dies_while_it_starts_a_run_finds_it_again() {
    let (daemon, tree) = (Daemon::adbd(), Tree::new());
    let results = tempfile::tempdir().unwrap();
    let mut host = detach(&daemon, &tree, results.path());
    host.env("ANDROID_ADB_SERVER_PORT", &daemon.says["ADB_SERVER_PORT"]);
    let mut host = host.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let known = || Some(run_in(results.path())?.join("detached.json").exists());
    until("the host knows where the run will be", || known() == Some(true));
    host.kill().unwrap();
    host.wait().unwrap();
    let run = run_in(results.path()).unwrap();
    let status = over(&daemon, about(&run, "status"));
    assert!(status.status.success(), "{}", text(&status));
    // Whatever the device had of it by then.
    let words = ["not started: ", "running: ", "complete: "];
    assert!(words.iter().any(|word| text(&status).starts_with(word)), "{}", text(&status));
}

#[test]
fn a_detached_run_that_is_stopped_puts_the_device_back_and_is_finished_over_the_link() {
    let (daemon, tree) = (Daemon::adbd(), Tree::new());
    let results = tempfile::tempdir().unwrap();
    let run = detached(&daemon, &tree, results.path(), &[]);
    forget_the_start(&run);
    until("the device is pinned", || tree.changed());
    let pid = std::fs::read_to_string(on_device(&run, "pid")).unwrap();
    let pid = nix::unistd::Pid::from_raw(pid.trim().parse().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    until("the run has ended", || text(&over(&daemon, about(&run, "status"))).contains("stopped: "));
    assert!(!tree.changed(), "{}", tree.difference());
    let collected = over(&daemon, about(&run, "collect"));
    assert_eq!(collected.status.code(), Some(6), "{}", text(&collected));
    assert!(text(&collected).contains("opptune resume"), "{}", text(&collected));
}

#[test]
fn a_detached_run_waits_for_the_cable_to_go_and_gives_the_meter_a_sign() {
    let (daemon, tree) = (Daemon::adbd(), Tree::new());
    let results = tempfile::tempdir().unwrap();
    let plugged = tree.cable(true);
    let run = detached(&daemon, &tree, results.path(), &["--unplug-within=600", "--pulses=2"]);
    let status = text(&over(&daemon, about(&run, "status")));
    assert!(status.contains("running: 0 trials"), "{status}");
    let mut clean = opptune(["clean"]);
    clean.arg(format!("--device=adb:{}", daemon.says["ADB_SERIAL"]));
    let refused = over(&daemon, clean);
    assert!(text(&refused).contains("a detached run is on it"), "{}", text(&refused));
    assert!(!tree.changed());
    std::fs::write(plugged, "0\n").unwrap();
    let there = on_device(&run, "");
    until("the run is complete", || journal(&there).iter().any(|line| line["event"] == "completed"));
    let collected = over(&daemon, about(&run, "collect"));
    assert!(collected.status.success(), "{}", text(&collected));
    let pulses = std::fs::read_to_string(run.join("pulses.json")).unwrap();
    let pulses: Vec<(u64, u64)> = serde_json::from_str(&pulses).unwrap();
    assert!(
        pulses.len() == 2 && pulses.iter().all(|(begin, end)| end - begin >= 1_000_000_000),
        "{pulses:?}"
    );
}

#[test]
fn a_detached_run_whose_cable_stays_does_not_begin() {
    let (daemon, tree) = (Daemon::adbd(), Tree::new());
    let results = tempfile::tempdir().unwrap();
    tree.cable(true);
    let run = detached(&daemon, &tree, results.path(), &["--unplug-within=0"]);
    let there = on_device(&run, "log");
    until("the run has given up", || {
        std::fs::read_to_string(&there).unwrap().contains("cable was still there")
    });
    assert!(!tree.changed());
    let collected = over(&daemon, about(&run, "collect"));
    assert_eq!(collected.status.code(), Some(6), "{}", text(&collected));
}
