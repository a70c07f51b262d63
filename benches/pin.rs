//! Pin of one combination, read-back included: three cpufreq policies and a GPU on a directory tree. Aim: under
//! 1 ms, so that pinning never shows beside a trial.

use criterion::{Criterion, criterion_group, criterion_main};
use opptune::knob::{Knob, open};
use opptune::profile::{DriverSpec, KnobSpec, Role, Use};
use opptune::sysfs::RootedNodes;
use opptune::trial::KnobId;
use opptune::units::Opp;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Duration;

const POLICIES: [usize; 3] = [0, 4, 6];
const GPU: &str = "/sys/devices/platform/28000000.mali";
const CPU_STEPS: [u64; 4] = [300_000, 900_000, 1_500_000, 2_100_000];
const GPU_STEPS: [u64; 4] = [151_000, 400_000, 701_000, 848_000];

fn list(steps: &[u64]) -> String {
    steps.iter().map(|step| format!("{step} ")).collect()
}

fn files(dir: &Path, contents: &[(&str, String)]) -> std::io::Result<()> {
    fs::create_dir_all(dir)?;
    contents.iter().try_for_each(|(name, text)| fs::write(dir.join(name), format!("{text}\n")))
}

fn build(root: &Path) -> std::io::Result<()> {
    for policy in POLICIES {
        let dir = root.join(format!("sys/devices/system/cpu/cpufreq/policy{policy}"));
        files(
            &dir,
            &[
                ("scaling_available_frequencies", list(&CPU_STEPS)),
                ("cpuinfo_min_freq", CPU_STEPS[0].to_string()),
                ("related_cpus", policy.to_string()),
                ("scaling_min_freq", CPU_STEPS[0].to_string()),
                ("scaling_max_freq", CPU_STEPS[3].to_string()),
            ],
        )?;
    }
    files(
        &root.join(GPU.trim_start_matches('/')),
        &[
            ("available_frequencies", list(&GPU_STEPS)),
            ("scaling_min_freq", GPU_STEPS[0].to_string()),
            ("scaling_max_freq", GPU_STEPS[3].to_string()),
        ],
    )
}

/// A knob and its operating points.
type Pinned = (Box<dyn Knob>, [u64; 4]);

fn knobs(nodes: &RootedNodes) -> Result<Vec<Pinned>, Box<dyn Error>> {
    let spec = |id: &str, driver| KnobSpec {
        id: KnobId(id.into()),
        role: Role::Cpu,
        usage: Use::Search,
        prior: Vec::new(),
        driver,
    };
    let mut all = Vec::new();
    for policy in POLICIES {
        all.push((open(&spec("cpu", DriverSpec::Cpufreq { policy }), nodes)?, CPU_STEPS));
    }
    all.push((open(&spec("gpu", DriverSpec::PixelMali { node: GPU.into() }), nodes)?, GPU_STEPS));
    Ok(all)
}

fn measure(criterion: &mut Criterion) -> Result<(), Box<dyn Error>> {
    // Memory, not disk, as sysfs is.
    let shm = Path::new("/dev/shm");
    let dir = if shm.is_dir() { tempfile::tempdir_in(shm)? } else { tempfile::tempdir()? };
    build(dir.path())?;
    let nodes = RootedNodes::new(dir.path(), Duration::from_secs(2));
    let mut knobs = knobs(&nodes)?;
    let mut at = 0;
    criterion.bench_function("pin 3 policies and the GPU", |bench| {
        bench.iter(|| {
            at = (at + 1) % 4;
            for (knob, steps) in &mut knobs {
                let opp = Opp(steps[at]);
                assert_eq!(knob.pin(&nodes, opp).ok(), Some(opp));
            }
        });
    });
    Ok(())
}

fn pin(criterion: &mut Criterion) {
    if let Err(error) = measure(criterion) {
        eprintln!("the bench could not run: {error}");
        std::process::exit(1);
    }
}

criterion_group!(benches, pin);
criterion_main!(benches);
