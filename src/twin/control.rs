//! Commands that make a twin misbehave, one a line.

use super::domain::UNLIMITED;
use super::soc::{Load, Soc};
use std::time::Duration;

/// Something done at intervals.
#[derive(Clone, Debug)]
pub enum Deed {
    /// A foreign daemon opens the range of this driver's knob.
    Meddle(usize),
    /// A clamp comes and goes.
    Flap {
        /// The domain.
        domain: usize,
        /// The clamp.
        value: u64,
    },
}

/// A [`Deed`] and when it is done next.
#[derive(Clone, Debug)]
pub struct Daemon {
    deed: Deed,
    period: u64,
    /// When, nanoseconds since boot.
    pub next: u64,
}

impl Daemon {
    /// A daemon that first acts one period from `now`.
    pub fn new(deed: Deed, period: Duration, now: u64) -> Self {
        let period = (period.as_nanos() as u64).max(1_000_000);
        Daemon { deed, period, next: now + period }
    }

    /// Starts counting at `now`.
    pub fn restart(&mut self, now: u64) {
        self.next = now + self.period;
    }

    /// Acts, and returns the driver to meddle with, if any.
    pub fn work(&mut self, soc: &mut Soc) -> Option<usize> {
        self.next = soc.now + self.period;
        match self.deed {
            Deed::Meddle(driver) => Some(driver),
            Deed::Flap { domain, value } => {
                let clamp = &mut soc.domains[domain].outside.clamp;
                *clamp = if *clamp == UNLIMITED { value } else { UNLIMITED };
                None
            }
        }
    }
}

/// A command.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// A daemon opens this domain's range at intervals.
    Fight(usize, Duration),
    /// A clamp comes and goes.
    Flap(usize, u64, Duration),
    /// All daemons end.
    Calm,
    /// A kernel client caps the domain.
    Clamp(usize, u64),
    /// The firmware caps the domain; no node of limits shows it.
    Firmware(usize, u64),
    /// Writes to the domain's nodes succeed and do nothing, or work again.
    Deaf(usize, bool),
    /// A CPU goes offline or online.
    Online(usize, bool),
    /// A zone gives no value, or works again.
    Zone(String, bool),
    /// Die, skin and battery are at this temperature.
    Heat(f64),
    /// What runs.
    Run(Load),
    /// External power comes or goes.
    Plug(bool),
}

impl Command {
    /// What the control node shows.
    pub const HELP: &'static str = "\
fight KNOB MS | flap KNOB VALUE MS | calm | clamp KNOB VALUE | unclamp KNOB | firmware KNOB VALUE\n\
unfirmware KNOB | deaf KNOB | hear KNOB | offline CPU | online CPU | zone-fails TYPE | zone-works TYPE\n\
heat CELSIUS | load SHARE | idle | plug | unplug\n";

    /// Parses a line.
    pub fn parse(line: &str, soc: &Soc) -> Result<Command, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let knob = |name: &str| {
            let id = crate::trial::KnobId(name.into());
            soc.domain(&id).ok_or_else(|| format!("the twin has no knob `{name}`"))
        };
        Ok(match words.as_slice() {
            ["fight", name, ms] => Command::Fight(knob(name)?, millis(ms)?),
            ["flap", name, value, ms] => Command::Flap(knob(name)?, number(value)?, millis(ms)?),
            ["calm"] => Command::Calm,
            ["clamp", name, value] => Command::Clamp(knob(name)?, number(value)?),
            ["unclamp", name] => Command::Clamp(knob(name)?, UNLIMITED),
            ["firmware", name, value] => Command::Firmware(knob(name)?, number(value)?),
            ["unfirmware", name] => Command::Firmware(knob(name)?, UNLIMITED),
            ["deaf", name] => Command::Deaf(knob(name)?, true),
            ["hear", name] => Command::Deaf(knob(name)?, false),
            ["offline", cpu] => Command::Online(cpu_of(cpu, soc)?, false),
            ["online", cpu] => Command::Online(cpu_of(cpu, soc)?, true),
            ["zone-fails", kind] => Command::Zone((*kind).into(), false),
            ["zone-works", kind] => Command::Zone((*kind).into(), true),
            ["heat", celsius] => Command::Heat(real(celsius)?),
            ["load", share] => Command::Run(Load::Synthetic(real(share)?.clamp(0.0, 1.0))),
            ["idle"] => Command::Run(Load::Idle),
            ["plug"] => Command::Plug(true),
            ["unplug"] => Command::Plug(false),
            _ => return Err(format!("`{line}` is no command; commands are:\n{}", Command::HELP)),
        })
    }

    /// Carries out a command that concerns the SoC alone.
    pub fn apply(self, soc: &mut Soc) {
        match self {
            Command::Clamp(domain, value) => soc.domains[domain].outside.clamp = value,
            Command::Firmware(domain, value) => soc.domains[domain].firmware = value,
            Command::Deaf(domain, deaf) => soc.domains[domain].deaf = deaf,
            Command::Online(cpu, online) => soc.online[cpu] = online,
            Command::Zone(kind, works) => {
                soc.failing_zones.retain(|failing| *failing != kind);
                soc.failing_zones.extend(Some(kind).filter(|_| !works));
            }
            Command::Heat(celsius) => {
                let heat = &mut soc.heat;
                (heat.die, heat.skin, heat.battery) = (celsius, celsius, celsius);
            }
            Command::Run(load) => soc.set_load(load),
            Command::Plug(plugged) => {
                if let Some(battery) = &mut soc.battery {
                    battery.spec.plugged = plugged;
                }
            }
            Command::Fight(..) | Command::Flap(..) | Command::Calm => {}
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a whole number"))
}

fn millis(text: &str) -> Result<Duration, String> {
    number(text).map(Duration::from_millis)
}

fn real(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|x: &f64| x.is_finite()).ok_or_else(|| format!("`{text}` is not a number"))
}

fn cpu_of(text: &str, soc: &Soc) -> Result<usize, String> {
    let cpu = number(text)? as usize;
    if cpu < soc.online.len() { Ok(cpu) } else { Err(format!("the twin has no CPU {cpu}")) }
}
