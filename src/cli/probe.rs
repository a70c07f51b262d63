//! `opptune probe` and `opptune check-pins`: what a device has, and which of its operating points hold.

use super::target::Target;
use super::{CliError, Exit, block_on, error::say_restored, text};
use crate::profile::{self, builtin_names};
use crate::protocol::{
    FoundKnob, Opened, PinCheck, PinRow, ProbeReport, ProfileFit, RestoreReport, ToAgent, ToHost,
};
use crate::trial::Origin;
use crate::units::{Opp, OppUnit};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Look at a device: knobs, tables, energy sources, zones, companions
///
/// Reads only; nothing is changed. With --check-pins it then walks every operating point of every knob of the
/// profile, says which hold, and puts everything back.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  opptune probe --device adb\n  opptune probe --device ssh:root@board --json > board.json"
)]
pub struct Args {
    /// Also pin every operating point of every knob once (changes the device for a while)
    #[arg(long)]
    check_pins: bool,
    /// Write a first profile of the device to FILE, to be read by a person before it is used
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// Pin every operating point of every knob once, and say which hold
///
/// Needs a profile: the one that matches the device, or --profile. Everything is put back afterwards.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  opptune check-pins --device adb --profile pixel-7")]
pub struct CheckArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

impl Args {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let report = block_on(probe(&self.target))?;
        if !self.json {
            print_probe(&report);
        }
        if let Some(file) = &self.write {
            write_draft(&report, file)?;
        }
        match (self.check_pins, self.json) {
            (false, false) => Ok(Exit::Done),
            (false, true) => print_json(&report).map(|()| Exit::Done),
            (true, json) => {
                let checked = check(&self.to_check(&report))?;
                if json {
                    print_json(&serde_json::json!({ "probe": report, "check-pins": checked }))?;
                } else {
                    checked.print();
                }
                checked.exit(json)
            }
        }
    }

    /// A device that no profile is for is checked with the one just drafted of it.
    fn to_check(&self, report: &ProbeReport) -> Target {
        let drafted = self.write.as_ref().filter(|_| report.profile.is_none());
        let profile = drafted.map(|file| file.display().to_string());
        Target { profile: self.target.profile.clone().or(profile), ..self.target.clone() }
    }
}

impl CheckArgs {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let checked = check(&self.target)?;
        if self.json {
            print_json(&checked)?;
        } else {
            checked.print();
        }
        checked.exit(self.json)
    }
}

/// Every operating point, tried.
#[derive(serde::Serialize)]
struct Checked {
    profile: String,
    origin: Origin,
    /// What the agent noted when it took the device.
    notes: Vec<String>,
    knobs: Vec<PinCheck>,
    restored: RestoreReport,
}

impl Checked {
    fn print(&self) {
        println!("\nPins of {} ({}), each tried alone", self.profile, self.origin);
        self.notes.iter().for_each(|note| println!("note: {note}"));
        self.knobs.iter().for_each(print_check);
    }

    fn exit(&self, quiet: bool) -> Result<Exit, CliError> {
        match (quiet, self.restored.complete()) {
            (true, true) => Ok(Exit::Done),
            _ => say_restored(&self.restored),
        }
    }
}

/// Refuses to overwrite: the file may hold what a person corrected.
fn write_draft(report: &ProbeReport, file: &Path) -> Result<(), CliError> {
    let doing = || format!("write the profile {}", file.display());
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let text = toml::to_string_pretty(&profile::draft(report, &name))
        .map_err(|e| CliError::Io { doing: doing(), error: std::io::Error::other(e) })?;
    let fresh = std::fs::OpenOptions::new().write(true).create_new(true).open(file);
    fresh
        .and_then(|mut out| out.write_all(text.as_bytes()))
        .map_err(|error| CliError::Io { doing: doing(), error })?;
    eprintln!("wrote {0}: read it, then try it with `opptune check-pins --profile {0}`", file.display());
    Ok(())
}

async fn probe(target: &Target) -> Result<ProbeReport, CliError> {
    let (mut session, profile) = target.look().await?;
    let report = match session.ask(ToAgent::Probe { profile }).await? {
        ToHost::Probed(report) => *report,
        other => return Err(session.odd(format!("the agent answered a probe with {other:?}"))),
    };
    session.bye().await?;
    Ok(report)
}

