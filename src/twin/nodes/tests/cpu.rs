//! CPUs: cpufreq by kernel age, hotplug, votes, quotas.

use super::{BIG, Phone};

#[test]
fn cpufreq_remembers_a_minimum_that_the_maximum_hides() {
    let phone = Phone::new("pixel-7");
    phone.set(&format!("{BIG}/scaling_max_freq"), "984000");
    phone.set(&format!("{BIG}/scaling_min_freq"), "2048000");
    assert_eq!(phone.get(&format!("{BIG}/scaling_min_freq")), "984000");
    phone.set(&format!("{BIG}/scaling_max_freq"), "2850000");
    assert_eq!(phone.get(&format!("{BIG}/scaling_min_freq")), "2048000");
    assert_eq!(phone.get(&format!("{BIG}/scaling_cur_freq")), "2048000");
}

#[test]
fn cpufreq_rounds_limits_to_operating_points_from_5_15_on_and_keeps_them_before() {
    let new = Phone::new("pixel-7");
    new.set(&format!("{BIG}/scaling_max_freq"), "1234567");
    assert_eq!(new.get(&format!("{BIG}/scaling_max_freq")), "1106000");
    let old = Phone::new("exynos-gpex");
    let policy = "/sys/devices/system/cpu/cpufreq/policy7";
    old.set(&format!("{policy}/scaling_max_freq"), "1234567");
    assert_eq!(old.get(&format!("{policy}/scaling_max_freq")), "1234567");
    assert_eq!(new.put(&format!("{BIG}/scaling_max_freq"), "12x"), Err(libc::EINVAL));
    assert_eq!(new.put(&format!("{BIG}/scaling_max_freq"), "-1"), Err(libc::EINVAL));
    assert_eq!(new.put(&format!("{BIG}/scaling_setspeed"), "984000"), Err(libc::EINVAL));
    assert_eq!(new.get(&format!("{BIG}/scaling_setspeed")), "<unsupported>");
}

#[test]
fn a_legacy_kernel_refuses_limits_that_cross_and_takes_trailing_junk() {
    let phone = Phone::new("legacy-qualcomm");
    let policy = "/sys/devices/system/cpu/cpufreq/policy7";
    phone.set(&format!("{policy}/scaling_max_freq"), "1401600");
    assert_eq!(phone.put(&format!("{policy}/scaling_min_freq"), "2073600"), Err(libc::EINVAL));
    phone.set(&format!("{policy}/scaling_min_freq"), "1401600abc");
    assert_eq!(phone.put(&format!("{policy}/scaling_max_freq"), "960000"), Err(libc::EINVAL));
    assert_eq!(phone.0.read(&format!("{policy}/scaling_available_frequencies")), Err(libc::ENOENT));
    assert!(phone.get(&format!("{policy}/stats/time_in_state")).starts_with("844800 "));
}

#[test]
fn an_offline_policy_has_no_affected_cpus_and_takes_no_writes() {
    let phone = Phone::new("pixel-7");
    phone.set("/sys/devices/system/cpu/cpu6/online", "0");
    assert_eq!(phone.get(&format!("{BIG}/affected_cpus")), "7");
    phone.tell("offline 7");
    assert_eq!(phone.get(&format!("{BIG}/affected_cpus")), "");
    assert_eq!(phone.get(&format!("{BIG}/related_cpus")), "6 7");
    assert_eq!(phone.get("/sys/devices/system/cpu/online"), "0-5");
    assert_eq!(phone.put(&format!("{BIG}/scaling_max_freq"), "984000"), Err(libc::EBUSY));
    assert!(phone.0.entry("/sys/devices/system/cpu/cpu0/online").is_none());
}

#[test]
fn clamps_show_in_limits_but_the_firmwares_show_in_the_clock_alone() {
    let phone = Phone::new("snapdragon-8-gen-2");
    let policy = "/sys/devices/system/cpu/cpufreq/policy7";
    phone.set("/sys/module/msm_performance/parameters/cpu_max_freq", "7:4294967295");
    phone.set(&format!("{policy}/scaling_min_freq"), "2592000");
    phone.tell("clamp cpu-big 1363200");
    assert_eq!(phone.get(&format!("{policy}/scaling_max_freq")), "1363200");
    assert_eq!(phone.get(&format!("{policy}/scaling_min_freq")), "1363200");
    phone.tell("unclamp cpu-big");
    phone.tell("firmware cpu-big 1000000");
    assert_eq!(phone.get(&format!("{policy}/scaling_max_freq")), "3187200");
    assert_eq!(phone.get(&format!("{policy}/scaling_cur_freq")), "2592000");
    assert_eq!(phone.get(&format!("{policy}/cpuinfo_cur_freq")), "1000000");
    assert_eq!(phone.get(&format!("{policy}/dcvsh_freq_limit")), "1000000");
}

#[test]
fn boost_steps_are_listed_apart_and_need_the_switch() {
    let phone = Phone::new("snapdragon-8-gen-2");
    let policy = "/sys/devices/system/cpu/cpufreq/policy7";
    phone.set("/sys/module/msm_performance/parameters/cpu_max_freq", "7:4294967295");
    assert_eq!(phone.get(&format!("{policy}/scaling_boost_frequencies")), "3187200 ");
    assert!(!phone.get(&format!("{policy}/scaling_available_frequencies")).contains("3187200"));
    phone.set("/sys/devices/system/cpu/cpufreq/boost", "0");
    assert_eq!(phone.get(&format!("{policy}/cpuinfo_max_freq")), "2956800");
    phone.set(&format!("{policy}/scaling_max_freq"), "3187200");
    assert_eq!(phone.get(&format!("{policy}/scaling_max_freq")), "2956800");
}

#[test]
fn msm_performance_votes_clip_a_policy_until_they_are_withdrawn() {
    let phone = Phone::new("snapdragon-8-gen-2");
    let policy = "/sys/devices/system/cpu/cpufreq/policy7";
    let votes = "/sys/module/msm_performance/parameters/cpu_max_freq";
    assert_eq!(phone.get(&format!("{policy}/scaling_max_freq")), "2265600");
    assert!(phone.get(votes).contains("0:4294967295 ") && phone.get(votes).contains("7:2265600"));
    assert_eq!(phone.put(votes, "garbage"), Err(libc::EINVAL));
    phone.set(votes, "0:4294967295 7:4294967295");
    assert_eq!(phone.get(&format!("{policy}/scaling_max_freq")), "3187200");
}

#[test]
fn a_cgroup_is_a_directory_with_a_quota() {
    let phone = Phone::new("linux-host");
    let group = "/sys/fs/cgroup/opptune";
    phone.0.make_dir(group).unwrap();
    assert_eq!(phone.get(&format!("{group}/cpu.max")), "max 100000");
    phone.set(&format!("{group}/cpu.max"), "5000 10000");
    assert_eq!(phone.get(&format!("{group}/cpu.max")), "5000 10000");
    assert_eq!(phone.put(&format!("{group}/cpu.max"), "10 10000"), Err(libc::EINVAL));
    phone.set(&format!("{group}/cgroup.procs"), &std::process::id().to_string());
    assert_eq!(phone.0.remove_dir(group), Err(libc::EBUSY));
    phone.set("/sys/fs/cgroup/cgroup.procs", &std::process::id().to_string());
    phone.0.remove_dir(group).unwrap();
    assert!(phone.0.entry(group).is_none());
    assert_eq!(phone.0.make_dir("/sys/class/mine"), Err(libc::EPERM));
}
