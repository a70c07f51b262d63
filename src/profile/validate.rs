//! What a profile must satisfy beyond its schema. Each check gives the key and one sentence on what to do.

use super::{
    Accuracy, Axis, CompanionAction, CompanionSpec, DriverSpec, KnobSpec, Profile, Role, SCHEMA, Use,
};
use crate::sysfs::NodePath;
use crate::trial::KnobId;
use std::collections::BTreeSet;

/// A key and what is wrong with it.
pub(super) type Problem = (String, String);

/// The first thing in the profile that makes no sense.
pub(super) fn problem(profile: &Profile) -> Option<Problem> {
    header(profile)
        .or_else(|| profile.knobs.iter().enumerate().find_map(|(i, k)| knob(&profile.knobs[..i], k)))
        .or_else(|| axes(profile))
        .or_else(|| profile.knobs.iter().find_map(|k| placed(profile, k)))
        .or_else(|| thermal(profile))
        .or_else(|| profile.companions.iter().enumerate().find_map(|(i, c)| companion(profile, i, c)))
}

fn unless(fine: bool, key: impl Into<String>, why: impl Into<String>) -> Option<Problem> {
    (!fine).then(|| (key.into(), why.into()))
}

fn header(p: &Profile) -> Option<Problem> {
    unless(p.schema == SCHEMA, "schema", format!("is {}, this build reads {SCHEMA}", p.schema))
        .or_else(|| unless(is_plain(&p.name), "name", "must be letters, digits, `-`, `_`, `.` and `/`"))
        .or_else(|| {
            unless(
                !p.provenance.is_empty(),
                "provenance",
                "is empty; say where each node and table comes from, one source a line",
            )
        })
        .or_else(|| match (&p.twin, p.accuracy) {
            (Some(_), Accuracy::Twin) => None,
            (None, Accuracy::Twin) => {
                Some(("accuracy".into(), "is `twin`, but there is no [twin] section; add it".into()))
            }
            (Some(_), _) => {
                Some(("twin".into(), "describes a simulated device; set accuracy = \"twin\"".into()))
            }
            (None, _) => None,
        })
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
}

fn knob(before: &[KnobSpec], knob: &KnobSpec) -> Option<Problem> {
    let key = |part: &str| format!("knob[{}].{part}", knob.id);
    unless(is_plain(&knob.id.0), key("id"), "must be letters, digits, `-`, `_` and `.`")
        .or_else(|| {
            let twice = before.iter().any(|other| other.id == knob.id);
            unless(!twice, key("id"), "is used twice; give every knob its own name")
        })
        .or_else(|| driver(&knob.driver).map(|(part, why)| (key(&format!("driver.{part}")), why)))
}

fn driver(driver: &DriverSpec) -> Option<Problem> {
    use DriverSpec::*;
    match driver {
        Cpufreq { .. } => None,
        PixelMali { node }
        | Kgsl { node }
        | GpufreqV1 { node }
        | GpufreqV2 { node }
        | Gpex { node }
        | Devfreq { node, .. }
        | Mif { node }
        | BusDcvs { node } => glob(node).map(|why| ("node".into(), why)),
        CpuQuota { levels, period_us } => {
            let rising = levels.windows(2).all(|pair| pair[0] < pair[1]);
            let positive = levels.first().is_some_and(|level| level.0 > 0);
            // Bounds of the kernel's CFS bandwidth controller.
            let kernel_takes = (1_000..=1_000_000).contains(period_us);
            unless(
                rising && positive,
                "cpu-quota.levels",
                "must be thousandths of a CPU above 0, slowest first",
            )
            .or_else(|| {
                unless(
                    kernel_takes,
                    "cpu-quota.period-us",
                    "must be 1000 to 1000000; the kernel takes no other",
                )
            })
        }
    }
}

/// A node path may hold `*` inside one part, never `**`.
fn glob(path: &str) -> Option<String> {
    match NodePath::new(path) {
        Err(why) => Some(format!("is wrong: {why}")),
        Ok(_) if path.contains("**") => {
            Some(format!("is `{path}`; `*` stands for one part of a path, write one per directory"))
        }
        Ok(_) => None,
    }
}

