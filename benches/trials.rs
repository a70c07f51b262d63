//! Trials per second through host, protocol, agent and journal, on the simulated Pixel 7: exhaustive sweeps, 216
//! combinations for each setting, of the decode setting alone and of all six.

#![allow(clippy::expect_used)] // a bench that cannot start has nothing better to do

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use opptune::agent::{Options, serve};
use opptune::campaign::config::{SettingsConfig, SweepConfig};
use opptune::campaign::{Campaign, RunDir};
use opptune::guard::Launch;
use opptune::profile;
use opptune::transport::memory::Memory;
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const COMBINATIONS: u64 = 216;

fn config(settings: SettingsConfig) -> SweepConfig {
    let text = include_str!("../examples/pixel-7-twin-exhaustive.toml");
    let config = SweepConfig::parse(text, Path::new("exhaustive")).expect("the example is sound");
    SweepConfig { settings, ..config }
}

/// Trials of the search and of the baseline.
fn trials_of(config: &SweepConfig) -> u64 {
    let per_setting = COMBINATIONS * u64::from(config.measure.repeats);
    config.settings.list().len() as u64 * (per_setting + u64::from(config.measure.baseline_repeats))
}

fn agent(state_dir: &Path) -> Arc<Memory> {
    let launch = Launch::this_program(Path::new("/")).expect("this program is known");
    let options = Options { launch, state_dir: state_dir.to_owned(), signals: false };
    Arc::new(Memory::new("twin", move |stream, _| {
        let options = options.clone();
        async move { drop(serve(stream, options).await) }
    }))
}

fn sweep(config: &SweepConfig, profile: &profile::Profile, into: &Path) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    let run = RunDir::create(into, RunDir::today(), "twin", "bench").expect("the directory is ours");
    let campaign =
        Campaign::new(config.clone(), profile.clone(), run, agent(into)).expect("the run is fresh");
    let outcome = runtime.block_on(campaign.run(CancellationToken::new(), &mut ()));
    assert_eq!(outcome.expect("the sweep runs").exit_code(), 0);
}

fn trials(c: &mut Criterion) {
    let decode = SettingsConfig { prefill: Vec::new(), ..SettingsConfig::default() };
    let cases = [("decode", decode), ("six settings", SettingsConfig::default())];
    let mut group = c.benchmark_group("exhaustive sweep of the twin");
    group.sample_size(10);
    for (name, settings) in cases {
        let config = config(settings);
        let profile = profile::load(&config.device.profile).expect("the twin comes with the tool");
        group.throughput(Throughput::Elements(trials_of(&config)));
        group.bench_function(name, |bench| {
            bench.iter(|| {
                let dir = tempfile::tempdir().expect("a temporary directory");
                sweep(&config, &profile, dir.path());
            });
        });
    }
    group.finish();
}

criterion_group!(benches, trials);
criterion_main!(benches);
