//! Whole simulated devices, companions and all knobs: whoever works on one may die before any access.

use super::bench::{Watched, be_at_home, writable};
use crate::companion;
use crate::device::Device;
use crate::guard::{Guard, Launch};
use crate::knob::{self, Knob};
use crate::profile::{self, DriverSpec, KnobSpec, Profile, Role};
use crate::sysfs::Nodes;
use crate::twin::Twin;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::path::Path;
use std::time::Duration;

/// More accesses than a session of the largest device makes.
const ACCESSES: f64 = 400.0;

/// Takes the device as an agent does, and pins knobs in turn; ends at the first failure.
fn session(
    profile: &Profile,
    device: &Device,
    nodes: &dyn Nodes,
    guard: &mut Guard,
    pins: &[usize],
) -> Option<()> {
    let risk = profile.accept_thermal_risk;
    companion::apply(&profile.companions, risk, nodes, &*device.properties, guard).ok()?;
    let mut knobs: Vec<Box<dyn Knob>> = Vec::new();
    for spec in &profile.knobs {
        let knob = knob::open(spec, nodes).ok()?;
        guard.save(knob.snapshot(nodes).ok()?).ok()?;
        knobs.push(knob);
    }
    for (turn, at) in pins.iter().enumerate() {
        let knob = &mut knobs[turn % profile.knobs.len()];
        let opp = knob.info().opps[at % knob.info().opps.len()];
        // Memory has floors that other domains ask for: a pin that does not hold is none of this test's business.
        let _ = knob.pin(nodes, opp);
    }
    Some(())
}

/// Somebody else has narrowed CPUs and GPU before we came: originals that are not the ends of the range. Memory moves
/// by itself: other domains vote for it, and a monitor may re-assert its own range.
fn narrow(profile: &Profile, nodes: &dyn Nodes, at: usize) {
    let narrowed =
        |spec: &&KnobSpec| spec.role != Role::Memory && !matches!(spec.driver, DriverSpec::CpuQuota { .. });
    for spec in profile.knobs.iter().filter(narrowed) {
        let mut knob = knob::open(spec, nodes).unwrap();
        let opps = knob.info().opps.clone();
        // A vote may stand in the way; then the domain is as narrow as the vote lets it.
        let _ = knob.pin(nodes, opps[at % opps.len()]);
    }
}

fn dies(profile: &Profile, found: Option<usize>, access: usize, pins: &[usize]) -> Result<(), TestCaseError> {
    let twin = Twin::new(profile, 1).unwrap();
    be_at_home(&twin);
    found.iter().for_each(|at| narrow(profile, &*twin.device().nodes, *at));
    let (device, before) = (twin.device(), writable(&twin));
    let nowhere = Path::new("/nowhere");
    let launch = Launch::this_program(nowhere).unwrap();
    let mut guard = Guard::take_with(&device, nowhere, "test", None, Duration::from_secs(1), launch).unwrap();
    let nodes = Watched::new(&*device.nodes, false);
    nodes.cut(access, || session(profile, &device, &nodes, &mut guard, pins));
    // From here on as the restorer: the saved originals and nothing else.
    let report = guard.restore();
    prop_assert!(report.complete(), "{:?}", report);
    prop_assert_eq!(writable(&twin), before);
    Ok(())
}

#[test]
fn no_access_is_one_too_late_to_die() {
    // Early accesses are tried more often: small devices have no others.
    let access = (0.0..1.0).prop_map(|share: f64| (share.powi(3) * ACCESSES) as usize);
    let session = (proptest::option::of(0..40_usize), access, proptest::collection::vec(0..40_usize, 0..12));
    for name in profile::builtin_names().iter().filter(|name| name.starts_with("twins/")) {
        let profile = profile::load(name).unwrap();
        let config = ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() };
        let all = TestRunner::new(config)
            .run(&session, |(found, access, pins)| dies(&profile, found, access, &pins));
        all.unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}
