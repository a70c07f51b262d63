//! Every kind of companion on a small device in memory: saved, applied, verified, restored.

use super::*;
use crate::device::Device;
use crate::device::doubles::StepClock;
use crate::engine::EngineError;
use crate::guard::Launch;
use crate::knob::fake::Fake;
use crate::profile::DriverSpec;
use crate::sysfs::{NodeFault, NodePath};
use crate::trial::Origin;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Default)]
struct Props(Mutex<BTreeMap<String, String>>);

impl Properties for Props {
    fn get(&self, name: &str) -> Result<String, NodeError> {
        Ok(self.0.lock().unwrap().get(name).cloned().unwrap_or_default())
    }

    fn set(&self, name: &str, value: &str) -> Result<(), NodeError> {
        self.0.lock().unwrap().insert(name.into(), value.into());
        Ok(())
    }
}

struct Bench {
    nodes: Arc<Fake>,
    properties: Arc<Props>,
    guard: Guard,
}

/// A device that lives and dies with this process.
fn bench() -> Bench {
    let (nodes, properties) = (Arc::new(Fake::default()), Arc::new(Props::default()));
    let device = Device {
        nodes: nodes.clone(),
        properties: properties.clone(),
        clock: Arc::new(StepClock::default()),
        engine: Box::new(|_, _| Err(EngineError::Cancelled)),
        origin: Origin::Simulated,
        outlives_agent: false,
        work_rate: None,
        begin_trial: Box::new(|_| ()),
    };
    let (nowhere, lease) = (Path::new("/nowhere"), Duration::from_secs(1));
    let launch = Launch::this_program(nowhere).unwrap();
    let guard = Guard::take_with(&device, nowhere, "test", None, lease, launch).unwrap();
    Bench { nodes, properties, guard }
}

impl Bench {
    fn apply(&mut self, action: CompanionAction) -> Result<Vec<String>, CompanionError> {
        self.apply_spec(CompanionSpec { id: "it".into(), action, optional: false, thermal: false })
    }

    fn apply_spec(&mut self, spec: CompanionSpec) -> Result<Vec<String>, CompanionError> {
        apply(&[spec], false, &*self.nodes, &*self.properties, &mut self.guard)
    }

    fn text(&self, path: &str) -> String {
        self.nodes.everything()[path].trim().to_owned()
    }
}

fn node(path: &str, value: &str, bracketed: bool) -> CompanionAction {
    CompanionAction::Node { path: path.into(), value: value.into(), restore: None, bracketed }
}

#[test]
fn nodes_are_written_wherever_the_pattern_matches_and_put_back() {
    let mut bench = bench();
    for (policy, text) in [(0, "1"), (4, "1"), (6, "0")] {
        bench.nodes.text(&format!("/cpufreq/policy{policy}/limit"), text);
    }
    bench.apply(node("/cpufreq/policy*/limit", "0", false)).unwrap();
    assert_eq!(bench.text("/cpufreq/policy4/limit"), "0");
    assert_eq!(bench.nodes.order().len(), 2, "the one that is right is left alone");
    assert!(bench.guard.restore().complete());
    assert_eq!(bench.text("/cpufreq/policy4/limit"), "1");
}

#[test]
fn a_bracketed_list_is_set_by_word() {
    let mut bench = bench();
    let show = |word: &str| {
        let words = ["always_on", "adaptive"].map(|w| if w == word { format!("[{w}]") } else { w.into() });
        words.join(" ")
    };
    bench.nodes.sentence("/power_policy", "adaptive", show);
    bench.apply(node("/power_policy", "always_on", true)).unwrap();
    assert_eq!(bench.text("/power_policy"), "[always_on] adaptive");
    assert!(bench.guard.restore().complete());
    assert_eq!(bench.text("/power_policy"), "always_on [adaptive]");
}

