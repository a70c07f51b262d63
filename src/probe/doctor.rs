//! What would spoil tonight's run. One small check each; all of them read only.

use super::{children, shown};
use crate::agent::fingerprint;
use crate::device::Device;
use crate::profile::{Profile, ZoneRole};
use crate::protocol::{DoctorReport, Finding, Grade};
use crate::sensor::{self, MILLIAMP_BELOW};
use crate::sysfs::{NodePath, Nodes, read_i64, read_trimmed};
use crate::trial::{EnergyKind, GateSpec, SourceInfo};
use std::path::Path;

/// Everything a check may look at.
struct Patient<'a> {
    device: &'a Device,
    profile: Option<&'a Profile>,
    state_dir: &'a Path,
}

type Check = fn(&Patient) -> Finding;

const CHECKS: &[(&str, Check)] = &[
    ("root", root),
    ("selinux", selinux),
    ("uptime", uptime),
    ("charging", charging),
    ("battery", battery),
    ("screen", screen),
    ("heat", heat),
    ("throttling", throttling),
    ("load", load),
    ("daemons", daemons),
    ("space", space),
    ("energy", energy),
    ("gauge", gauge),
    ("zones", zones),
];

/// Boot-time floors (Pixel MIF: 60 s) must have ended.
const SETTLED_UPTIME_S: f64 = 60.0;
/// Below this a phone starts to save power by itself.
const LOW_BATTERY_PERCENT: i64 = 30;
/// Runnable tasks per CPU that leave the engine its cores.
const BUSY_LOAD_PER_CPU: f64 = 0.3;
/// A night's samples are a few megabytes; the model is pushed separately and checks for itself.
const WANTED_FREE_BYTES: u64 = 200 << 20;
/// A gauge slower than this needs minutes per trial to tick ten times.
const SLOW_GAUGE_MS: f64 = 5_000.0;

/// Beginnings of the program names of daemons that are known to move clocks. Thermal daemons are not among them:
/// nobody should stop those, and what they do to a pin is told as a clamp.
const TUNERS: &[&str] = &[
    "perfd",
    "mpdecision",
    "android.hardware.power-",
    "android.hardware.power@",
    "vendor.qti.hardware.perf",
    "perf-hal-service",
    "fpsgo",
    "tuned",
    "power-profiles-daemon",
    "auto-cpufreq",
    "tlp",
    "cpufreqd",
    "irqbalance",
];

/// Runs every check. `profile` is the one the run will use, if one is known.
pub fn doctor(device: &Device, profile: Option<&Profile>, state_dir: &Path) -> DoctorReport {
    let patient = Patient { device, profile, state_dir };
    let findings =
        CHECKS.iter().map(|(name, check)| Finding { check: (*name).into(), ..check(&patient) }).collect();
    let device_print = fingerprint(device.nodes.as_ref(), device.properties.as_ref());
    DoctorReport { device: device_print, origin: device.origin, findings }
}

fn finding(grade: Grade, found: impl Into<String>, advice: &str) -> Finding {
    let advice = if grade == Grade::Fine { String::new() } else { advice.into() };
    Finding { check: String::new(), grade, found: found.into(), advice }
}

fn grade(fine: bool, otherwise: Grade) -> Grade {
    if fine { Grade::Fine } else { otherwise }
}

fn text(nodes: &dyn Nodes, path: &str) -> Option<String> {
    read_trimmed(nodes, &NodePath::new(path).ok()?).ok()
}

fn root(p: &Patient) -> Finding {
    if !p.device.outlives_agent {
        return finding(Grade::Fine, "not needed: the device is simulated in this process", "");
    }
    let uid = nix::unistd::Uid::effective();
    finding(
        grade(uid.is_root(), Grade::Stop),
        format!("the agent runs as uid {uid}"),
        "pins need root: `adb root`, or grant su to the shell",
    )
}

