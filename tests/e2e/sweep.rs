//! Whole sweeps over the real binaries: killed, interrupted, resumed, and devices put back.

use crate::support::{Tree, journal, opptune, run_dir_in, text, until};
use nix::sys::signal::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

const EXAMPLE: &str = "examples/pixel-7-twin.toml";

/// The example with two of its prefill lengths: half of the time, and every kind of event.
fn shorter(dir: &Path) -> PathBuf {
    let text = fs::read_to_string(EXAMPLE).unwrap();
    let short = text.replace("prefill = [32, 64, 128, 256, 512]", "prefill = [32, 256]");
    assert_ne!(short, text);
    let config = dir.join("sweep.toml");
    fs::write(&config, short).unwrap();
    config
}

fn start(config: &Path, results: &Path) -> Child {
    opptune(["sweep"])
        .arg(config)
        .arg("--results")
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

/// Lines of the journal so far; cheap enough to be asked all the time.
fn lines(run: &Path) -> usize {
    fs::read(run.join("journal.jsonl")).map_or(0, |text| text.iter().filter(|&&byte| byte == b'\n').count())
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
    let (home, whole) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let config = shorter(home.path());
    assert!(start(&config, whole.path()).wait().unwrap().success());
    let expected = table_of(whole.path());
    let events = lines(&run_dir_in(whole.path()).unwrap());

    for moment in 0..20 {
        // Twenty moments spread over the run, each at another distance from the last event boundary because
        // the kill races with the writer.
        let at = 1 + moment * (events - 2) / 19;
        let results = tempfile::tempdir().unwrap();
        let mut sweep = start(&config, results.path());
        until("the journal grows", || run_dir_in(results.path()).is_some_and(|run| lines(&run) >= at));
        sweep.kill().unwrap();
        sweep.wait().unwrap();

        let run = run_dir_in(results.path()).unwrap();
        let before = finished(&run);
        let resumed = opptune(["resume"]).arg(&run).output().unwrap();
        assert!(resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stderr));
        assert_eq!(table_of(results.path()), expected, "killed after {at} events");

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
    let text = text(&output);
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
