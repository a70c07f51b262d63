//! Every family's nodes, against what is known of the real drivers.

mod clocks;
mod cpu;
mod sensors;

use crate::twin::tests::profile;
use crate::twin::{Entry, Twin};
use proptest::prelude::*;
use std::time::Duration;

const BIG: &str = "/sys/devices/system/cpu/cpufreq/policy6";

struct Phone(Twin);

impl Phone {
    fn new(name: &str) -> Self {
        Phone(Twin::new(&profile(name), 1).unwrap())
    }

    fn get(&self, path: &str) -> String {
        self.0
            .read(path)
            .unwrap_or_else(|errno| panic!("{path}: errno {errno}"))
            .trim_end_matches('\n')
            .into()
    }

    fn put(&self, path: &str, text: &str) -> Result<(), i32> {
        self.0.write(path, &format!("{text}\n"))
    }

    fn set(&self, path: &str, text: &str) {
        self.put(path, text).unwrap_or_else(|errno| panic!("{path} <- {text}: errno {errno}"));
    }

    fn tell(&self, command: &str) {
        self.0.control(command).unwrap();
    }

    fn wait(&self, ms: u64) {
        self.0.device().clock.sleep(Duration::from_millis(ms));
    }

    /// Every file of the device.
    fn files(&self) -> Vec<String> {
        let mut dirs = vec![String::new()];
        let mut files = Vec::new();
        while let Some(dir) = dirs.pop() {
            for path in self.0.list(&dir).unwrap().into_iter().map(|name| format!("{dir}/{name}")) {
                match self.0.entry(&path).unwrap() {
                    Entry::Directory => dirs.push(path),
                    Entry::File(_) => files.push(path),
                }
            }
        }
        files
    }
}

/// What may be written to any node.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..4_000_000_u64).prop_map(|n| n.to_string()),
        prop::sample::select(vec![
            "0",
            "-1",
            "18446744073709551615",
            "max",
            "min",
            "",
            "\n",
            "a b",
            "7:0",
            "1 1"
        ])
        .prop_map(String::from),
        "\\PC{0,12}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_write_to_any_node_breaks_the_device(
        name in prop::sample::select(vec![
            "pixel-7", "snapdragon-8-gen-2", "mediatek-gpufreqv2", "mediatek-gpufreqv1", "exynos-2400",
            "exynos-gpex", "legacy-qualcomm", "linux-host",
        ]),
        writes in prop::collection::vec((any::<prop::sample::Index>(), text()), 1..60),
    ) {
        let phone = Phone::new(name);
        let files = phone.files();
        for (at, text) in writes {
            let _ = phone.put(at.get::<String>(&files), &text);
            phone.wait(15);
        }
        for file in &files {
            let _ = phone.0.read(file);
        }
        for policy in files.iter().filter(|f| f.contains("cpufreq/policy") && f.ends_with("scaling_min_freq")) {
            let min: u64 = phone.get(policy).parse().unwrap();
            let max: u64 = phone.get(&policy.replace("min_freq", "max_freq")).parse().unwrap();
            prop_assert!(min <= max, "{policy}: {min} is above {max}");
        }
    }
}
