//! Looking at a device before anything is changed: what it has ([`look`]) and what would spoil a run
//! ([`doctor`]). Runs on the device, below the session; reads only.

mod candidates;
mod doctor;

pub use doctor::doctor;

use crate::agent::fingerprint;
use crate::device::Device;
use crate::knob;
use crate::profile::{KnobSpec, Profile, ZoneRole};
use crate::protocol::{FoundCompanion, FoundKnob, FoundSource, FoundZone, ProbeReport, ProfileFit};
use crate::sensor::{self, celsius_from_raw};
use crate::sysfs::{NodePath, Nodes, find_all, read_i64, read_trimmed};
use crate::trial::KnobId;
use candidates::{Candidate, Opponent};

/// Reads what a device has, and holds it against `profile`. Writes nothing.
pub fn look(device: &Device, profile: Option<&Profile>) -> ProbeReport {
    let nodes = device.nodes.as_ref();
    ProbeReport {
        device: fingerprint(nodes, device.properties.as_ref()),
        origin: device.origin,
        knobs: candidates::knobs(nodes).into_iter().map(|c| found_knob(nodes, c)).collect(),
        energy: sources(nodes),
        zones: zones(nodes),
        companions: companions(nodes),
        profile: profile.map(|profile| hold_against(profile, nodes)),
    }
}

/// Where the device is not as the profile says: knobs that are not there, tables that differ from the prior (the
/// device wins), zones that are missing.
fn hold_against(profile: &Profile, nodes: &dyn Nodes) -> ProfileFit {
    let knob = |spec: &KnobSpec| match knob::open(spec, nodes) {
        Ok(knob) => knob.info().table_notes.iter().map(|note| format!("knob {}: {note}", spec.id)).collect(),
        Err(e) => vec![e.to_string()],
    };
    let knobs = profile.knobs.iter().flat_map(knob);
    let (_, zones) = sensor::zones(&profile.thermal, nodes);
    ProfileFit { name: profile.name.clone(), differs: knobs.chain(zones).collect() }
}

fn found_knob(nodes: &dyn Nodes, candidate: Candidate) -> FoundKnob {
    let Candidate { id, role, driver } = candidate;
    let spec = KnobSpec { id: KnobId(id), role, usage: Default::default(), prior: Vec::new(), driver };
    match knob::open(&spec, nodes) {
        Ok(knob) => {
            let glimpse = knob.glimpse(nodes);
            FoundKnob {
                role,
                driver: spec.driver,
                info: Some(knob.info().clone()),
                clock: glimpse.clock,
                limits: glimpse.limits,
                problem: None,
            }
        }
        Err(e) => FoundKnob {
            role,
            driver: spec.driver,
            info: None,
            clock: None,
            limits: Vec::new(),
            problem: Some(e.to_string()),
        },
    }
}

fn children(nodes: &dyn Nodes, dir: &str) -> Vec<NodePath> {
    let Ok(dir) = NodePath::new(dir) else { return Vec::new() };
    nodes.list(&dir).unwrap_or_default().iter().map(|name| dir.join(name)).collect()
}

/// The trimmed text of a node, or why there is none, for showing to people.
fn shown(nodes: &dyn Nodes, node: &NodePath) -> String {
    read_trimmed(nodes, node).unwrap_or_else(|e| format!("unreadable ({})", e.detail))
}

fn sources(nodes: &dyn Nodes) -> Vec<FoundSource> {
    let mut found = Vec::new();
    for supply in children(nodes, "/sys/class/power_supply") {
        if read_trimmed(nodes, &supply.join("type")).is_ok_and(|t| t == "Battery") {
            let reading = format!(
                "{}: {} uV, {} (current_now)",
                shown(nodes, &supply.join("status")),
                shown(nodes, &supply.join("voltage_now")),
                shown(nodes, &supply.join("current_now")),
            );
            found.push(FoundSource { kind: "gauge".into(), name: supply.name().into(), reading });
        }
    }
    for device in children(nodes, "/sys/bus/iio/devices") {
        let name = read_trimmed(nodes, &device.join("name")).unwrap_or_default();
        if name.ends_with("-odpm") {
            let rails = shown(nodes, &device.join("enabled_rails")).lines().count();
            found.push(FoundSource { kind: "odpm".into(), name, reading: format!("{rails} rails") });
        }
    }
    let counters =
        [("rapl", "/sys/class/powercap", "energy_uj"), ("meter", "/sys/class/hwmon", "energy1_input")];
    for (kind, dir, node) in counters {
        for node in children(nodes, dir).iter().map(|d| d.join(node)).filter(|n| nodes.exists(n)) {
            let reading = format!("{} uJ", shown(nodes, &node));
            found.push(FoundSource { kind: kind.into(), name: node.to_string(), reading });
        }
    }
    found
}

fn zones(nodes: &dyn Nodes) -> Vec<FoundZone> {
    children(nodes, "/sys/class/thermal")
        .iter()
        .filter(|zone| zone.name().starts_with("thermal_zone"))
        .filter_map(|zone| {
            let kind = read_trimmed(nodes, &zone.join("type")).ok()?;
            let now = read_i64(nodes, &zone.join("temp")).ok().and_then(celsius_from_raw);
            Some(FoundZone { role: role_of_zone(&kind), kind, now })
        })
        .collect()
}

/// What the name of a zone suggests. Names from the device trees of shipping phones; `None` when it says
/// nothing, because a wrong guess would put a skin limit on a die.
fn role_of_zone(kind: &str) -> Option<ZoneRole> {
    let name = kind.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|w| name.contains(w));
    if has(&["battery", "batt"]) {
        Some(ZoneRole::Battery)
    } else if has(&["skin", "quiet", "neutral", "disp", "soc_therm", "xo-therm", "back", "shell"]) {
        Some(ZoneRole::Skin)
    } else if has(&["big", "mid", "little", "g3d", "tpu", "cpu", "gpu", "soc", "tsens", "apc"]) {
        Some(ZoneRole::Soc)
    } else {
        None
    }
}

fn companions(nodes: &dyn Nodes) -> Vec<FoundCompanion> {
    let found = |place: &'static Opponent| {
        let there = find_all(nodes, place.pattern).unwrap_or_default();
        there.into_iter().map(move |node| FoundCompanion {
            id: place.id.into(),
            value: shown(nodes, &node),
            action: place.action.map(|action| action(place.pattern)),
            node: node.to_string(),
        })
    };
    candidates::OPPONENTS.iter().flat_map(found).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zone_names_suggest_roles_and_never_guess() {
        assert_eq!(role_of_zone("BIG"), Some(ZoneRole::Soc));
        assert_eq!(role_of_zone("soc_therm"), Some(ZoneRole::Skin));
        assert_eq!(role_of_zone("battery"), Some(ZoneRole::Battery));
        assert_eq!(role_of_zone("usb_pwr_therm"), None);
    }
}
