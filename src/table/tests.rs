use super::*;
use crate::trial::Choice;
use crate::units::{MilliJoule, Opp};
use std::path::Path;

fn spread(median: f64) -> Spread {
    Spread { median, low: median - 0.5, high: median + 0.5, n: 3 }
}

fn expected(latency: f64) -> Expected {
    Expected { latency_ms: spread(latency), energy_mj: Some(spread(400.0)) }
}

fn entry(stage: Stage, from_tokens: u32, to_tokens: Option<u32>) -> Entry {
    let pins = [("gpu", 848_000), ("cpu-big", 2_048_000)];
    Entry {
        stage,
        from_tokens,
        to_tokens,
        measured_tokens: to_tokens.unwrap_or(32),
        pins: Combination(
            pins.map(|(id, khz)| (KnobId(id.into()), Choice::Pin(Opp(khz)))).into_iter().collect(),
        ),
        goal: Goal::LowestLatency { within: MilliJoule(402.7) },
        met: true,
        expected: expected(126.9),
        baseline: expected(215.1),
        inferences: 24,
    }
}

fn table() -> Table {
    Table {
        schema: SCHEMA,
        run: "night".into(),
        origin: Origin::Simulated,
        energy: EnergyKind::Gauge,
        device: Fingerprint { model: "Pixel 7".into(), ..Fingerprint::default() },
        engine: EngineInfo { name: "twin".into(), threads: 2, ..EngineInfo::default() },
        method: Method { strategy: "two-step".into(), seed: 1, build: "0.1.0".into() },
        conditions: [("screen".to_owned(), "off".to_owned())].into(),
        units: [("gpu", OppUnit::KiloHertz), ("cpu-big", OppUnit::KiloHertz)]
            .map(|(id, unit)| (KnobId(id.into()), unit))
            .into(),
        entries: vec![
            entry(Stage::Decode, 1, None),
            entry(Stage::Prefill, 1, Some(32)),
            entry(Stage::Prefill, 33, Some(64)),
            entry(Stage::Prefill, 129, Some(256)),
        ],
    }
}

#[test]
fn a_table_survives_its_file() {
    let text = table().to_toml().unwrap();
    assert_eq!(Table::parse(&text, Path::new("table.toml")).unwrap(), table());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("table.toml");
    table().save(&file).unwrap();
    table().save(&file).unwrap();
    assert_eq!(Table::load(&file).unwrap(), table());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    let back: Table = serde_json::from_str(&table().to_json().unwrap()).unwrap();
    assert_eq!(back, table());
}

#[test]
fn every_token_count_has_a_stated_answer() {
    let table = table();
    let fit = |stage, tokens| {
        let found = table.lookup(stage, tokens).unwrap();
        (found.entry.measured_tokens, found.fit)
    };
    assert_eq!(fit(Stage::Prefill, 32), (32, Fit::Inside));
    assert_eq!(fit(Stage::Prefill, 33), (64, Fit::Inside));
    assert_eq!(fit(Stage::Prefill, 100), (256, Fit::Between));
    assert_eq!(fit(Stage::Prefill, 0), (32, Fit::BelowFirst));
    assert_eq!(fit(Stage::Prefill, 257), (256, Fit::AboveLast));
    assert_eq!(fit(Stage::Decode, u32::MAX), (32, Fit::Inside));
    let decode_only = Table { entries: vec![entry(Stage::Decode, 1, None)], ..table.clone() };
    assert_eq!(decode_only.lookup(Stage::Prefill, 32), None);
}

#[test]
fn ranges_follow_the_measured_lengths() {
    assert_eq!(ranges(Stage::Prefill, &[64, 32]), [(1, Some(32)), (33, Some(64))]);
    assert_eq!(ranges(Stage::Decode, &[32]), [(1, None)]);
    assert_eq!(ranges(Stage::Decode, &[32, 128]), [(1, Some(32)), (33, None)]);
    assert_eq!(ranges(Stage::Decode, &[]), []);
}

#[test]
fn a_table_that_makes_no_sense_is_refused_by_key() {
    type Spoil = fn(&mut Table);
    let spoils: [(Spoil, &str); 7] = [
        (|t| t.entries[2].from_tokens = 32, "entry[2].from-tokens"),
        (|t| t.entries[2].from_tokens = 0, "entry[2].from-tokens"),
        (|t| t.entries[1].to_tokens = None, "entry[2].from-tokens"),
        (|t| t.entries.swap(0, 1), "entry[1].from-tokens"),
        (|t| t.entries.swap(1, 2), "entry[2].from-tokens"),
        (|t| t.entries[3].to_tokens = Some(3), "entry[3].to-tokens"),
        (|t| t.entries[0].expected.latency_ms.low = 500.0, "entry[0].expected"),
    ];
    for (spoil, key) in spoils {
        let mut broken = table();
        spoil(&mut broken);
        let error = Table::parse(&broken.to_toml().unwrap(), Path::new("t.toml")).unwrap_err().to_string();
        assert!(error.contains(&format!("t.toml: `{key}`")), "{error}");
    }
}

#[test]
fn other_versions_and_unknown_keys_are_told_apart() {
    let text = table().to_toml().unwrap();
    let parse = |text: &str| Table::parse(text, Path::new("t.toml")).unwrap_err();
    let newer = text.replace("schema = 1", "schema = 2\nnovelty = true");
    assert!(matches!(parse(&newer), TableError::Schema { found: 2, .. }));
    let unknown = text.replace("run = ", "colour = 3\nrun = ");
    let error = parse(&unknown).to_string();
    assert!(error.contains("t.toml") && error.contains("colour"), "{error}");
}

#[cfg(feature = "host")]
#[test]
fn the_csv_has_one_row_per_entry_and_one_column_per_knob() {
    insta::assert_snapshot!(table().to_csv().unwrap(), @"
run,origin,energy,stage,from_tokens,to_tokens,cpu-big (kHz),gpu (kHz),goal,within,met,latency_ms,latency_ms_low,latency_ms_high,energy_mj,energy_mj_low,energy_mj_high,baseline_latency_ms,baseline_latency_ms_low,baseline_latency_ms_high,baseline_energy_mj,baseline_energy_mj_low,baseline_energy_mj_high,n,inferences
night,simulated,gauge,decode,1,,2048000,848000,lowest-latency,402.7,true,126.9,126.4,127.4,400,399.5,400.5,215.1,214.6,215.6,400,399.5,400.5,3,24
night,simulated,gauge,prefill,1,32,2048000,848000,lowest-latency,402.7,true,126.9,126.4,127.4,400,399.5,400.5,215.1,214.6,215.6,400,399.5,400.5,3,24
night,simulated,gauge,prefill,33,64,2048000,848000,lowest-latency,402.7,true,126.9,126.4,127.4,400,399.5,400.5,215.1,214.6,215.6,400,399.5,400.5,3,24
night,simulated,gauge,prefill,129,256,2048000,848000,lowest-latency,402.7,true,126.9,126.4,127.4,400,399.5,400.5,215.1,214.6,215.6,400,399.5,400.5,3,24
");
}
