//! Sample files: what was sampled during one trial, as `samples/TRIAL.csv`.

use crate::digest::hex;
use crate::protocol::Series;
use crate::trial::{Choice, Combination, Purpose, TrialId};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Longest text of a combination in a file name; file systems end at 255 bytes.
const LONGEST: usize = 150;

/// The name of a trial's file: `decode-32_search_cpu-big@984000+gpu@762000_0.csv`.
pub fn file_name(id: &TrialId) -> String {
    let purpose = match id.purpose {
        Purpose::Baseline => "baseline",
        Purpose::Search => "search",
        Purpose::Drift => "drift",
    };
    format!("{}_{purpose}_{}_{}.csv", id.setting, pins(&id.combination), id.repeat)
}

/// A combination as part of a file name; by its hash where it is long or a knob has a name that no file may have.
fn pins(combination: &Combination) -> String {
    let pin = |(knob, choice): (&_, &Choice)| match choice {
        Choice::Governor => format!("{knob}@governor"),
        Choice::Pin(opp) => format!("{knob}@{}", opp.0),
    };
    let text = combination.0.iter().map(pin).collect::<Vec<_>>().join("+");
    match text.len() {
        0 => "governors".into(),
        1..=LONGEST if is_plain(&text) => text,
        _ => hex(&Sha256::digest(text)[..8]),
    }
}

fn is_plain(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || "._-@+".contains(c))
}

/// Whether a file may have this name. What a device lists is held against it.
#[cfg(feature = "host")]
pub fn is_file_name(name: &str) -> bool {
    name.ends_with(".csv") && !name.starts_with('.') && is_plain(name)
}

/// The series as lines `boot_ms,series,unit,value`, each in the order of time.
pub fn csv(series: &[Series]) -> String {
    let mut text = String::from("boot_ms,series,unit,value\n");
    for Series { name, unit, points } in series {
        let (name, unit) = (cell(name), cell(unit));
        for (at, value) in points {
            let value = (value * 1e3).round() / 1e3;
            // Writing to a string does not fail.
            let _ = writeln!(text, "{:.3},{name},{unit},{value}", at.0 as f64 / 1e6);
        }
    }
    text
}

/// A device's own word, without what would end a cell.
fn cell(word: &str) -> String {
    word.replace([',', '"', '\n', '\r'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{KnobId, Setting, Stage};
    use crate::units::{BootNanos, Opp};

    fn name(pins: &[(&str, Choice)]) -> String {
        let pins = pins.iter().map(|(knob, choice)| (KnobId((*knob).into()), *choice));
        let setting = Setting { stage: Stage::Decode, tokens: 32 };
        let combination = Combination(pins.collect());
        file_name(&TrialId { setting, combination, purpose: Purpose::Search, repeat: 2 })
    }

    #[test]
    fn a_file_is_named_from_its_trial() {
        let (gpu, cpu) = (("gpu", Choice::Pin(Opp(762_000))), ("cpu", Choice::Governor));
        assert_eq!(name(&[gpu, cpu]), "decode-32_search_cpu@governor+gpu@762000_2.csv");
        assert_eq!(name(&[]), "decode-32_search_governors_2.csv");
    }

    #[test]
    fn no_name_leaves_the_directory_or_is_too_long() {
        let odd = [("../../etc/passwd", Choice::Governor)];
        let long: Vec<String> = (0..20).map(|n| format!("a-knob-with-a-long-name-{n}")).collect();
        let long: Vec<_> = long.iter().map(|id| (id.as_str(), Choice::Governor)).collect();
        for knobs in [&odd[..], &long] {
            let name = name(knobs);
            assert!(!name.contains('/') && name.len() < 60, "{name}");
        }
    }

    #[test]
    fn a_series_is_a_line_a_point() {
        let points = vec![(BootNanos(1_500_000), 762_000.0), (BootNanos(2_000_000), 0.123_456)];
        let series = [Series { name: "clock,\"gpu\"".into(), unit: "kHz".into(), points }];
        let wanted = "boot_ms,series,unit,value\n1.500,clock__gpu_,kHz,762000\n2.000,clock__gpu_,kHz,0.123\n";
        assert_eq!(csv(&series), wanted);
    }
}
