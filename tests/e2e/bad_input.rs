//! Malformed input of every kind: each gets one screen of error that names the file and the key, the exit code that
//! the README gives, and never a panic. The texts are snapshots, because a person has to act on them.

use crate::support::opptune;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const CONFIG: &str = r#"schema = 1
name = "night"

[device]
profile = "twins/pixel-7"

[engine]
kind = "twin"
model = "tinyllama-1.1b"

[settings]
decode = [4]
prefill = []

[search]
strategy = "two-step"
max-inferences = 40

[measure]
repeats = 1
baseline-repeats = 1
"#;

const PROFILE: &str = r#"schema = 1
name = "board"
title = "A board"
accuracy = "from-sources"
provenance = ["its device tree"]

[[knob]]
id = "cpu"
role = "cpu"
driver = { cpufreq = { policy = 0 } }

[[knob]]
id = "gpu"
role = "gpu"
driver = { devfreq = { node = "/sys/class/devfreq/*.gpu" } }

[axes.gpu]
lead = "gpu"

[axes.cpu]
lead = "cpu"

[[companion]]
id = "hal"
action = { property = { name = "vendor.hal", value = "0" } }
"#;

/// A directory to be wrong in. Commands run inside it, so that messages hold no path of this machine.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Self {
        Desk(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    /// Writes `good` with one edit.
    fn write(&self, name: &str, good: &str, from: &str, to: &str) {
        assert!(good.contains(from), "{name}: the edit is of text that is not there: {from}");
        fs::write(self.at(name), good.replacen(from, to, 1)).unwrap();
    }

    fn opptune(&self, args: &[&str]) -> Output {
        opptune(args).current_dir(self.0.path()).output().unwrap()
    }

    /// A complete run in `run/`.
    fn run(&self) {
        fs::write(self.at("sweep.toml"), CONFIG).unwrap();
        let done = self.opptune(&["sweep", "sweep.toml", "--results", "results"]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let run = fs::read_dir(self.at("results")).unwrap().next().unwrap().unwrap().path();
        fs::rename(run, self.at("run")).unwrap();
    }

    fn edit(&self, name: &str, edit: impl Fn(String) -> String) {
        let text = fs::read_to_string(self.at(name)).unwrap();
        let edited = edit(text.clone());
        assert_ne!(text, edited, "{name}: the edit changes nothing");
        fs::write(self.at(name), edited).unwrap();
    }
}

/// One screen, no panic, this exit code; the text is compared with the snapshot `name`.
fn check(name: &str, code: i32, output: &Output) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!error.contains("panicked"), "{name}: {error}");
    assert_eq!(output.status.code(), Some(code), "{name}: {error}");
    assert!(error.lines().count() <= 24, "{name} is longer than a screen: {error}");
    assert!(error.lines().all(|line| line.chars().count() < 700), "{name}: {error}");
    insta::with_settings!({ filters => vec![
        (r"/\S*/(opptune)\b", "[bin]/$1"),
        (r"results/\S*two-step\S*", "results/[run]"),
    ]}, { insta::assert_snapshot!(name, error) });
}

#[test]
fn configurations() {
    let desk = Desk::new();
    for (name, from, to) in [
        ("config-torn", "name = \"night\"", "name = \"night"),
        ("config-unknown-key", "repeats = 1", "repeat = 1"),
        ("config-schema", "schema = 1", "schema = 9"),
        ("config-name", "\"night\"", "\"one/two\""),
        ("config-no-length", "decode = [4]", "decode = []"),
        ("config-length-zero", "prefill = []", "prefill = [32, 0]"),
        ("config-wrong-type", "decode = [4]", "decode = \"four\""),
        ("config-strategy", "\"two-step\"", "\"three-step\""),
        ("config-budget", "max-inferences = 40", "budget = { factor = -1.0 }"),
        ("config-no-engine", "[engine]\nkind = \"twin\"\nmodel = \"tinyllama-1.1b\"\n", ""),
        ("config-profile-unknown", "twins/pixel-7", "pixel-77"),
        ("config-profile-missing", "twins/pixel-7", "mine.toml"),
        ("config-link", "[engine]", "link = \"usb\"\n\n[engine]"),
    ] {
        desk.write("sweep.toml", CONFIG, from, to);
        check(name, 2, &desk.opptune(&["sweep", "sweep.toml"]));
    }
    check("config-missing", 2, &desk.opptune(&["sweep", "no-such.toml"]));
    assert!(!desk.at("results").exists(), "nothing is made for a sweep that cannot begin");
}

#[test]
fn profiles() {
    let desk = Desk::new();
    desk.write("sweep.toml", CONFIG, "twins/pixel-7", "board.toml");
    for (name, from, to) in [
        ("profile-torn", "[axes.cpu]", "[axes.cpu"),
        ("profile-schema", "schema = 1", "schema = 2"),
        ("profile-driver", "cpufreq = {", "cpufrek = {"),
        ("profile-knob-twice", "id = \"gpu\"", "id = \"cpu\""),
        ("profile-lead-unknown", "lead = \"gpu\"", "lead = \"npu\""),
        ("profile-lead-role", "lead = \"gpu\"", "lead = \"cpu\""),
        ("profile-knob-left-free", "[axes.cpu]\nlead = \"cpu\"\n", ""),
        ("profile-node-relative", "/sys/class/devfreq", "sys/class/devfreq"),
        ("profile-thermal-control", "vendor.hal", "persist.vendor.disable.thermal.control"),
        ("profile-thermal-risk", "id = \"hal\"", "id = \"hal\"\nthermal = true"),
        ("profile-no-twin", "\"from-sources\"", "\"twin\""),
    ] {
        desk.write("board.toml", PROFILE, from, to);
        check(name, 2, &desk.opptune(&["sweep", "sweep.toml"]));
    }
}

