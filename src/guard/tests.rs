//! What restoring must do, on a small device in memory.

use super::*;
use crate::clock::BootClock;
use crate::knob::fake::Fake;
use crate::sysfs::{NoProperties, NodePath, Nodes};

fn step(owner: &str, node: &str, write: &str, check: Check) -> RestoreStep {
    let target = Target::Node(NodePath::new(node).unwrap());
    RestoreStep { owner: owner.into(), target, write: write.into(), check, survives_reboot: false }
}

fn back(fake: &Fake, steps: &[RestoreStep]) -> crate::protocol::RestoreReport {
    put_back(steps, Place { nodes: fake, properties: &NoProperties, clock: &BootClock })
}

#[test]
fn owners_go_back_in_reverse_and_their_steps_in_order() {
    let fake = Fake::default();
    for node in ["/a", "/b"] {
        fake.text(node, "changed");
    }
    let text = |value: &str| Check::Text(value.into());
    let steps = [
        step("first", "/a", "open", Check::Nothing),
        step("first", "/a", "original", text("original")),
        step("second", "/b", "1", text("1")),
    ];
    let report = back(&fake, &steps);
    assert_eq!((report.restored, report.differs), (2, vec![]));
    assert_eq!(fake.order(), ["/b", "/a", "/a"]);
    assert!(back(&fake, &steps).complete(), "twice is harmless");
}

#[test]
fn failures_do_not_stop_the_rest_and_are_told_one_by_one() {
    let fake = Fake::default();
    fake.text("/fine", "x");
    fake.text("/stuck", "x");
    fake.ignore_writes("/stuck");
    fake.text("/blind", "x");
    fake.fail_writes("/blind", libc::EACCES);
    let steps = [
        step("a", "/fine", "1", Check::Text("1".into())),
        step("b", "/stuck", "2", Check::Text("2".into())),
        step("c", "/gone", "3", Check::Text("3".into())),
        step("d", "/blind", "4", Check::Nothing),
    ];
    let report = back(&fake, &steps);
    assert_eq!(report.restored, 1);
    assert_eq!(report.differs.len(), 3, "{:?}", report.differs);
    assert!(report.differs[2].contains("/stuck: wanted `2`, found `x`"), "{:?}", report.differs);
    assert_eq!(fake.last_write("/fine"), "1");
}

#[test]
fn a_cgroup_of_ours_is_emptied_and_removed() {
    let fake = Fake::default();
    fake.text("/cg/opptune/cgroup.procs", "71\n72\n");
    fake.text("/cg/home/cgroup.procs", "");
    let path = |text: &str| NodePath::new(text).unwrap();
    let target = Target::Cgroup { dir: path("/cg/opptune"), home: path("/cg/home") };
    let steps = [RestoreStep { target, ..step("quota", "/x", "", Check::Nothing) }];
    assert!(back(&fake, &steps).complete());
    assert_eq!(fake.last_write("/cg/home/cgroup.procs"), "72");
    assert!(!fake.exists(&path("/cg/opptune")));
}

#[test]
fn a_wakelock_is_dropped_and_its_absence_verified() {
    let fake = Fake::default();
    fake.text("/sys/power/wake_lock", "other opptune");
    fake.text("/sys/power/wake_unlock", "");
    let target = Target::Wakelock("opptune".into());
    let steps = [RestoreStep { target, ..step("awake", "/x", "", Check::Nothing) }];
    assert_eq!(back(&fake, &steps).differs.len(), 1, "this one is not let go");
    fake.text("/sys/power/wake_lock", "other");
    assert!(back(&fake, &steps).complete());
    assert_eq!(fake.last_write("/sys/power/wake_unlock"), "opptune");
}

#[test]
fn checks_read_numbers_out_of_sentences() {
    let index = Check::FirstNumber(3);
    assert!(index.holds("[GPUFREQ-DEBUG] fix GPU/STACK OPP index: 3/3"));
    assert!(index.holds("[03] freq: 848000"));
    assert!(!index.holds("gpufreqv2 3a 4"));
    assert!(Check::FirstNumber(-1).holds("-1"));
    assert!(Check::FirstNumber(848_000).holds("848000 / 900000"));
    assert!(Check::Contains("[adaptive]".into()).holds("always_on [adaptive]"));
    assert!(!Check::Text("1".into()).holds("11"));
}
