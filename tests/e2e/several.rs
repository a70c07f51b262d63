//! More than one sweep: of several devices side by side, and of one device that two want.

use crate::lab::Daemon;
use crate::support::{Tree, journal, opptune, text, until};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

/// What every sweep of a tree's configuration calls itself to the device.
const HOLDER: &str = "opptune sweep tree";

/// A sweep through one adb server, with its run directories in `results`.
fn sweep(server: &Daemon, config: &Path, devices: &[&Daemon], results: &Path) -> Command {
    let mut sweep = opptune(["sweep"]);
    sweep.arg(config).arg("--results").arg(results);
    sweep.args(devices.iter().map(|device| format!("--device={}", link(device))));
    sweep.env("ANDROID_ADB_SERVER_PORT", &server.says["ADB_SERVER_PORT"]);
    sweep
}

fn link(daemon: &Daemon) -> String {
    format!("adb:{}", daemon.says["ADB_SERIAL"])
}

#[test]
fn two_devices_are_swept_side_by_side() {
    let (one, other) = (Daemon::adbd(), Daemon::adbd());
    let (tree, blind) = (Tree::new(), Tree::without_gpu_clock());
    // Each daemon runs the agent in a directory of its own, so that one relative path is two trees.
    for (daemon, tree) in [(&one, &tree), (&other, &blind)] {
        let place = Path::new(&daemon.says["ADBD_DIR"]).join("tree");
        let _ = std::fs::remove_file(&place);
        symlink(tree.path(), place).unwrap();
    }
    let results = tempfile::tempdir().unwrap();
    let mut both = sweep(&one, &tree.config(), &[&one, &other], results.path());
    both.args(["--agent-arg=--root=tree/root", "--agent-arg=--state-dir=tree/state"]);
    let output = both.output().unwrap();
    let said = text(&output);
    // The worse of 0 and 5: what tells whether a pin held is missing on one of them.
    assert_eq!(output.status.code(), Some(5), "{said}");
    let runs: Vec<_> = std::fs::read_dir(results.path()).unwrap().map(|run| run.unwrap().path()).collect();
    assert_eq!(runs.len(), 2, "{said}");
    for run in &runs {
        assert_eq!(journal(run).iter().filter(|line| line["event"] == "completed").count(), 1, "{said}");
        assert!(run.join("report.html").exists());
    }
    let of = |daemon: &Daemon, what: &str| {
        let prefix = format!("{}: ", link(daemon));
        said.lines().filter_map(|line| line.strip_prefix(&prefix)).any(|line| line.contains(what))
    };
    for daemon in [&one, &other] {
        for what in ["device: ", "measuring the default governors", "run directory: "] {
            assert!(of(daemon, what), "{what} of {}: {said}", link(daemon));
        }
    }
    assert!(of(&other, "no trial could be used (gpu: unverifiable"), "{said}");
    assert!(!of(&one, "no trial could be used"), "{said}");
    assert!(!tree.changed() && !blind.changed(), "{}{}", tree.difference(), blind.difference());
}

#[test]
fn a_device_is_one_sweeps_until_it_is_taken_by_name() {
    let (daemon, tree) = (Daemon::adbd(), Tree::new());
    let results = tempfile::tempdir().unwrap();
    let sweep = |config: &Path| {
        let mut sweep = sweep(&daemon, config, &[&daemon], results.path());
        sweep.args(tree.agent_args()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        sweep
    };
    let holder = sweep(&tree.long_config()).spawn().unwrap();
    until("the device is pinned", || tree.changed());

    let refused = sweep(&tree.config()).spawn().unwrap();
    let wrong = sweep(&tree.config()).arg("--steal=somebody else").spawn().unwrap();
    let refused = refused.wait_with_output().unwrap();
    assert_eq!(refused.status.code(), Some(4), "{}", text(&refused));
    assert!(text(&refused).contains(&format!("held by `{HOLDER}`")), "{}", text(&refused));
    assert!(text(&refused).contains(&format!("--steal '{HOLDER}'")), "{}", text(&refused));
    let wrong = wrong.wait_with_output().unwrap();
    // What is wrong there is the command line.
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong));
    assert!(text(&wrong).contains("not held by `somebody else`"), "{}", text(&wrong));

    let thief = sweep(&tree.config()).args(["--steal", HOLDER]).output().unwrap();
    assert_eq!(thief.status.code(), Some(0), "{}", text(&thief));
    // The robbed sweep waits for the device, and leaves it alone when it is told to end.
    nix::sys::signal::kill(Pid::from_raw(holder.id() as i32), Signal::SIGINT).unwrap();
    let robbed = holder.wait_with_output().unwrap();
    assert_eq!(robbed.status.code(), Some(6), "{}", text(&robbed));
    assert!(text(&robbed).contains("opptune resume"), "{}", text(&robbed));
    assert!(!tree.changed(), "{}", tree.difference());
}
