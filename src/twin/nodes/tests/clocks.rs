//! GPUs, buses and memory.

use super::Phone;

#[test]
fn pixel_mali_takes_table_values_and_a_crossing_lock_resets_the_other() {
    let phone = Phone::new("pixel-7");
    let gpu = "/sys/class/misc/mali0/device";
    assert!(phone.get(&format!("{gpu}/available_frequencies")).starts_with("848000 762000 "));
    assert!(phone.get(&format!("{gpu}/available_frequencies")).ends_with("151000 "));
    assert_eq!(phone.put(&format!("{gpu}/scaling_max_freq"), "400001"), Err(libc::EINVAL));
    phone.set(&format!("{gpu}/scaling_max_freq"), "400000");
    phone.set(&format!("{gpu}/scaling_min_freq"), "572000");
    assert_eq!(
        phone.get(&format!("{gpu}/scaling_max_freq")),
        "848000",
        "the crossed lock is not set any more"
    );
    phone.set(&format!("{gpu}/scaling_max_freq"), "572000");
    assert_eq!(phone.get(&format!("{gpu}/cur_freq")), "572000");
    phone.tell("clamp gpu 351000");
    assert_eq!(phone.get(&format!("{gpu}/scaling_max_freq")), "572000", "reads show the own lock only");
    let info = phone.get(&format!("{gpu}/clock_info"));
    assert!(info.contains("Effective Range | 351000    | 351000"), "{info}");
    assert!(info.contains("sysfs           | 572000    | 572000"), "{info}");
    phone.set(&format!("{gpu}/power_policy"), "always_on");
    assert_eq!(phone.get(&format!("{gpu}/power_policy")), "coarse_demand adaptive [always_on]");
    assert_eq!(phone.put(&format!("{gpu}/power_policy"), "fast"), Err(libc::EINVAL));
}

#[test]
fn kgsl_clips_levels_silently_and_its_clock_sleeps() {
    let phone = Phone::new("snapdragon-8-gen-2");
    let gpu = "/sys/class/kgsl/kgsl-3d0";
    assert_eq!(phone.get(&format!("{gpu}/num_pwrlevels")), "10");
    phone.set(&format!("{gpu}/min_pwrlevel"), "4");
    phone.set(&format!("{gpu}/max_pwrlevel"), "7");
    assert_eq!(phone.get(&format!("{gpu}/max_pwrlevel")), "4");
    phone.set(&format!("{gpu}/min_pwrlevel"), "99");
    assert_eq!(phone.get(&format!("{gpu}/min_pwrlevel")), "9");
    assert_eq!(phone.put(&format!("{gpu}/min_pwrlevel"), "fast"), Err(libc::EINVAL));
    assert_eq!(phone.put(&format!("{gpu}/max_gpuclk"), "1"), Err(libc::ERANGE));
    assert_eq!(phone.get(&format!("{gpu}/gpuclk")), "0");
    phone.set(&format!("{gpu}/force_clk_on"), "1");
    phone.set(&format!("{gpu}/min_pwrlevel"), "4");
    assert_eq!(phone.get(&format!("{gpu}/gpuclk")), "475000000");
    phone.set(&format!("{gpu}/max_clock_mhz"), "295");
    assert_eq!(phone.get(&format!("{gpu}/thermal_pwrlevel")), "7");
    assert_eq!(phone.get(&format!("{gpu}/max_pwrlevel")), "4", "the thermal level is a cap of its own");
    assert_eq!(phone.get(&format!("{gpu}/gpuclk")), "295000000");
}

#[test]
fn gpufreq_v2_succeeds_on_garbage_and_answers_in_sentences() {
    let phone = Phone::new("mediatek-gpufreqv2");
    let fixed = "/proc/gpufreqv2/fix_target_opp_index";
    assert_eq!(phone.get(fixed), "[GPUFREQ-DEBUG] fix GPU OPP index is disabled");
    phone.set(fixed, "3");
    phone.set(fixed, "fastest");
    assert_eq!(phone.get(fixed), "[GPUFREQ-DEBUG] fix GPU OPP index: 3");
    assert_eq!(phone.put(fixed, "90"), Err(libc::EINVAL));
    let table = phone.get("/proc/gpufreqv2/gpu_working_opp_table");
    let twice = table.lines().filter(|line| line.contains("freq: 1716000")).count();
    assert_eq!(twice, 2, "{table}");
    phone.set(fixed, "-1");
    assert_eq!(phone.get(fixed), "[GPUFREQ-DEBUG] fix GPU OPP index is disabled");
}