fn check(target: &Target) -> Result<Checked, CliError> {
    block_on(async {
        let (mut session, profile, Opened { origin, notes, .. }) = target.open().await?;
        let (knobs, restored) = match session.ask(ToAgent::CheckPins).await? {
            ToHost::PinsChecked { knobs, restored } => (knobs, restored),
            other => return Err(session.odd(format!("the agent answered a check of pins with {other:?}"))),
        };
        let bye = session.bye().await?;
        let differs = [restored.differs, bye.differs].concat();
        let restored = RestoreReport { differs, ..bye };
        Ok(Checked { profile: profile.name, origin, notes, knobs, restored })
    })
}

pub(super) fn print_json(value: &impl serde::Serialize) -> Result<(), CliError> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|e| CliError::Io { doing: "write JSON".into(), error: e.into() })?;
    println!("{text}");
    Ok(())
}

fn print_probe(report: &ProbeReport) {
    let (device, name) = (&report.device, text::device(&report.device));
    let soc = if device.soc.is_empty() { "SoC not told" } else { &device.soc };
    println!("{name} ({}), {soc}, kernel {}, {}", report.origin, device.kernel, device.arch);
    let knobs = report.knobs.iter().map(knob_row);
    text::section("Knobs", &["family", "role", "operating points", "now", "note"], knobs);
    let sources = report.energy.iter().map(|s| vec![s.kind.clone(), s.name.clone(), s.reading.clone()]);
    text::section("Energy sources", &["kind", "name", "now"], sources);
    let zones = report.zones.iter().map(|z| {
        let role = z.role.map_or("-".into(), |r| format!("{r:?}").to_lowercase());
        vec![z.kind.clone(), role, z.now.map_or("no value".into(), |t| t.to_string())]
    });
    text::section("Thermal zones", &["type", "near", "now"], zones);
    let companions = report.companions.iter().map(|c| {
        let value = if c.value.is_empty() { "(empty)".into() } else { c.value.clone() };
        vec![c.id.clone(), c.node.clone(), value]
    });
    text::section("What a profile can put out of a pin's way", &["companion", "node", "now"], companions);
    print_profiles(report);
}

fn print_profiles(report: &ProbeReport) {
    match &report.profile {
        Some(ProfileFit { name, differs }) if differs.is_empty() => {
            println!("\nProfile {name}: all its knobs and zones are there, its tables are the device's");
        }
        Some(ProfileFit { name, differs }) => {
            println!("\nProfile {name}: where this device differs (what the device lists wins)");
            differs.iter().for_each(|line| println!("  {line}"));
        }
        None => println!(
            "\nNo built-in profile is for this device (there are: {}). `opptune probe \
             --write FILE.toml` makes a first one of what was found",
            builtin_names().join(", ")
        ),
    }
}

fn knob_row(knob: &FoundKnob) -> Vec<String> {
    let unit = knob.info.as_ref().map_or(OppUnit::KiloHertz, |info| info.unit);
    let range = |opps: &[Opp]| match opps {
        [] => "none listed".to_owned(),
        [one] => one.show(unit),
        [low, .., high] => format!("{}: {} to {}", opps.len(), low.show(unit), high.show(unit)),
    };
    let (family, opps) = match &knob.info {
        Some(info) => (format!("{} ({})", info.id, info.family), range(&info.opps)),
        None => (format!("{:?}", knob.driver), "unreadable".into()),
    };
    // A limit at the top of the table limits nothing.
    let top = knob.info.as_ref().and_then(|info| info.opps.last().copied());
    let limits = knob.limits.iter().filter_map(|limit| {
        let max = limit.max.filter(|max| top.is_none_or(|top| *max < top))?;
        Some(format!("held to {} by {}", max.show(unit), limit.source))
    });
    let note = knob.problem.clone().unwrap_or_else(|| limits.collect::<Vec<_>>().join(", "));
    let now = knob.clock.map_or("-".into(), |clock| clock.show(unit));
    vec![family, format!("{:?}", knob.role).to_lowercase(), opps, now, note]
}

fn print_check(check: &PinCheck) {
    let show = |opp: Option<Opp>| opp.map_or("-".into(), |o| o.show(check.unit));
    let row = |row: &PinRow| {
        let rate = row.work_rate.map_or("-".into(), |rate| format!("{rate:.2}"));
        let held = row.problem.clone().unwrap_or_else(|| "held".into());
        vec![row.opp.show(check.unit), show(row.accepted), show(row.clock), rate, held]
    };
    let rows = check.rows.iter().map(row);
    println!(
        "{}\n{}",
        check.knob,
        text::table(["asked", "accepted", "seen", "work per clock", "outcome"], rows)
    );
    if let Some(note) = &check.work_rate_note {
        println!("work rate: {note}");
    }
    println!();
}
