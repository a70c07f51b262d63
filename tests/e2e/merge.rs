//! `opptune merge` over the real binary: like runs are joined, others refused by what differs.

use crate::support::{journal, opptune, run_dir_in};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

const SWEEP: &str = r#"
schema = 1
name = "small"
device = { profile = "twins/pixel-7" }
engine = { kind = "twin", model = "tinyllama-1.1b" }
settings = { decode = [8] }
search = { budget = "baseline", seed = @SEED@ }
measure = { repeats = 1, baseline-repeats = 1 }
"#;

/// A small sweep of a twin.
fn run(dir: &Path, seed: u32) -> PathBuf {
    let (config, results) = (dir.join(format!("{seed}.toml")), dir.join(format!("results-{seed}")));
    fs::write(&config, SWEEP.replace("@SEED@", &seed.to_string())).unwrap();
    let output = opptune(["sweep"]).arg(config).arg("--results").arg(&results).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    run_dir_in(&results).unwrap()
}

/// A copy of a run whose journal says something else.
fn altered(run: &Path, into: &Path, from: &str, to: &str) -> PathBuf {
    fs::create_dir_all(into).unwrap();
    for file in ["config.toml", "profile.toml", "journal.jsonl"] {
        fs::copy(run.join(file), into.join(file)).unwrap();
    }
    let journal = fs::read_to_string(run.join("journal.jsonl")).unwrap();
    assert!(journal.contains(from), "the test alters what is not there: {from}");
    fs::write(into.join("journal.jsonl"), journal.replace(from, to)).unwrap();
    into.to_owned()
}

fn merge(one: &Path, other: &Path, results: &Path) -> Output {
    opptune(["merge"]).args([one, other]).arg("--results").arg(results).output().unwrap()
}

fn finished(run: &Path) -> usize {
    journal(run).iter().filter(|line| line["event"] == "finished").count()
}

#[test]
fn like_runs_are_joined_and_every_difference_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (run(dir.path(), 1), run(dir.path(), 2));
    let results = dir.path().join("merged");
    let output = merge(&one, &two, &results);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("SIMULATED"), "{text}");
    assert_eq!(finished(&run_dir_in(&results).unwrap()), finished(&one) + finished(&two));

    for (from, to, told) in [
        (
            r#""model":"Pixel 7 (twin)""#,
            r#""model":"Pixel 8""#,
            r#"device model: "Pixel 7 (twin)" against "Pixel 8""#,
        ),
        ("simulated/pixel-7-twin", "simulated/other", "operating system: "),
        ("(simulated)\"", "(other)\"", "engine build: "),
        ("\"model\":\"tinyllama-1.1b\"", "\"model\":\"other\"", r#"model: "tinyllama-1.1b" against "other""#),
        (r#""kind":"meter""#, r#""kind":"gauge""#, "energy source: "),
        (r#""governor.gpu":"quickstep""#, r#""governor.gpu":"basic""#, "governor.gpu: "),
        (
            r#""power.battery.status":"Discharging""#,
            r#""power.battery.status":"Charging""#,
            "power.battery.status: ",
        ),
        (r#""cpus-online":"0-7""#, r#""cpus-online":"0-3""#, "cpus-online: "),
        (r#""origin":"simulated""#, r#""origin":"measured""#, "origin: Simulated against Measured"),
    ] {
        let other = altered(&two, &dir.path().join("altered"), from, to);
        let output = merge(&one, &other, &dir.path().join("refused"));
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}: {text}");
        assert!(text.contains("cannot be merged") && text.contains(told), "{told} is not in: {text}");
        assert!(!dir.path().join("refused").exists(), "a refused merge leaves nothing behind");
    }
    let (level, lower) = (r#""power.battery.capacity":""#, r#""power.battery.capacity":"1"#);
    let drifted = altered(&two, &dir.path().join("drifted"), level, lower);
    let output = merge(&one, &drifted, &dir.path().join("level"));
    assert_eq!(output.status.code(), Some(0), "levels drift: {}", String::from_utf8_lossy(&output.stderr));
}