fn selinux(p: &Patient) -> Finding {
    match text(p.device.nodes.as_ref(), "/sys/fs/selinux/enforce").as_deref() {
        None => finding(Grade::Fine, "no SELinux", ""),
        Some("0") => finding(Grade::Fine, "permissive", ""),
        Some(_) => finding(
            Grade::Warn,
            "enforcing",
            "if pins are denied (EACCES as root), run `setenforce 0` for the night; the result's conditions carry it",
        ),
    }
}

fn uptime(p: &Patient) -> Finding {
    let seconds = text(p.device.nodes.as_ref(), "/proc/uptime")
        .and_then(|t| t.split_whitespace().next()?.parse::<f64>().ok())
        .unwrap_or_else(|| p.device.clock.now().0 as f64 / 1e9);
    let found = format!("up for {seconds:.0} s");
    finding(
        grade(seconds >= SETTLED_UPTIME_S, Grade::Warn),
        found,
        "wait until a minute after boot: memory is held at a boot floor until then",
    )
}

fn supplies(nodes: &dyn Nodes, kind: fn(&str) -> bool) -> Vec<NodePath> {
    children(nodes, "/sys/class/power_supply")
        .into_iter()
        .filter(|s| read_trimmed(nodes, &s.join("type")).is_ok_and(|t| kind(&t)))
        .collect()
}

fn charging(p: &Patient) -> Finding {
    let nodes = p.device.nodes.as_ref();
    let plugged: Vec<String> = supplies(nodes, |t| t != "Battery")
        .iter()
        .filter(|s| read_i64(nodes, &s.join("online")).is_ok_and(|v| v > 0))
        .map(|s| s.name().to_owned())
        .collect();
    let batteries = supplies(nodes, |t| t == "Battery");
    let charging = batteries.iter().any(|b| shown(nodes, &b.join("status")) == "Charging");
    let advice = "the gauge sees charge minus load while charging: suspend charging (a `suspend-charging` companion \
                  in the profile) or unplug and run with --detach";
    match (batteries.is_empty(), charging, plugged.is_empty()) {
        (true, ..) => finding(Grade::Fine, "no battery", ""),
        (_, true, _) => finding(Grade::Stop, "charging", advice),
        (_, _, false) => finding(Grade::Warn, format!("external power on {}", plugged.join(", ")), advice),
        _ => finding(Grade::Fine, "on battery", ""),
    }
}

fn battery(p: &Patient) -> Finding {
    let nodes = p.device.nodes.as_ref();
    let level =
        supplies(nodes, |t| t == "Battery").iter().find_map(|b| read_i64(nodes, &b.join("capacity")).ok());
    match level {
        None => finding(Grade::Fine, "no battery level", ""),
        Some(percent) => finding(
            grade(percent >= LOW_BATTERY_PERCENT, Grade::Warn),
            format!("{percent} %"),
            "charge first: below 30 % phones start to save power by themselves",
        ),
    }
}

fn screen(p: &Patient) -> Finding {
    let nodes = p.device.nodes.as_ref();
    let lit = children(nodes, "/sys/class/backlight")
        .into_iter()
        .filter_map(|b| read_i64(nodes, &b.join("brightness")).ok())
        .max();
    match lit {
        None => finding(Grade::Fine, "no backlight node", ""),
        Some(0) => finding(Grade::Fine, "off", ""),
        Some(level) => finding(
            Grade::Warn,
            format!("on (brightness {level})"),
            "turn it off, or fix its brightness and keep it on: some GPU drivers stall with the screen off",
        ),
    }
}