#[test]
fn journals() {
    let cases: [(&str, &dyn Fn(String) -> String); 4] = [
        ("journal-damaged", &|text| text.replacen("\"seq\":2", "\"seq\":", 1)),
        ("journal-version", &|text| text.replacen("\"version\":1", "\"version\":7", 1)),
        ("journal-gap", &|text| {
            let lines = text.lines().enumerate().filter(|(at, _)| *at != 3);
            lines.map(|(_, line)| format!("{line}\n")).collect()
        }),
        ("journal-headless", &|text| text.split_once('\n').unwrap().1.replace("\"seq\":1,", "\"seq\":0,")),
    ];
    for (name, damage) in cases {
        let desk = Desk::new();
        desk.run();
        desk.edit("run/journal.jsonl", damage);
        check(name, 2, &desk.opptune(&["resume", "run"]));
        check(&format!("{name}-report"), 2, &desk.opptune(&["report", "run"]));
    }
}

#[test]
fn run_directories() {
    let desk = Desk::new();
    desk.run();
    fs::write(desk.at("run/config.toml"), "schema = 1\n").unwrap();
    check("run-config", 2, &desk.opptune(&["resume", "run"]));
    fs::remove_file(desk.at("run/profile.toml")).unwrap();
    check("run-incomplete", 2, &desk.opptune(&["resume", "run"]));
    check("run-missing", 2, &desk.opptune(&["resume", "elsewhere"]));
    check("merge-one", 2, &desk.opptune(&["merge", "run"]));
}

#[test]
fn a_run_that_is_not_exhaustive_is_not_compared() {
    let desk = Desk::new();
    desk.run();
    check("compare-two-step", 2, &desk.opptune(&["compare", "run"]));
}

#[test]
fn tables() {
    let desk = Desk::new();
    desk.run();
    let good = fs::read_to_string(desk.at("run/table.toml")).unwrap();
    for (name, from, to) in [
        ("table-torn", "[[entry]]", "[[entry"),
        ("table-schema", "schema = 1", "schema = 2"),
        ("table-unknown-key", "measured-tokens", "tokens"),
        ("table-range", "from-tokens = 1", "from-tokens = 9\nto-tokens = 3"),
    ] {
        desk.write("table.toml", &good, from, to);
        check(name, 2, &desk.opptune(&["table", "show", "table.toml"]));
    }
    check("table-missing", 2, &desk.opptune(&["table", "show", "elsewhere.toml"]));
    check(
        "table-no-stage",
        2,
        &desk.opptune(&["table", "lookup", "run", "--stage", "prefill", "--tokens", "9"]),
    );
}

#[test]
fn command_lines() {
    let desk = Desk::new();
    for (name, args) in [
        ("usage-unknown-command", &["sweeep"][..]),
        ("usage-unknown-option", &["sweep", "--fast", "x.toml"]),
        ("usage-link", &["doctor", "--device", "usb:1"]),
        ("usage-tokens", &["table", "lookup", "t.toml", "--stage", "decode", "--tokens", "many"]),
    ] {
        check(name, 2, &desk.opptune(args));
    }
}

/// A program that says `bytes` where an agent would speak frames.
fn impostor(file: &Path, bytes: &str) {
    fs::write(file, format!("#!/bin/sh\nprintf '{bytes}'\ncat > /dev/null\n")).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn frames_from_an_agent() {
    let desk = Desk::new();
    let hello = r#"{"say":"hello","protocol":99,"build":"9.9","device":{"model":"","soc":"","os":"","kernel":"","arch":"","boot_id":"","serial_hash":""}}"#;
    let long = format!(r"\000\000\000\{:03o}{hello}", hello.len());
    for (name, bytes) in [
        ("frame-too-long", r"\377\377\377\377"),
        ("frame-no-json", r"\000\000\000\004null"),
        ("frame-shell-text", "sh: opptune-agent: not found\\n"),
        ("frame-other-protocol", &long),
    ] {
        impostor(&desk.at("agent"), bytes);
        check(name, 2, &desk.opptune(&["probe", "--agent", "./agent"]));
    }
}

#[test]
fn frames_from_a_host() {
    for (name, bytes) in [
        ("agent-frame-too-long", &b"\xff\xff\xff\xff"[..]),
        ("agent-frame-torn", b"\x00\x00\x00\x09{\"say\""),
        ("agent-frame-no-hello", b"\x00\x00\x00\x0d{\"say\":\"bye\"}"),
    ] {
        let state = tempfile::tempdir().unwrap();
        let mut agent = agent(state.path()).spawn().unwrap();
        agent.stdin.take().unwrap().write_all(bytes).unwrap();
        check(name, 1, &agent.wait_with_output().unwrap());
    }
}

fn agent(state: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_opptune-agent"));
    command.arg("--state-dir").arg(state).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn help() {
    let said = |args: &[&str]| {
        let said = opptune(args).output().unwrap();
        assert!(said.status.success(), "{args:?}");
        String::from_utf8_lossy(&said.stdout).into_owned()
    };
    let top = said(&["--help"]);
    insta::assert_snapshot!("help", top);
    let listed =
        top.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<_> = listed.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.contains(&"sweep") && commands.contains(&"help"), "{commands:?}");
    for command in commands.into_iter().filter(|command| *command != "help") {
        insta::assert_snapshot!(format!("help-{command}"), said(&[command, "--help"]));
    }
}
