//! Runs that the device does alone, over real links that go away.

use crate::lab::Daemon;
use crate::support::{Tree, journal, opptune, until};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn over(daemon: &Daemon, mut command: Command) -> Output {
    command.env("ANDROID_ADB_SERVER_PORT", &daemon.says["ADB_SERVER_PORT"]).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The run directory that `sweep --detach` made below `results`.
fn detached(daemon: &Daemon, tree: &Tree, results: &Path, options: &[&str]) -> PathBuf {
    let mut sweep = opptune(["sweep", "--detach"]);
    sweep.args(options);
    sweep.arg(tree.config()).arg(format!("--device=adb:{}", daemon.says["ADB_SERIAL"]));
    sweep.arg("--results").arg(results).args(tree.agent_args());
    let output = over(daemon, sweep);
    assert!(output.status.success(), "{}", text(&output));
    std::fs::read_dir(results).unwrap().next().unwrap().unwrap().path()
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
    let (mut daemon, tree) = (Daemon::adbd(25400), Tree::new());
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
    assert!(matches!(resumed.status.code(), Some(0 | 5 | 7)), "{}", text(&resumed));
    assert_eq!(journal(&run).iter().filter(|line| line["event"] == "completed").count(), 1);
}

#[test]
fn a_detached_run_that_is_stopped_puts_the_device_back_and_is_finished_over_the_link() {
    let (daemon, tree) = (Daemon::adbd(25410), Tree::new());
    let results = tempfile::tempdir().unwrap();
    let run = detached(&daemon, &tree, results.path(), &[]);
    until("the device is pinned", || tree.changed());
    let pid = std::fs::read_to_string(on_device(&run, "pid")).unwrap();
    let pid = nix::unistd::Pid::from_raw(pid.trim().parse().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    until("the device is put back", || !tree.changed());
    let collected = over(&daemon, about(&run, "collect"));
    assert_eq!(collected.status.code(), Some(6), "{}", text(&collected));
    assert!(text(&collected).contains("opptune resume"), "{}", text(&collected));
}

#[test]
fn a_detached_run_waits_for_the_cable_to_go_and_gives_the_meter_a_sign() {
    let (daemon, tree) = (Daemon::adbd(25420), Tree::new());
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
    let (daemon, tree) = (Daemon::adbd(25430), Tree::new());
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
