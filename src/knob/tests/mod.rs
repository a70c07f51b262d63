//! Every family against the twin's drivers: whatever is pinned, clamped, rewritten, refused, cut short and restored in
//! whatever order, in the end every node is what it was.

mod bench;
mod devices;

use super::*;
use bench::{Bench, Event, FAMILIES, Family, event, writable};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::time::Duration;

#[test]
fn every_family_pins_every_operating_point_and_comes_back() {
    for family in FAMILIES {
        let mut bench = Bench::new(family);
        let (before, device) = (writable(&bench.twin), bench.twin.device());
        let opps = bench.knob.info().opps.clone();
        let downwards = opps.iter().rev();
        for &opp in opps.iter().chain(downwards).chain([&opps[0], &opps[opps.len() - 1]]) {
            let got = bench.knob.pin(&*device.nodes, opp);
            assert_eq!(got.unwrap_or_else(|e| panic!("{}: {e}", family.name)), opp, "{}", family.name);
            device.clock.sleep(Duration::from_millis(50));
            let seen = bench.knob.glimpse(&*device.nodes);
            assert_eq!(seen.range, Some((opp, opp)), "{}", family.name);
            assert!(seen.clock.is_none_or(|clock| clock == opp), "{}: {seen:?} at {opp:?}", family.name);
        }
        let report = bench.restore(&*device.nodes);
        assert!(report.complete() && report.restored > 0, "{}: {report:?}", family.name);
        assert_eq!(writable(&bench.twin), before, "{}", family.name);
    }
}

#[test]
fn a_clamp_is_seen_wherever_a_family_can_tell() {
    // These have no node that tells of a foreign limit; the clock itself does, or nothing. The simulated gpex
    // shows its own lock only.
    const BLIND: &[&str] = &["gpufreq-v1", "gpex", "mif", "bus-dcvs", "cpu-quota, v1", "cpu-quota, v2"];
    for family in FAMILIES.iter().filter(|family| !BLIND.contains(&family.name)) {
        let mut bench = Bench::new(family);
        let device = bench.twin.device();
        let (low, top) = (bench.step(0), *bench.knob.info().opps.last().unwrap());
        bench.twin.control(&format!("clamp knob {}", low.0)).unwrap();
        let pinned = bench.knob.pin(&*device.nodes, top);
        device.clock.sleep(Duration::from_millis(50));
        let limits = bench.knob.glimpse(&*device.nodes).limits;
        let told = limits.iter().any(|limit| limit.max.is_some_and(|max| max < top));
        assert!(told, "{}: {limits:?}, pin gave {pinned:?}", family.name);
        bench.twin.control("unclamp knob").unwrap();
        assert!(bench.restore(&*device.nodes).complete(), "{}", family.name);
    }
}

#[test]
fn a_write_that_does_nothing_is_never_taken_for_a_pin() {
    for family in FAMILIES.iter().filter(|family| !family.name.starts_with("cpu-quota")) {
        let mut bench = Bench::new(family);
        let device = bench.twin.device();
        bench.twin.control("deaf knob").unwrap();
        let middle = bench.step(1);
        let answer = bench.knob.pin(&*device.nodes, middle);
        assert!(matches!(answer, Err(KnobError::DidNotStick { .. })), "{}: {answer:?}", family.name);
    }
}

/// Lets the events happen to a device that was found free or pinned, and compares every node in the end.
fn tried(family: &Family, found_pinned: Option<usize>, events: &[Event]) -> Result<(), TestCaseError> {
    let mut bench = Bench::new(family);
    let device = bench.twin.device();
    let nodes = bench.watch(&*device.nodes);
    if let Some(at) = found_pinned.filter(|_| !family.name.starts_with("cpu-quota")) {
        bench.happen(&Event::Pin(at), &nodes);
        bench.saved = bench.knob.snapshot(&nodes).unwrap();
    }
    let before = writable(&bench.twin);
    for event in events {
        bench.happen(event, &nodes);
    }
    bench.calm(&nodes);
    let report = bench.restore(&nodes);
    prop_assert!(report.complete(), "{:?}", report);
    prop_assert_eq!(writable(&bench.twin), before);
    prop_assert!(bench.restore(&nodes).complete(), "a second time");
    Ok(())
}

#[test]
fn no_interleaving_leaves_a_node_different() {
    let interleaving = (proptest::option::of(0..4_usize), proptest::collection::vec(event(), 1..12));
    for family in FAMILIES {
        let config = ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() };
        let all = TestRunner::new(config).run(&interleaving, |(found, events)| tried(family, found, &events));
        all.unwrap_or_else(|e| panic!("{}: {e}", family.name));
    }
}
