//! Whether a `[twin]` table makes sense.

use super::TwinError;
use super::nodes::wiring::node_of;
use super::spec::{DomainSpec, GovernorSpec, TwinSpec, Work};
use crate::profile::{DriverSpec, KnobSpec, Profile};
use crate::trial::KnobId;

/// A problem: key and what is wrong.
type Problem = Option<(String, String)>;

/// The `[twin]` table of a profile, checked.
pub fn checked(profile: &Profile) -> Result<&TwinSpec, TwinError> {
    let spec =
        profile.twin.as_ref().ok_or_else(|| TwinError::NotSimulated { profile: profile.name.clone() })?;
    let problem = general(spec)
        .or_else(|| roles(spec))
        .or_else(|| profile.knobs.iter().find_map(|knob| knob_problem(spec, knob)))
        .or_else(|| stray_domain(spec, profile))
        .or_else(|| models(spec));
    match problem {
        None => Ok(spec),
        Some((key, why)) => {
            Err(TwinError::Value { profile: profile.name.clone(), key: format!("twin.{key}"), why })
        }
    }
}

fn found(key: impl Into<String>, why: impl Into<String>) -> Problem {
    Some((key.into(), why.into()))
}

fn positive(key: &str, value: f64) -> Problem {
    if value.is_finite() && value > 0.0 { None } else { found(key, format!("is {value}; must be above 0")) }
}

fn not_negative(key: &str, value: f64) -> Problem {
    if value.is_finite() && value >= 0.0 {
        None
    } else {
        found(key, format!("is {value}; must be 0 or more"))
    }
}

fn general(spec: &TwinSpec) -> Problem {
    let heat = &spec.heat;
    if !(1..=100).contains(&spec.step_ms) {
        return found("step-ms", format!("is {}; must be 1 to 100", spec.step_ms));
    }
    let battery = spec.battery.as_ref();
    positive("idle-mw", spec.idle_mw)
        .or_else(|| positive("engine.overlap", spec.engine.overlap))
        .or_else(|| not_negative("engine.sync-busy", spec.engine.sync_busy))
        .or_else(|| positive("heat.die-capacity", heat.die_capacity))
        .or_else(|| positive("heat.die-to-skin", heat.die_to_skin))
        .or_else(|| positive("heat.skin-capacity", heat.skin_capacity))
        .or_else(|| positive("heat.skin-to-ambient", heat.skin_to_ambient))
        .or_else(|| positive("heat.battery-lag-s", heat.battery_lag_s))
        .or_else(|| not_negative("noise.latency", spec.noise.latency))
        .or_else(|| not_negative("noise.power", spec.noise.power))
        .or_else(|| not_negative("noise.token", spec.noise.token))
        .or_else(|| positive("battery.capacity-mwh", battery.map_or(1.0, |b| b.capacity_mwh)))
        .or_else(|| not_negative("battery.resistance", battery.map_or(0.0, |b| b.resistance)))
        .or_else(|| positive("battery.period-ms", battery.map_or(1.0, |b| b.period_ms as f64)))
}

fn roles(spec: &TwinSpec) -> Problem {
    let engine = &spec.engine;
    let named =
        [("cpu", Some(&engine.cpu)), ("gpu", engine.gpu.as_ref()), ("memory", engine.memory.as_ref())];
    named.into_iter().find_map(|(role, knob)| {
        let knob = knob.filter(|knob| !spec.domains.contains_key(*knob))?;
        let known: Vec<&str> = spec.domains.keys().map(|KnobId(name)| name.as_str()).collect();
        found(format!("engine.{role}"), format!("names `{knob}`; [twin.domains] has: {}", known.join(", ")))
    })
}

fn knob_problem(spec: &TwinSpec, knob: &KnobSpec) -> Problem {
    let key = format!("domains.{}", knob.id);
    let Some(domain) = spec.domains.get(&knob.id) else {
        return found(key, "is missing; every knob of a simulated device needs a domain behind it");
    };
    if !matches!(knob.driver, DriverSpec::CpuQuota { .. }) {
        if let Some(why) = table_problem(domain) {
            return found(format!("{key}.table"), why);
        }
        if node_of(&knob.driver, domain).contains('*') {
            return found(
                format!("{key}.node"),
                "is missing; the driver's path is a pattern, say where it is",
            );
        }
    }
    if domain.cpus.iter().any(|&cpu| cpu > 63) {
        return found(format!("{key}.cpus"), "names a CPU above 63");
    }
    domain_problem(&key, spec, domain)
}

fn table_problem(domain: &DomainSpec) -> Option<&'static str> {
    let all: Vec<u64> = domain.table.iter().chain(&domain.boost).copied().collect();
    match all.as_slice() {
        [] => Some("is empty; give its operating points, slowest first"),
        [0, ..] => Some("begins with 0; operating points are above 0"),
        points if points.windows(2).any(|pair| pair[0] >= pair[1]) => {
            Some("must rise from one operating point to the next, boost steps above the table")
        }
        _ => None,
    }
}

fn domain_problem(key: &str, spec: &TwinSpec, domain: &DomainSpec) -> Problem {
    let power = &domain.power;
    if !(0.0..1.0).contains(&power.volt_knee) || !(0.0..=1.0).contains(&power.volt_min) {
        return found(format!("{key}.power"), "has a voltage or knee outside 0..1");
    }
    if let Some(vote) = domain.votes.iter().find(|vote| !spec.domains.contains_key(&vote.domain)) {
        return found(
            format!("{key}.votes"),
            format!("name the domain `{}`, which is not there", vote.domain),
        );
    }
    domain.governor.and_then(|governor| governor_problem(&format!("{key}.governor"), governor))
}

fn governor_problem(key: &str, governor: GovernorSpec) -> Problem {
    if governor.period_ms() == 0 {
        return found(format!("{key}.period-ms"), "is 0; must be 1 or more");
    }
    match governor {
        GovernorSpec::Schedutil { headroom, burst, half_life_ms, .. } => {
            positive(&format!("{key}.headroom"), headroom)
                .or_else(|| positive(&format!("{key}.burst"), burst))
                .or_else(|| positive(&format!("{key}.half-life-ms"), half_life_ms))
        }
        GovernorSpec::Step { up, up_ms, down, down_ms, .. } => [("up", up), ("down", down)]
            .into_iter()
            .find_map(|(name, share)| {
                let fine = (0.0..=1.0).contains(&share);
                if fine {
                    None
                } else {
                    found(format!("{key}.{name}"), format!("is {share}; must be 0 to 1"))
                }
            })
            .or_else(|| positive(&format!("{key}.up-ms"), up_ms))
            .or_else(|| positive(&format!("{key}.down-ms"), down_ms)),
        GovernorSpec::Load { target, .. } => positive(&format!("{key}.target"), target),
    }
}

fn stray_domain(spec: &TwinSpec, profile: &Profile) -> Problem {
    let stray = spec.domains.keys().find(|id| profile.knobs.iter().all(|knob| knob.id != **id))?;
    found(format!("domains.{stray}"), "has no knob of that name in the profile")
}

fn models(spec: &TwinSpec) -> Problem {
    spec.models.iter().find_map(|(name, model)| {
        let stage = |stage: &str, work: &Work| positive(&format!("models.{name}.{stage}.cpu"), work.cpu);
        stage("decode", &model.decode)
            .or_else(|| stage("prefill", &model.prefill))
            .or_else(|| {
                not_negative(&format!("models.{name}.prefill-fixed-tokens"), model.prefill_fixed_tokens)
            })
            .or_else(|| not_negative(&format!("models.{name}.prefill-growth"), model.prefill_growth))
    })
}
