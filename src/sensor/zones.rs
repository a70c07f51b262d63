//! Thermal zones by type: their numbers change from boot to boot.

use super::{Zone, class};
use crate::profile::ThermalSpec;
use crate::sysfs::{NodePath, Nodes, read_trimmed};

/// Finds the zones a profile names. Those the device does not have are named in the notes.
pub fn zones(spec: &ThermalSpec, nodes: &dyn Nodes) -> (Vec<Zone>, Vec<String>) {
    let present = present(nodes);
    let mut notes = Vec::new();
    let mut found = Vec::new();
    for (kind, role) in &spec.zones {
        match present.iter().find(|(here, _)| here == kind) {
            Some((_, dir)) => found.push(Zone { kind: kind.clone(), role: *role, node: dir.join("temp") }),
            None => notes.push(format!("thermal zone {kind} is not on this device")),
        }
    }
    if spec.gate_zone.is_empty() {
        notes.push("the profile names no gate zone: trials start at any temperature".into());
    }
    (found, notes)
}

fn present(nodes: &dyn Nodes) -> Vec<(String, NodePath)> {
    let Ok(root) = class("/sys/class/thermal") else { return Vec::new() };
    let names = nodes.list(&root).unwrap_or_default();
    names
        .iter()
        .filter(|name| name.starts_with("thermal_zone"))
        .filter_map(|name| Some((read_trimmed(nodes, &root.join(name).join("type")).ok()?, root.join(name))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::doubles::MapNodes;
    use crate::profile::ZoneRole;
    use crate::units::Celsius;

    #[test]
    fn zones_are_found_by_type_and_one_broken_zone_spoils_no_other() {
        let nodes = MapNodes::new(&[
            ("/sys/class/thermal/cooling_device0/type", "BIG"),
            ("/sys/class/thermal/thermal_zone0/type", "!22"),
            ("/sys/class/thermal/thermal_zone3/type", "BIG\n"),
            ("/sys/class/thermal/thermal_zone3/temp", "!22"),
            ("/sys/class/thermal/thermal_zone7/type", "soc_therm\n"),
            ("/sys/class/thermal/thermal_zone7/temp", "34500\n"),
        ]);
        let wanted = [("BIG", ZoneRole::Soc), ("soc_therm", ZoneRole::Skin), ("gone", ZoneRole::Battery)];
        let spec = ThermalSpec {
            gate_zone: "soc_therm".into(),
            zones: wanted.map(|(kind, role)| (kind.to_owned(), role)).into(),
        };
        let (zones, notes) = zones(&spec, &nodes);
        let read: Vec<_> = zones.iter().map(|z| (z.kind.as_str(), z.read(&nodes))).collect();
        assert_eq!(read, [("BIG", None), ("soc_therm", Some(Celsius(34.5)))]);
        assert_eq!(notes, ["thermal zone gone is not on this device"]);
    }
}
