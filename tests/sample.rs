//! The run that is kept in `results/sample`: what is made from a journal stays what it was.

#![allow(clippy::unwrap_used)] // these are tests

use opptune::campaign::{Run, RunDir};
use opptune::trial::Origin;
use std::fs;
use std::path::{Path, PathBuf};

/// A clone should not be heavy.
const MOST_BYTES: u64 = 200_000;

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("results/sample")
}

fn files(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn the_table_is_made_from_the_journal_alone() {
    let table = Run::load(&RunDir::open(&sample()).unwrap()).unwrap().table().unwrap();
    assert_eq!(table.to_toml().unwrap(), fs::read_to_string(sample().join("table.toml")).unwrap());
    assert_eq!(table.origin, Origin::Simulated);
    assert_eq!(table.device.model, "Pixel 7 (twin)");
}

#[test]
fn it_is_small_and_its_samples_are_those_of_its_trials() {
    let samples = files(&sample().join("samples"));
    let all = files(&sample()).into_iter().chain(samples.clone());
    let bytes: u64 = all.filter(|path| path.is_file()).map(|path| path.metadata().unwrap().len()).sum();
    assert!(bytes < MOST_BYTES, "{bytes} bytes");

    let run = Run::load(&RunDir::open(&sample()).unwrap()).unwrap();
    assert_eq!(samples.len(), 4);
    for file in samples {
        let text = fs::read_to_string(&file).unwrap();
        let (head, first) = text.split_once('\n').unwrap();
        assert_eq!(head, "boot_ms,series,unit,value");
        let at: f64 = first.split(',').next().unwrap().parse().unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        // A window's first reading comes just before its first pass.
        let within = |m: &&opptune::trial::Measurement| {
            (m.start.0 as f64 / 1e6 - 100.0..m.end.0 as f64 / 1e6).contains(&at)
        };
        let trial = run.ledger.finished().find(within).unwrap();
        assert!(name.starts_with(&format!("{}_", trial.id.setting)), "{name}: {:?}", trial.id);
    }
}
