//! Whole sweeps over the real binaries: killed, interrupted, resumed, and devices put back.

use crate::support::{Tree, journal, opptune, run_dir_in, until};
use nix::sys::signal::Signal;
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

const EXAMPLE: &str = "examples/pixel-7-twin.toml";

fn start(example: &str, results: &Path) -> Child {
    opptune(["sweep", example, "--results"])
        .arg(results)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A sweep of `tree` that has pinned it; `output` takes what it says.
fn pinned_sweep(tree: &Tree, results: &Path, output: fn() -> Stdio) -> Child {
    let sweep = opptune(["sweep"])
        .arg(tree.config())
        .args(tree.agent_args())
        .arg("--results")
        .arg(results)
        .stdin(Stdio::null())
        .stdout(output())
        .stderr(output())
        .spawn()
        .unwrap();
    until("the device is pinned", || tree.changed());
    sweep
}

fn table_of(results: &Path) -> String {
    fs::read_to_string(run_dir_in(results).unwrap().join("table.toml")).unwrap()
}

/// Trial ids of the journal's `finished` events.
fn finished(run: &Path) -> Vec<String> {
    journal(run)
        .iter()
        .filter(|line| line["event"] == "finished")
        .map(|line| line["measurement"]["id"].to_string())
        .collect()
}

#[test]
fn a_killed_sweep_resumes_to_the_same_table_from_any_moment() {
    let whole = tempfile::tempdir().unwrap();
    assert!(start(EXAMPLE, whole.path()).wait().unwrap().success());
    let expected = table_of(whole.path());
    let events = journal(&run_dir_in(whole.path()).unwrap()).len();

    for moment in 0..20 {
        // Twenty moments spread over the run, each at another distance from the last event boundary because
        // the kill races with the writer.
        let lines = 1 + moment * (events - 2) / 19;
        let results = tempfile::tempdir().unwrap();
        let mut sweep = start(EXAMPLE, results.path());
        until("the journal grows", || {
            run_dir_in(results.path()).is_some_and(|run| journal(&run).len() >= lines)
        });
        sweep.kill().unwrap();
        sweep.wait().unwrap();

        let run = run_dir_in(results.path()).unwrap();
        let before = finished(&run);
        let resumed = opptune(["resume"]).arg(&run).output().unwrap();
        assert!(resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stderr));
        assert_eq!(table_of(results.path()), expected, "killed after {lines} events");

        let after = finished(&run);
        assert_eq!(&after[..before.len()], &before[..], "nothing measured is lost");
        let distinct: std::collections::BTreeSet<_> = after.iter().collect();
        assert_eq!(distinct.len(), after.len(), "nothing is measured twice");
        let files = fs::read_dir(run.join("samples")).unwrap();
        let whole =
            files.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|e| e == "csv"));
        assert_eq!(whole.count(), after.len(), "every trial has its samples");
    }
}

#[test]
fn an_interrupt_puts_the_nodes_back_and_names_the_resume_command() {
    let tree = Tree::new();
    let results = tempfile::tempdir().unwrap();
    let mut sweep = pinned_sweep(&tree, results.path(), Stdio::piped);
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(sweep.id() as i32), Signal::SIGINT).unwrap();
    until("the sweep ends", || sweep.try_wait().unwrap().is_some());
    let output = sweep.wait_with_output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(6), "{text}");
    assert!(text.contains("opptune resume"), "{text}");
    assert!(!tree.changed(), "{}", tree.difference());
}

#[test]
fn the_end_of_the_agents_input_puts_the_nodes_back() {
    let tree = Tree::new();
    let results = tempfile::tempdir().unwrap();
    let mut sweep = pinned_sweep(&tree, results.path(), Stdio::null);
    // Killing the host closes the agent's standard input and nothing else.
    sweep.kill().unwrap();
    sweep.wait().unwrap();
    until("the agent puts the nodes back", || !tree.changed());
}
