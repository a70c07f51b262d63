//! Which device this is, and under which conditions it runs: a result is comparable only with these.

use crate::condition;
use crate::device::Device;
use crate::digest::hex;
use crate::profile::{DriverSpec, Profile};
use crate::protocol::Fingerprint;
use crate::sysfs::{NodePath, Nodes, Properties, find_all, find_one, read_trimmed};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Bytes of the hash that tells devices apart.
const HASH_BYTES: usize = 8;

/// Identifies the device.
pub fn fingerprint(nodes: &dyn Nodes, properties: &dyn Properties) -> Fingerprint {
    let node = |path: &str| text(nodes, path);
    let property = |name: &str| properties.get(name).unwrap_or_default().trim().to_owned();
    let first = |candidates: [String; 3]| candidates.into_iter().find(|c| !c.is_empty()).unwrap_or_default();
    let serial = first([property("ro.serialno"), node("/etc/machine-id"), String::new()]);
    Fingerprint {
        model: first([
            property("ro.product.model"),
            node("/sys/firmware/devicetree/base/model"),
            node("/sys/class/dmi/id/product_name"),
        ]),
        soc: first([
            property("ro.soc.model"),
            node("/sys/firmware/devicetree/base/compatible"),
            cpu_model(&node("/proc/cpuinfo")),
        ]),
        os: first([property("ro.build.fingerprint"), os_name(&node("/etc/os-release")), String::new()]),
        kernel: node("/proc/sys/kernel/osrelease"),
        arch: first([property("ro.product.cpu.abi"), std::env::consts::ARCH.into(), String::new()]),
        boot_id: node("/proc/sys/kernel/random/boot_id"),
        serial_hash: if serial.is_empty() { serial } else { short_hash(&serial) },
    }
}

/// Conditions of a run, as pairs for people and for comparing. What a device does not tell is left out.
pub fn conditions(device: &Device, profile: &Profile) -> BTreeMap<String, String> {
    let node = |path: &str| text(&*device.nodes, path);
    let property = |name: &str| device.properties.get(name).unwrap_or_default().trim().to_owned();
    let mut found: Vec<(String, String)> = vec![
        (condition::KERNEL.into(), node("/proc/sys/kernel/osrelease")),
        (condition::CPUS_ONLINE.into(), node("/sys/devices/system/cpu/online")),
        (condition::LOAD_AVERAGE.into(), node("/proc/loadavg")),
        (condition::UP_FOR.into(), format!("{} s", device.clock.now().0 / 1_000_000_000)),
        (condition::THERMAL_STATUS.into(), property("sys.siop.level")),
        (condition::SCREEN.into(), screen(&*device.nodes)),
        (condition::SELINUX.into(), selinux(&node("/sys/fs/selinux/enforce"))),
    ];
    found.extend(supplies(&*device.nodes));
    found.extend(
        profile
            .knobs
            .iter()
            .filter_map(|spec| Some((condition::governor(&spec.id), node(&governor_node(&spec.driver)?)))),
    );
    found.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

/// Where the family of a knob names the governor that has it when it is not pinned.
fn governor_node(driver: &DriverSpec) -> Option<String> {
    match driver {
        DriverSpec::Cpufreq { policy } => {
            Some(format!("/sys/devices/system/cpu/cpufreq/policy{policy}/scaling_governor"))
        }
        DriverSpec::Kgsl { node } => Some(format!("{node}/devfreq/governor")),
        DriverSpec::PixelMali { node } | DriverSpec::Devfreq { node, .. } | DriverSpec::Mif { node } => {
            Some(format!("{node}/governor"))
        }
        DriverSpec::Gpex { node } => Some(format!("{node}/gpu_governor")),
        DriverSpec::GpufreqV1 { .. }
        | DriverSpec::GpufreqV2 { .. }
        | DriverSpec::BusDcvs { .. }
        | DriverSpec::CpuQuota { .. } => None,
    }
}

/// Battery level, charging and cables.
fn supplies(nodes: &dyn Nodes) -> Vec<(String, String)> {
    let Ok(root) = NodePath::new("/sys/class/power_supply") else { return Vec::new() };
    let names = nodes.list(&root).unwrap_or_default();
    let pairs = names.iter().flat_map(|name| {
        condition::POWER_FACTS.map(|fact| {
            let value = read_trimmed(nodes, &root.join(name).join(fact)).unwrap_or_default();
            (condition::power(name, fact), value)
        })
    });
    pairs.collect()
}

/// `on` or `off`, from the first backlight there is (its power state 0 is on).
fn screen(nodes: &dyn Nodes) -> String {
    let power = find_all(nodes, "/sys/class/backlight/*/bl_power").unwrap_or_default();
    match power.first().and_then(|node| read_trimmed(nodes, node).ok()).as_deref() {
        Some("0") => "on".into(),
        Some(_) => "off".into(),
        None => String::new(),
    }
}

fn selinux(enforce: &str) -> String {
    match enforce {
        "" => String::new(),
        "0" => "permissive".into(),
        _ => "enforcing".into(),
    }
}

/// Device-tree texts end in NUL and hold several, separated by it; the first is the most specific.
fn text(nodes: &dyn Nodes, path: &str) -> String {
    let Ok(found) = find_one(nodes, path) else { return String::new() };
    let text = read_trimmed(nodes, &found).unwrap_or_default();
    text.split('\0').next().unwrap_or_default().to_owned()
}

fn cpu_model(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(':')).map_or("", |(_, name)| name.trim()).to_owned()
}

fn os_name(os_release: &str) -> String {
    let line = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    line.unwrap_or_default().trim_matches('"').to_owned()
}

fn short_hash(text: &str) -> String {
    hex(&Sha256::digest(text)[..HASH_BYTES])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::doubles::MapNodes;
    use crate::sysfs::NoProperties;

    #[test]
    fn a_board_is_known_by_its_device_tree_and_its_serial_stays_hidden() {
        let nodes = MapNodes::new(&[
            ("/sys/firmware/devicetree/base/model", "Board 5\0"),
            ("/sys/firmware/devicetree/base/compatible", "maker,board5\0maker,soc9\0"),
            ("/etc/os-release", "NAME=x\nPRETTY_NAME=\"Some Linux 12\"\n"),
            ("/etc/machine-id", "secret\n"),
        ]);
        let found = fingerprint(&nodes, &NoProperties);
        assert_eq!((found.model.as_str(), found.soc.as_str()), ("Board 5", "maker,board5"));
        assert_eq!(found.os, "Some Linux 12");
        assert_eq!(found.serial_hash.len(), 2 * HASH_BYTES);
        assert!(!found.serial_hash.contains("secret"));
    }
}
