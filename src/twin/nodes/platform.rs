//! Nodes of the machine as a whole: CPUs, boost, wakelocks, cpusets, uptime, the external meter.

use super::{Attr, Driver, Family, Shown, Stored, line, ro, rw, whole};
use crate::twin::soc::Soc;

/// `/sys/devices/system/cpu/cpuN/online`. cpu0 has none.
pub struct CpuOnline {
    /// The CPU.
    pub cpu: usize,
}

impl Family for CpuOnline {
    fn table(&self) -> &'static [Attr<Self>] {
        const ATTRS: &[Attr<CpuOnline>] = &[rw(
            "online",
            |c, soc| line(u8::from(soc.online[c.cpu])),
            |c, soc, text| {
                soc.online[c.cpu] = match whole::<u8>(text)? {
                    0 => false,
                    1 => true,
                    _ => return Err(libc::EINVAL),
                };
                Ok(())
            },
        )];
        ATTRS
    }
}

/// `/sys/devices/system/cpu/{present,possible,online}`, `/proc/uptime`.
pub struct Machine;

impl Family for Machine {
    fn table(&self) -> &'static [Attr<Self>] {
        const ATTRS: &[Attr<Machine>] = &[
            ro("sys/devices/system/cpu/present", |_, soc| all(soc)),
            ro("sys/devices/system/cpu/possible", |_, soc| all(soc)),
            ro("sys/devices/system/cpu/online", |_, soc| line(ranges(&soc.online))),
            ro("proc/uptime", |_, soc| {
                let seconds = soc.now as f64 / 1e9;
                line(format_args!("{seconds:.2} {:.2}", seconds * 0.9 * soc.online.len() as f64))
            }),
        ];
        ATTRS
    }
}

fn all(soc: &Soc) -> Shown {
    line(format_args!("0-{}", soc.online.len() - 1))
}

/// CPUs as a list of ranges: `0-3,6`.
fn ranges(online: &[bool]) -> String {
    let mut parts = Vec::new();
    let mut cpu = 0;
    while cpu < online.len() {
        let first = cpu;
        while cpu < online.len() && online[cpu] {
            cpu += 1;
        }
        match cpu - first {
            0 => cpu += 1,
            1 => parts.push(first.to_string()),
            _ => parts.push(format!("{first}-{}", cpu - 1)),
        }
    }
    parts.join(",")
}

/// `/sys/devices/system/cpu/cpufreq/boost`.
pub struct Boost;

impl Family for Boost {
    fn table(&self) -> &'static [Attr<Self>] {
        const ATTRS: &[Attr<Boost>] = &[rw(
            "boost",
            |_, soc| line(u8::from(soc.boost)),
            |_, soc, text| {
                let boost = match whole::<u8>(text)? {
                    0 => false,
                    1 => true,
                    _ => return Err(libc::EINVAL),
                };
                soc.boost_flips += u64::from(boost != soc.boost);
                soc.boost = boost;
                Ok(())
            },
        )];
        ATTRS
    }
}

/// `/sys/power/{wake_lock,wake_unlock}`: names held.
#[derive(Default)]
pub struct Wakelocks(Vec<String>);

impl Family for Wakelocks {
    fn table(&self) -> &'static [Attr<Self>] {
        const ATTRS: &[Attr<Wakelocks>] = &[
            rw(
                "wake_lock",
                |w, _| line(w.0.join(" ")),
                |w, _, text| {
                    let name = name(text)?;
                    if !w.0.contains(&name) {
                        w.0.push(name);
                    }
                    Ok(())
                },
            ),
            rw(
                "wake_unlock",
                |_, _| line(""),
                |w, _, text| {
                    let name = name(text)?;
                    let before = w.0.len();
                    w.0.retain(|held| *held != name);
                    if w.0.len() == before { Err(libc::EINVAL) } else { Ok(()) }
                },
            ),
        ];
        ATTRS
    }
}

fn name(text: &str) -> Result<String, i32> {
    let word = text.split_whitespace().next().ok_or(libc::EINVAL)?;
    Ok(word.to_owned())
}

/// Cpusets: which tasks are in which. Writing a task to one takes it out of the others.
pub struct Cpusets {
    names: Vec<&'static str>,
    members: Vec<Vec<u32>>,
}

impl Cpusets {
    /// The sets of an Android device. New tasks start in the restricted one.
    pub fn new() -> Self {
        let names = vec!["", "top-app/", "foreground/", "background/"];
        Cpusets { members: vec![Vec::new(); names.len()], names }
    }
}

const CPUSET_FILES: [&str; 3] = ["tasks", "cgroup.procs", "cpus"];

impl Driver for Cpusets {
    fn attrs(&self) -> Vec<(String, u16)> {
        let files = |set: &&'static str| CPUSET_FILES.map(|file| (format!("{set}{file}"), 0o644));
        self.names.iter().flat_map(files).collect()
    }

    fn show(&self, attr: usize, soc: &Soc) -> Shown {
        let (set, file) = (attr / CPUSET_FILES.len(), attr % CPUSET_FILES.len());
        match CPUSET_FILES[file] {
            "cpus" if self.names[set] == "background/" => line("0-1"),
            "cpus" => all(soc),
            _ => Ok(self.members[set].iter().map(|task| format!("{task}\n")).collect()),
        }
    }

    fn store(&mut self, attr: usize, _soc: &mut Soc, text: &str) -> Stored {
        let (set, file) = (attr / CPUSET_FILES.len(), attr % CPUSET_FILES.len());
        if CPUSET_FILES[file] == "cpus" {
            return Ok(());
        }
        let task: u32 = whole(text)?;
        self.members.iter_mut().for_each(|members| members.retain(|&member| member != task));
        self.members[set].push(task);
        Ok(())
    }
}

/// An external meter's cumulative counter.
pub struct Meter {
    /// Its path without the leading slash.
    pub path: String,
}

impl Driver for Meter {
    fn attrs(&self) -> Vec<(String, u16)> {
        vec![(self.path.clone(), 0o444)]
    }

    fn show(&self, _attr: usize, soc: &Soc) -> Shown {
        line(soc.energy_uj.round() as u64)
    }

    fn store(&mut self, _attr: usize, _soc: &mut Soc, _text: &str) -> Stored {
        Err(libc::EACCES)
    }
}