fn heat(p: &Patient) -> Finding {
    let nodes = p.device.nodes.as_ref();
    let limits = GateSpec::default();
    let mut hot = Vec::new();
    let mut read = 0;
    for zone in p.profile.map(|profile| sensor::zones(&profile.thermal, nodes).0).unwrap_or_default() {
        let Some(now) = zone.read(nodes) else { continue };
        read += 1;
        let limit = match zone.role {
            ZoneRole::Soc => limits.soc_limit_celsius,
            ZoneRole::Skin => limits.skin_limit_celsius,
            ZoneRole::Battery => limits.battery_limit_celsius,
        };
        if now >= limit {
            hot.push(format!("{} {now}", zone.kind));
        }
    }
    match (hot.is_empty(), read) {
        (true, 0) => finding(
            Grade::Warn,
            "no zone of the profile can be read",
            "name readable zones in the profile (`opptune probe` lists them): without them no run is stopped for heat",
        ),
        (true, n) => finding(Grade::Fine, format!("{n} zones below their limits"), ""),
        (false, _) => finding(Grade::Stop, hot.join(", "), "let it cool: the gate would refuse every trial"),
    }
}

fn throttling(p: &Patient) -> Finding {
    let nodes = p.device.nodes.as_ref();
    let active: Vec<String> = children(nodes, "/sys/class/thermal")
        .iter()
        .filter(|d| d.name().starts_with("cooling_device"))
        .filter(|d| read_i64(nodes, &d.join("cur_state")).is_ok_and(|v| v > 0))
        .map(|d| shown(nodes, &d.join("type")))
        .filter(|kind| kind.contains("cpufreq") || kind.contains("gpu") || kind.contains("devfreq"))
        .collect();
    finding(
        grade(active.is_empty(), Grade::Warn),
        if active.is_empty() { "no cooling device holds a clock".into() } else { active.join(", ") },
        "wait until the device has cooled: pins above these limits would be clamped",
    )
}

fn load(p: &Patient) -> Finding {
    let nodes = p.device.nodes.as_ref();
    let Some(load) = text(nodes, "/proc/loadavg").and_then(|t| t.split(' ').next()?.parse::<f64>().ok())
    else {
        return finding(Grade::Fine, "no load average", "");
    };
    let cpus = children(nodes, "/sys/devices/system/cpu").iter().filter(|c| is_cpu(c.name())).count().max(1);
    finding(
        grade(load / cpus as f64 <= BUSY_LOAD_PER_CPU, Grade::Warn),
        format!("load {load:.1} on {cpus} CPUs"),
        "stop what runs in the background (updates, sync, `stop` for the Android framework)",
    )
}