fn axes(p: &Profile) -> Option<Problem> {
    let none = p.axes.gpu.is_none() && p.axes.cpu.is_none();
    unless(!none, "axes", "names no lead; give axes.gpu, axes.cpu or both, or there is nothing to search")
        .or_else(|| axis(p, "axes.gpu", p.axes.gpu.as_ref(), Role::Gpu))
        .or_else(|| axis(p, "axes.cpu", p.axes.cpu.as_ref(), Role::Cpu))
        .or_else(|| {
            let mut seen = BTreeSet::new();
            let twice = members(p).find(|id| !seen.insert(*id))?;
            Some(("axes".into(), format!("moves knob `{twice}` twice; a knob leads or follows once")))
        })
}

fn members(p: &Profile) -> impl Iterator<Item = &KnobId> {
    let axes = p.axes.gpu.iter().chain(&p.axes.cpu);
    axes.flat_map(|axis| std::iter::once(&axis.lead).chain(axis.follow.keys()))
}

fn axis(p: &Profile, key: &str, axis: Option<&Axis>, role: Role) -> Option<Problem> {
    let axis = axis?;
    let lead = member(p, &format!("{key}.lead"), &axis.lead, &[role]);
    lead.or_else(|| {
        let follow = format!("{key}.follow");
        axis.follow.keys().find_map(|id| member(p, &follow, id, &[role, Role::Memory]))
    })
}

/// An axis may move knobs of its own role; memory may follow either.
fn member(p: &Profile, key: &str, id: &KnobId, roles: &[Role]) -> Option<Problem> {
    let Some(knob) = p.knobs.iter().find(|k| k.id == *id) else {
        let known: Vec<_> = p.knobs.iter().map(|k| k.id.0.as_str()).collect();
        let why = format!("names `{id}`, which is no knob of this profile; there are: {}", known.join(", "));
        return Some((key.into(), why));
    };
    let role = knob.role;
    let wanted = roles.iter().map(|role| word(*role)).collect::<Vec<_>>().join(" or ");
    let why = format!("names `{id}`, whose role is {}; expected {wanted}", word(role));
    unless(roles.contains(&role), key, why).or_else(|| {
        let why = format!(
            "names `{id}`, which is not searched; remove `use` from that knob or the knob from the axis"
        );
        unless(knob.usage == Use::Search, key, why)
    })
}

/// A role as profiles write it.
fn word(role: Role) -> &'static str {
    match role {
        Role::Cpu => "cpu",
        Role::Gpu => "gpu",
        Role::Memory => "memory",
    }
}

/// No knob is left undecided: clusters are coupled in hardware, so a free policy moves a pinned one.
fn placed(p: &Profile, knob: &KnobSpec) -> Option<Problem> {
    let decided = knob.usage != Use::Search || members(p).any(|id| *id == knob.id);
    let why = "is `search`, but no axis moves this knob; let it follow an axis, or say `use = \"record\"` or \
               `use = { pin = ... }`";
    unless(decided, format!("knob[{}].use", knob.id), why)
}

fn thermal(p: &Profile) -> Option<Problem> {
    let gate = &p.thermal.gate_zone;
    let known = gate.is_empty() || p.thermal.zones.contains_key(gate);
    let why = format!("is `{gate}`, which is not among thermal.zones; add it there with its role");
    unless(known, "thermal.gate-zone", why)
}

fn companion(p: &Profile, index: usize, c: &CompanionSpec) -> Option<Problem> {
    let key = |part: &str| format!("companion[{}].{part}", c.id);
    let twice = p.companions[..index].iter().any(|other| other.id == c.id);
    let flagged = c.thermal || !touches_heat(&c.action);
    unless(is_plain(&c.id), key("id"), "must be letters, digits, `-`, `_` and `.`")
        .or_else(|| unless(!twice, key("id"), "is used twice; give every companion its own name"))
        .or_else(|| node_of(&c.action).and_then(glob).map(|why| (key("action.path"), why)))
        .or_else(|| unless(flagged, key("thermal"), "is not set, but the action alters thermal control; set it to true"))
        .or_else(|| {
            let why = "alters thermal control; leave the companion out, or set accept-thermal-risk = true at the top \
                       of the profile: every result will then carry the fact";
            unless(!c.thermal || p.accept_thermal_risk, key("thermal"), why)
        })
}