#[test]
fn a_property_is_set_and_its_service_restarted_both_ways() {
    let mut bench = bench();
    bench.properties.set("vendor.powerhal.init", "1").unwrap();
    let (name, value) = ("vendor.powerhal.init".to_owned(), "0".to_owned());
    let restart = Some("vendor.power-hal-aidl".to_owned());
    bench.apply(CompanionAction::Property { name, value, restart }).unwrap();
    assert_eq!(bench.properties.get("vendor.powerhal.init").unwrap(), "0");
    assert_eq!(bench.properties.get("ctl.restart").unwrap(), "vendor.power-hal-aidl");
    bench.properties.set("ctl.restart", "").unwrap();
    assert!(bench.guard.restore().complete());
    assert_eq!(bench.properties.get("vendor.powerhal.init").unwrap(), "1");
    assert_eq!(bench.properties.get("ctl.restart").unwrap(), "vendor.power-hal-aidl");
}

#[test]
fn votes_are_withdrawn_for_every_cpu() {
    let mut bench = bench();
    bench.nodes.text("/msm/cpu_max_freq", "0:1804800 1:1804800 \n");
    let action = CompanionAction::MsmPerformance { path: "/msm/cpu_max_freq".into(), vote: 4_294_967_295 };
    bench.apply(action).unwrap();
    assert_eq!(bench.text("/msm/cpu_max_freq"), "0:4294967295 1:4294967295");
    assert!(bench.guard.restore().complete());
    assert_eq!(bench.text("/msm/cpu_max_freq"), "0:1804800 1:1804800", "no trailing space: it is malformed");
}

#[test]
fn offline_cpus_are_brought_up_and_taken_down_again() {
    let mut bench = bench();
    for (cpu, online) in [(1, "1"), (7, "0")] {
        bench.nodes.text(&format!("/sys/devices/system/cpu/cpu{cpu}/online"), online);
    }
    bench.apply(CompanionAction::CpusOnline {}).unwrap();
    assert_eq!(bench.text("/sys/devices/system/cpu/cpu7/online"), "1");
    assert!(bench.guard.restore().complete());
    assert_eq!(bench.text("/sys/devices/system/cpu/cpu7/online"), "0");
    assert_eq!(bench.text("/sys/devices/system/cpu/cpu1/online"), "1");
}

#[test]
fn the_cpuset_is_verified_by_what_the_kernel_says() {
    let mut bench = bench();
    bench.nodes.text("/proc/mounts", "cgroup /dev/cpuset cgroup rw,cpuset,noprefix 0 0");
    bench.nodes.text("/proc/self/cgroup", "4:cpuset:/background");
    bench.nodes.text("/dev/cpuset/cgroup.procs", "");
    let refused = bench.apply(CompanionAction::TopCpuset {}).unwrap_err();
    assert!(matches!(&refused, CompanionError::DidNotTake { .. }), "{refused}");
    assert!(refused.to_string().contains("/dev/cpuset/background"), "{refused}");
    bench.nodes.text("/proc/self/cgroup", "4:cpuset:/");
    assert!(bench.apply(CompanionAction::TopCpuset {}).is_ok());
}

#[test]
fn charging_is_verified_by_the_gauge_and_resumed() {
    let mut bench = bench();
    for (name, text) in [("type", "Battery"), ("status", "Charging"), ("current_now", "900000")] {
        bench.nodes.text(&format!("/sys/class/power_supply/maxfg/{name}"), text);
    }
    bench.nodes.text("/charger/input_suspend", "0");
    let suspend = || CompanionAction::SuspendCharging {
        path: "/charger/input_suspend".into(),
        stop: "1".into(),
        run: "0".into(),
    };
    let refused = bench.apply(suspend()).unwrap_err();
    assert!(matches!(refused, CompanionError::StillCharging { .. }), "{refused}");
    let mut optional = CompanionSpec { id: "c".into(), action: suspend(), optional: true, thermal: false };
    assert_eq!(bench.apply_spec(optional.clone()).unwrap().len(), 1, "told as a note");
    assert!(bench.guard.restore().complete());
    assert_eq!(bench.text("/charger/input_suspend"), "0");
    bench.nodes.text("/sys/class/power_supply/maxfg/status", "Discharging");
    optional.id = "d".into();
    assert!(bench.apply_spec(optional).unwrap()[0].contains("discharging already"));
}