fn is_cpu(name: &str) -> bool {
    name.strip_prefix("cpu").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

fn daemons(p: &Patient) -> Finding {
    let nodes = p.device.nodes.as_ref();
    let mut running: Vec<String> = children(nodes, "/proc")
        .iter()
        .filter(|dir| dir.name().bytes().all(|b| b.is_ascii_digit()))
        .filter_map(|dir| program(nodes, dir))
        .filter(|name| TUNERS.iter().any(|tuner| name.starts_with(tuner)))
        .collect();
    running.sort();
    running.dedup();
    finding(
        grade(running.is_empty(), Grade::Warn),
        if running.is_empty() { "none of the known ones".into() } else { running.join(", ") },
        "they rewrite pins: stop them for the night, or declare a companion that does",
    )
}

/// The name of a process's program; the kernel's own threads have no command line. `comm` is cut at 15
/// characters, where all HAL services of Android are one.
fn program(nodes: &dyn Nodes, process: &NodePath) -> Option<String> {
    let line = nodes.read(&process.join("cmdline")).unwrap_or_default();
    let first = line.split(['\0', ' ', '\n']).next().unwrap_or_default();
    match first.rsplit('/').next().filter(|name| !name.is_empty()) {
        Some(name) => Some(name.to_owned()),
        None => read_trimmed(nodes, &process.join("comm")).ok(),
    }
}

fn space(p: &Patient) -> Finding {
    if !p.device.outlives_agent {
        return finding(Grade::Fine, "not needed: nothing is kept on a device simulated in this process", "");
    }
    let nearest = p.state_dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    match nix::sys::statvfs::statvfs(nearest) {
        Err(e) => finding(
            Grade::Warn,
            format!("{}: {e}", nearest.display()),
            "check the state directory (--state-dir)",
        ),
        Ok(fs) => {
            let free = fs.blocks_available() * fs.fragment_size();
            finding(
                grade(free >= WANTED_FREE_BYTES, Grade::Stop),
                format!("{} MiB free", free >> 20),
                "free at least 200 MiB where the agent keeps its state",
            )
        }
    }
}

/// The best source of the profile, opened; the notes say why others were passed over.
fn source(p: &Patient) -> Result<SourceInfo, String> {
    let profile = p.profile.ok_or("no profile; match or write one first: `opptune probe`")?;
    let (source, notes) =
        sensor::open(&profile.energy, None, p.device.nodes.as_ref(), p.device.clock.as_ref());
    source.map(|s| s.info().clone()).ok_or_else(|| notes.join("; "))
}

fn energy(p: &Patient) -> Finding {
    let advice = "give the profile a source that this device has: without one only latency is measured";
    match source(p) {
        Ok(info) if info.kind == EnergyKind::Modelled => finding(
            Grade::Warn,
            format!("{} (declared in the profile, not measured)", info.kind),
            "a device with a gauge, rails or a meter gives numbers that can be shipped",
        ),
        Ok(info) => finding(
            Grade::Fine,
            format!("{} {}, a value every {:.0} ms", info.kind, info.name, info.period_ms),
            "",
        ),
        Err(why) => finding(Grade::Stop, why, advice),
    }
}

fn gauge(p: &Patient) -> Finding {
    let nodes = p.device.nodes.as_ref();
    let Some(battery) = supplies(nodes, |t| t == "Battery").into_iter().next() else {
        return finding(Grade::Fine, "no gauge", "");
    };
    let (Ok(current), status) =
        (read_i64(nodes, &battery.join("current_now")), shown(nodes, &battery.join("status")))
    else {
        return finding(
            Grade::Warn,
            "current_now gives no number",
            "use rails or a meter: this gauge says nothing",
        );
    };
    let unit = if current.abs() < MILLIAMP_BELOW { "mA" } else { "uA" };
    let sign = match (status == "Discharging", current < 0) {
        (true, true) => "; discharging is negative here",
        (true, false) => "; discharging is positive here",
        (false, _) => "; its sign is learned once it discharges",
    };
    let found = format!("{current} {unit} by its magnitude while {status}{sign}");
    match source(p) {
        Ok(info) if info.kind == EnergyKind::Gauge && info.period_ms > SLOW_GAUGE_MS => finding(
            Grade::Warn,
            format!("{found}, a value every {:.0} s", info.period_ms / 1e3),
            "raise measure.min-window-ms to ten of these periods, or use another source",
        ),
        _ => finding(
            grade(current != 0, Grade::Warn),
            found,
            "a gauge that says 0 under load is not read by its driver; use rails or a meter",
        ),
    }
}

fn zones(p: &Patient) -> Finding {
    let Some(profile) = p.profile else { return finding(Grade::Fine, "no profile", "") };
    let (there, _) = sensor::zones(&profile.thermal, p.device.nodes.as_ref());
    let missing: Vec<&str> = profile
        .thermal
        .zones
        .keys()
        .map(String::as_str)
        .filter(|k| !there.iter().any(|z| z.kind == **k))
        .collect();
    let gate = &profile.thermal.gate_zone;
    let advice = "correct `thermal` in the profile: `opptune probe` lists the zones there are";
    if gate.is_empty() {
        finding(Grade::Warn, "the profile names no gate zone", advice)
    } else if missing.contains(&gate.as_str()) {
        finding(Grade::Stop, format!("the gate zone `{gate}` is missing"), advice)
    } else if missing.is_empty() {
        finding(Grade::Fine, format!("all {} are there", there.len()), "")
    } else {
        finding(Grade::Warn, format!("missing: {}", missing.join(", ")), advice)
    }
}
