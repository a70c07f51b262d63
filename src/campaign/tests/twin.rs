//! Whole runs against the real agent on the simulated Pixel 7, in this process.

use super::*;
use crate::agent::{Options, serve};
use crate::guard::Launch;
use crate::transport::memory::Memory;
use std::path::Path;

fn twin(state_dir: &Path) -> Arc<Memory> {
    let launch = Launch::this_program(Path::new("/")).unwrap();
    let options = Options { launch, state_dir: state_dir.to_owned(), signals: false };
    Arc::new(Memory::new("twin", move |stream, _| {
        let options = options.clone();
        async move { drop(serve(stream, options).await) }
    }))
}

fn sweep_config() -> config::SweepConfig {
    let text = include_str!("../../../examples/pixel-7-twin.toml");
    let mut config = config::SweepConfig::parse(text, Path::new("pixel-7-twin.toml")).unwrap();
    config.settings = config::SettingsConfig { decode: vec![32], prefill: vec![64], decode_prompt: 32 };
    config
}

#[tokio::test]
async fn the_twin_answers_better_than_its_governors() {
    let (dir, run) = fresh();
    let profile = crate::profile::load(&sweep_config().device.profile).unwrap();
    let campaign = Campaign::new(sweep_config(), profile, run.clone(), twin(dir.path())).unwrap();
    let outcome = campaign.run(CancellationToken::new(), &mut ()).await.unwrap();
    assert_eq!(outcome.exit_code(), 0, "{:?}", outcome.end);
    let device = &outcome.table.as_ref().unwrap().device;
    let named = [&device.model, &device.soc, &device.kernel, &device.arch];
    assert_eq!(named, ["Pixel 7 (twin)", "GS201", "5.10.149-android13-simulated", "arm64-v8a"]);
    assert_eq!(device.serial_hash.len(), 16);
    let environment = std::fs::read_to_string(run.path().join("environment.json")).unwrap();
    assert!(environment.contains("Pixel 7 (twin)"), "{environment}");
    let gain = |e: &crate::table::Entry| 1.0 - e.expected.latency_ms.median / e.baseline.latency_ms.median;
    let gains: Vec<f64> = outcome.table.unwrap().entries.iter().map(gain).collect();
    assert!(gains.iter().all(|&gain| gain > 0.0), "{gains:?}");
}