#[test]
fn gpufreq_v1_keeps_a_table_value_and_0_frees() {
    let phone = Phone::new("mediatek-gpufreqv1");
    let fixed = "/proc/gpufreq/gpufreq_opp_freq";
    phone.set(fixed, "730000");
    assert!(phone.get(fixed).contains("freq = 730000"));
    phone.set(fixed, "730001");
    assert!(phone.get(fixed).contains("freq = 730000"), "not in the table: ignored");
    phone.set(fixed, "0");
    assert!(phone.get(fixed).contains("disabled"));
}

#[test]
fn gpex_rounds_frees_with_0_and_answers_enoent() {
    let phone = Phone::new("exynos-gpex");
    let max = "/sys/kernel/gpu/gpu_max_clock";
    assert_eq!(phone.get(max), "-1");
    phone.set(max, "500000");
    assert_eq!(phone.get(max), "455000 / 500000");
    assert_eq!(phone.put(max, "1"), Err(libc::ENOENT));
    assert_eq!(phone.put(max, "fast"), Err(libc::ENOENT));
    phone.set(max, "858000");
    assert_eq!(phone.get(max), "-1", "the top of the table is no lock");
    phone.set(max, "0");
    assert_eq!(phone.get(max), "-1");
}

#[test]
fn devfreq_counts_in_the_devices_unit_and_beyond_32_bits() {
    let phone = Phone::new("mediatek-gpufreqv2");
    let bus = "/sys/class/devfreq/mtk-dvfsrc-devfreq";
    phone.set(&format!("{bus}/min_freq"), "6400000000");
    assert_eq!(phone.get(&format!("{bus}/cur_freq")), "6400000000");
    phone.set(&format!("{bus}/max_freq"), "1866000000");
    assert_eq!(phone.get(&format!("{bus}/min_freq")), "1866000000", "crossing does not fail");
    phone.set(&format!("{bus}/max_freq"), "0");
    phone.set(&format!("{bus}/min_freq"), "0");
    assert_eq!(phone.get(&format!("{bus}/max_freq")), "6400000000");

    let old = Phone::new("legacy-qualcomm");
    let bus = "/sys/class/devfreq/soc:qcom,cpubw";
    old.set(&format!("{bus}/max_freq"), "7110");
    assert_eq!(old.put(&format!("{bus}/min_freq"), "9155"), Err(libc::EINVAL));
    assert_eq!(Phone::new("exynos-2400").get("/sys/class/devfreq/23400000.sgpu/available_frequencies"), "");
}

#[test]
fn a_bus_is_pinned_by_all_its_monitors_and_one_of_them_reasserts() {
    let phone = Phone::new("snapdragon-8-gen-2");
    let bus = "/sys/devices/system/cpu/bus_dcvs/DDR";
    let monitors = ["soc:qcom,memlat:ddr:gold", "soc:qcom,memlat:ddr:prime", "soc:qcom,bwmon-ddr"];
    for monitor in monitors {
        phone.set(&format!("{bus}/{monitor}/max_freq"), "768000");
    }
    assert_eq!(phone.get(&format!("{bus}/cur_freq")), "547000");
    phone.set(&format!("{bus}/{}/min_freq", monitors[0]), "768000");
    assert_eq!(phone.get(&format!("{bus}/cur_freq")), "768000");
    phone.wait(300);
    assert_eq!(phone.get(&format!("{bus}/{}/max_freq", monitors[2])), "4224000");
    assert_eq!(phone.get(&format!("{bus}/{}/max_freq", monitors[0])), "768000");
}

#[test]
fn mif_reads_back_the_request_and_the_debug_pair_pins() {
    let phone = Phone::new("pixel-7");
    let mif = "/sys/class/devfreq/17000010.devfreq_mif";
    phone.set(&format!("{mif}/exynos_data/debug_scaling_devfreq_max"), "1014000");
    phone.set(&format!("{mif}/exynos_data/debug_scaling_devfreq_min"), "1014000");
    phone.set(&format!("{mif}/scaling_devfreq_min"), "3172000");
    assert_eq!(phone.get(&format!("{mif}/scaling_devfreq_min")), "3172000");
    assert_eq!(phone.get(&format!("{mif}/cur_freq")), "1014000");
}
