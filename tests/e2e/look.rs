//! Looking at simulated devices: the twin is looked at, never the machine the test runs on, and says so.

use crate::support::opptune;
use std::process::Output;

const FAMILIES: [&str; 3] = ["pixel-7", "snapdragon-8-gen-2", "mediatek-gpufreqv2"];

fn run(command: &str, profile: &str, more: &[&str]) -> Output {
    opptune([command, "--profile", profile]).args(more).output().unwrap()
}

fn text(output: &Output) -> String {
    let lines = String::from_utf8_lossy(&output.stdout);
    // Tables are padded to their widest cell.
    lines.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn probe_shows_what_each_family_has() {
    for family in FAMILIES {
        let output = run("probe", &format!("twins/{family}"), &[]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        insta::with_settings!({ filters => [(std::env::consts::ARCH, "ARCH")] }, {
            insta::assert_snapshot!(format!("probe-{family}"), text(&output));
        });
    }
}

#[test]
fn doctor_examines_the_twin_and_not_the_machine_below_it() {
    for family in FAMILIES {
        let output = run("doctor", &format!("twins/{family}"), &[]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        insta::assert_snapshot!(format!("doctor-{family}"), text(&output));
    }
}

#[test]
fn pins_of_a_twin_are_told_simulated_in_both_forms_of_the_command() {
    let output = run("check-pins", "twins/mediatek-gpufreqv1", &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    insta::assert_snapshot!("check-pins-mediatek-gpufreqv1", text(&output));
    let both = json(&run("probe", "twins/mediatek-gpufreqv1", &["--check-pins", "--json"]));
    assert_eq!(both["probe"]["origin"], "simulated");
    assert_eq!(both["check-pins"]["origin"], "simulated");
    assert_eq!(both["check-pins"]["restored"]["differs"], serde_json::json!([]));
    assert!(both["check-pins"]["knobs"].as_array().unwrap().len() > 1);
}

#[test]
fn looking_changes_nothing_and_takes_nothing() {
    let report = json(&run("doctor", "twins/snapdragon-8-gen-2", &["--json"]));
    assert_eq!(report["origin"], "simulated");
    let probe = json(&run("probe", "twins/snapdragon-8-gen-2", &["--json"]));
    let votes = |id: &str| {
        let all = probe["companions"].as_array().unwrap();
        all.iter().find(|c| c["id"] == id).unwrap()["value"].as_str().unwrap().to_owned()
    };
    assert!(votes("msm-performance-max").ends_with("7:2265600"), "a companion was applied to look");
}

#[test]
fn restoring_a_twin_leaves_the_machine_alone() {
    let output = run("restore", "twins/pixel-7", &[]);
    assert!(output.status.success());
    assert!(text(&output).contains("simulated"), "{}", text(&output));
}

#[test]
fn a_drafted_profile_is_one_that_can_be_used() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("draft.toml");
    let output = opptune(["probe", "--profile", "twins/snapdragon-8-gen-2", "--write"]).arg(&file).output();
    assert!(output.unwrap().status.success());
    let draft = opptune::profile::load(file.to_str().unwrap()).unwrap();
    assert!(draft.knobs.len() > 3 && draft.twin.is_none());
    let ids: Vec<&str> = draft.companions.iter().map(|c| c.id.as_str()).collect();
    assert_eq!(ids[..3], ["cpus-online", "boost", "wakelock"], "what others build on comes first");
}