fn node_of(action: &CompanionAction) -> Option<&str> {
    match action {
        CompanionAction::Node { path, .. }
        | CompanionAction::MsmPerformance { path, .. }
        | CompanionAction::SuspendCharging { path, .. } => Some(path),
        _ => None,
    }
}

/// Whether an action is known to alter thermal control, whatever the profile says of it.
fn touches_heat(action: &CompanionAction) -> bool {
    match action {
        CompanionAction::Property { name, restart, .. } => {
            name.contains("thermal") || restart.as_deref().is_some_and(|s| s.contains("thermal"))
        }
        other => {
            node_of(other).is_some_and(|path| path.contains("/thermal") || path.contains("cooling_device"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::load::parse;
    use std::path::Path;

    const GOOD: &str = r#"
schema = 1
name = "board"
title = "A board"
accuracy = "from-sources"
provenance = ["its device tree"]

[[knob]]
id = "cpu"
role = "cpu"
driver = { cpufreq = { policy = 0 } }

[[knob]]
id = "gpu"
role = "gpu"
driver = { devfreq = { node = "/sys/class/devfreq/*.gpu" } }

[axes.gpu]
lead = "gpu"

[axes.cpu]
lead = "cpu"

[thermal]
gate-zone = "soc"
zones = { soc = "soc" }

[[companion]]
id = "hal"
action = { property = { name = "vendor.hal", value = "0" } }
"#;

    fn answer(from: &str, to: &str) -> String {
        assert!(GOOD.contains(from), "the test edits text that is not there: {from}");
        parse(&GOOD.replacen(from, to, 1), Path::new("p.toml"))
            .map_or_else(|e| e.to_string(), |_| "fine".into())
    }

    #[test]
    fn each_mistake_is_named_by_its_key() {
        assert_eq!(answer("a", "a"), "fine");
        for (from, to, key) in [
            ("schema = 1", "schema = 7", "`schema` is 7"),
            ("name = \"board\"", "name = \"a board\"", "`name`"),
            ("[\"its device tree\"]", "[]", "`provenance`"),
            ("\"from-sources\"", "\"twin\"", "`accuracy` is `twin`"),
            ("id = \"gpu\"", "id = \"cpu\"", "`knob[cpu].id` is used twice"),
            ("/sys/class/devfreq/*.gpu", "sys/gpu", "`knob[gpu].driver.node`"),
            ("/sys/class/devfreq/*.gpu", "/sys/**/gpu", "`knob[gpu].driver.node`"),
            ("lead = \"gpu\"", "lead = \"npu\"", "`axes.gpu.lead` names `npu`"),
            ("lead = \"gpu\"", "lead = \"cpu\"", "`axes.gpu.lead` names `cpu`, whose role"),
            ("[axes.cpu]\nlead = \"cpu\"", "", "`knob[cpu].use` is `search`"),
            ("lead = \"cpu\"", "lead = \"cpu\"\nfollow = { dsu = \"max\" }", "`axes.cpu.follow` names `dsu`"),
            ("lead = \"cpu\"", "lead = \"cpu\"\nfollow = { cpu = \"max\" }", "`axes` moves knob `cpu` twice"),
            (
                "role = \"cpu\"",
                "role = \"cpu\"\nuse = \"record\"",
                "`axes.cpu.lead` names `cpu`, which is not searched",
            ),
            ("gate-zone = \"soc\"", "gate-zone = \"skin\"", "`thermal.gate-zone`"),
            ("vendor.hal", "persist.vendor.disable.thermal.control", "`companion[hal].thermal` is not set"),
            ("id = \"hal\"", "id = \"hal\"\nthermal = true", "accept-thermal-risk"),
            (
                "{ cpufreq = { policy = 0 } }",
                "{ cpu-quota = { levels = [500, 250] } }",
                "`knob[cpu].driver.cpu-quota.levels`",
            ),
        ] {
            let text = answer(from, to);
            assert!(text.contains("p.toml") && text.contains(key), "{from} -> {to}: {text}");
        }
    }
}
