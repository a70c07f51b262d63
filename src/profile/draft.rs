//! A first profile for a device that has none, from what a probe found on it.

use super::{
    Accuracy, Axes, Axis, CompanionSpec, EnergySpec, Follow, KnobSpec, Matching, Profile, Role, SCHEMA,
    ThermalSpec, Use,
};
use crate::profile::ZoneRole;
use crate::protocol::{FoundKnob, ProbeReport};
use crate::trial::KnobId;
use crate::units::Opp;
use std::collections::{BTreeMap, BTreeSet};

/// A profile of the device that was probed: the fastest CPU policy leads the CPU axis and the others follow it
/// in proportion, the first usable GPU leads the GPU axis, memory is recorded. To be read by a person before it
/// is used; `opptune check-pins` says whether it holds.
pub fn draft(report: &ProbeReport, name: &str) -> Profile {
    let device = &report.device;
    let only = |text: &str| if text.is_empty() { Vec::new() } else { vec![text.to_owned()] };
    Profile {
        schema: SCHEMA,
        name: name.to_owned(),
        title: format!("{} ({})", device.model, device.soc),
        accuracy: Accuracy::FromReports,
        provenance: vec![format!(
            "drafted by `opptune probe` on kernel {}; not yet checked by a person",
            device.kernel
        )],
        accept_thermal_risk: false,
        matching: Matching { model: only(&device.model), soc: only(&device.soc) },
        knobs: usable(report).map(knob).collect(),
        axes: Axes { gpu: gpu_axis(report), cpu: cpu_axis(report) },
        energy: energy(report),
        thermal: thermal(report),
        companions: companions(report),
        twin: None,
    }
}

fn usable(report: &ProbeReport) -> impl Iterator<Item = &FoundKnob> {
    report.knobs.iter().filter(|found| found.info.as_ref().is_some_and(|info| !info.opps.is_empty()))
}

fn of_role(report: &ProbeReport, role: Role) -> impl Iterator<Item = (KnobId, Opp)> {
    let infos =
        usable(report).filter(move |found| found.role == role).filter_map(|found| found.info.as_ref());
    infos.filter_map(|info| Some((info.id.clone(), *info.opps.last()?)))
}

fn knob(found: &FoundKnob) -> KnobSpec {
    let info = found.info.as_ref();
    KnobSpec {
        id: info.map_or(KnobId(String::new()), |info| info.id.clone()),
        role: found.role,
        usage: if found.role == Role::Memory { Use::Record } else { Use::Search },
        prior: info.map_or(Vec::new(), |info| info.opps.clone()),
        driver: found.driver.clone(),
    }
}

fn gpu_axis(report: &ProbeReport) -> Option<Axis> {
    let (lead, _) = of_role(report, Role::Gpu).next()?;
    Some(Axis { lead, follow: BTreeMap::new() })
}

fn cpu_axis(report: &ProbeReport) -> Option<Axis> {
    let (lead, _) = of_role(report, Role::Cpu).max_by_key(|(_, top)| *top)?;
    let others = of_role(report, Role::Cpu).filter(|(id, _)| *id != lead);
    let follow = others.map(|(id, _)| (id, Follow::Proportional)).collect();
    Some(Axis { lead, follow })
}

/// Rails before a counter before the gauge: the finer source first.
fn energy(report: &ProbeReport) -> Vec<EnergySpec> {
    let named = |kind: &str| report.energy.iter().find(|source| source.kind == kind);
    let odpm = named("odpm").map(|_| EnergySpec::Odpm { rails: Vec::new() });
    let meter = named("meter").map(|source| EnergySpec::Meter { node: source.name.clone() });
    let rapl = named("rapl").map(|_| EnergySpec::Rapl {});
    let gauge = named("gauge").map(|source| EnergySpec::Gauge {
        supply: source.name.clone(),
        unit: None,
        discharge_sign: None,
        period_ms: None,
    });
    [odpm, meter, rapl, gauge].into_iter().flatten().collect()
}

fn thermal(report: &ProbeReport) -> ThermalSpec {
    let zones: BTreeMap<String, ZoneRole> = report
        .zones
        .iter()
        .filter(|zone| zone.now.is_some())
        .filter_map(|zone| Some((zone.kind.clone(), zone.role?)))
        .collect();
    let first = |role: ZoneRole| zones.iter().find(|(_, r)| **r == role).map(|(kind, _)| kind.clone());
    let gate_zone =
        first(ZoneRole::Skin).or_else(|| first(ZoneRole::Soc)).or_else(|| first(ZoneRole::Battery));
    ThermalSpec { gate_zone: gate_zone.unwrap_or_default(), zones }
}

fn companions(report: &ProbeReport) -> Vec<CompanionSpec> {
    let mut seen = BTreeSet::new();
    let known = report.companions.iter().filter_map(|found| Some((found.id.clone(), found.action.clone()?)));
    known
        .filter(|(id, _)| seen.insert(id.clone()))
        .map(|(id, action)| CompanionSpec { id, action, optional: false, thermal: false })
        .collect()
}