#[test]
fn thermal_control_is_left_alone_unless_the_profile_takes_the_risk() {
    let mut bench = bench();
    bench.nodes.text("/zone/mode", "enabled");
    let action = node("/zone/mode", "disabled", false);
    let spec = CompanionSpec { id: "tj".into(), action, optional: true, thermal: true };
    let refused =
        apply(std::slice::from_ref(&spec), false, &*bench.nodes, &*bench.properties, &mut bench.guard);
    assert!(matches!(refused, Err(CompanionError::ThermalRisk { .. })));
    assert_eq!(bench.text("/zone/mode"), "enabled");
    apply(&[spec], true, &*bench.nodes, &*bench.properties, &mut bench.guard).unwrap();
    assert_eq!(bench.text("/zone/mode"), "disabled");
}

#[test]
fn what_is_missing_or_does_not_take_is_an_error_or_a_note() {
    let mut bench = bench();
    let missing = bench.apply(node("/none", "1", false)).unwrap_err();
    assert!(
        matches!(&missing, CompanionError::Missing { error, .. } if error.fault == NodeFault::NotFound),
        "{missing}"
    );
    bench.nodes.text("/stubbed", "1");
    bench.nodes.ignore_writes("/stubbed");
    let stubbed = bench.apply(node("/stubbed", "0", false)).unwrap_err();
    assert!(matches!(stubbed, CompanionError::DidNotTake { .. }), "{stubbed}");
}

/// The whole way on drivers that reset maxima when `boost` changes.
#[test]
fn boost_is_set_with_every_limit_kept_and_restored_in_an_order_that_ends_in_the_originals() {
    let profile = crate::profile::load("twins/snapdragon-8-gen-2").unwrap();
    let device = crate::twin::device(&profile, 1).unwrap();
    let (nowhere, lease) = (Path::new("/nowhere"), Duration::from_secs(1));
    let launch = Launch::this_program(nowhere).unwrap();
    let node = |path: &str| NodePath::new(format!("/sys/devices/system/cpu/cpufreq/{path}")).unwrap();
    let limits = ["policy0", "policy3", "policy7"]
        .map(|policy| ["scaling_min_freq", "scaling_max_freq"].map(|name| node(&format!("{policy}/{name}"))));
    let nodes = device.nodes.clone();
    let look = || limits.each_ref().map(|pair| pair.each_ref().map(|n| nodes.read(n).unwrap()));
    let votes = NodePath::new("/sys/module/msm_performance/parameters/cpu_max_freq").unwrap();
    nodes.write(&votes, "7:4294967295").unwrap();
    nodes.write(&node("boost"), "0").unwrap();
    nodes.write(&node("policy0/scaling_max_freq"), "1113600").unwrap();
    nodes.write(&node("policy7/scaling_max_freq"), "1881600").unwrap();
    let originals = look();

    let mut guard = Guard::take_with(&device, nowhere, "test", None, lease, launch).unwrap();
    let action = CompanionAction::Boost {};
    let spec = CompanionSpec { id: "boost".into(), action, optional: false, thermal: false };
    apply(&[spec], false, &*nodes, &*device.properties, &mut guard).unwrap();
    assert_eq!(nodes.read(&node("boost")).unwrap().trim(), "1");
    assert_eq!(look(), originals, "the governors keep the range they had");

    let prime = profile.knobs.iter().find(|k| k.driver == DriverSpec::Cpufreq { policy: 7 }).unwrap();
    let mut knob = crate::knob::open(prime, &*nodes).unwrap();
    guard.save(knob.snapshot(&*nodes).unwrap()).unwrap();
    let step = knob.info().boost[0];
    assert_eq!(knob.pin(&*nodes, step).unwrap(), step, "a boost step can be pinned now");
    let report = guard.restore();
    assert!(report.complete(), "{report:?}");
    assert_eq!(nodes.read(&node("boost")).unwrap().trim(), "0");
    assert_eq!(look(), originals);
}
