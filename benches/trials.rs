//! Trials per second through host, protocol, agent and journal, on the simulated Pixel 7: an exhaustive sweep of
//! one setting, 216 combinations.

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

const TRIALS: u64 = 216;

fn config() -> SweepConfig {
    let text = include_str!("../examples/pixel-7-twin-exhaustive.toml");
    let mut config = SweepConfig::parse(text, Path::new("exhaustive")).expect("the example is sound");
    config.settings = SettingsConfig { decode: vec![32], prefill: Vec::new(), decode_prompt: 32 };
    config.measure.baseline_repeats = 1;
    config
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
    let config = config();
    let profile = profile::load(&config.device.profile).expect("the twin comes with the tool");
    let mut group = c.benchmark_group("trials");
    group.throughput(Throughput::Elements(TRIALS)).sample_size(10);
    group.bench_function("exhaustive decode sweep of the twin", |bench| {
        bench.iter(|| {
            let dir = tempfile::tempdir().expect("a temporary directory");
            sweep(&config, &profile, dir.path());
        });
    });
    group.finish();
}

criterion_group!(benches, trials);
criterion_main!(benches);
