//! A SoC with its board of drivers: node accesses, and time with everything that happens at intervals.

use super::control::{Command, Daemon, Deed};
use super::nodes::tree::File;
use super::nodes::wiring::Board;
use super::soc::{Job, Soc};
use super::spec::TwinSpec;
use crate::profile::Profile;
use std::time::Duration;

/// The node that takes commands to misbehave.
pub const CONTROL: &str = "/twin/control";
/// The node that says of a mounted twin that it is one.
pub const MARKER: &str = "/twin/simulated";
/// Stands for the control node among the drivers.
const CONTROL_DRIVER: usize = usize::MAX;
/// Interval of a bus monitor that writes its own floor again.
const REASSERT: Duration = Duration::from_millis(200);

/// What is behind a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A directory.
    Directory,
    /// A file with these permission bits.
    File(u16),
}

/// A simulated device.
pub struct Machine {
    /// The SoC.
    pub soc: Soc,
    board: Board,
    daemons: Vec<Daemon>,
}

impl Machine {
    /// The device of a checked profile.
    pub fn new(profile: &Profile, spec: &TwinSpec, seed: u64) -> Self {
        let mut soc = Soc::new(profile, spec, seed);
        let mut board = Board::new(profile, &mut soc);
        board.tree.add_file(CONTROL, File { driver: CONTROL_DRIVER, attr: 0, mode: 0o644 });
        board.tree.add_file(MARKER, File { driver: CONTROL_DRIVER, attr: 0, mode: 0o444 });
        let mut machine = Machine { daemons: Vec::new(), soc, board };
        for driver in machine.board.reasserting.clone() {
            machine.start(Deed::Meddle(driver), REASSERT);
        }
        machine
    }

    /// What is behind a path.
    pub fn entry(&self, path: &str) -> Option<Entry> {
        match self.board.tree.file(path) {
            Some(file) => Some(Entry::File(file.mode)),
            None => self.board.tree.entries(path).map(|_| Entry::Directory),
        }
    }

    /// The entries of a directory.
    pub fn list(&self, path: &str) -> Result<Vec<String>, i32> {
        let entries = self.board.tree.entries(path);
        entries.map(|names| names.iter().cloned().collect()).ok_or(libc::ENOENT)
    }

    fn file(&self, path: &str, wanted: u16) -> Result<File, i32> {
        let file = self.board.tree.file(path).ok_or_else(|| match self.board.tree.entries(path) {
            Some(_) => libc::EISDIR,
            None => libc::ENOENT,
        })?;
        if file.mode & wanted == 0 { Err(libc::EACCES) } else { Ok(file) }
    }

    /// Reads a node.
    pub fn read(&self, path: &str) -> Result<String, i32> {
        let file = self.file(path, 0o444)?;
        match self.board.drivers.get(file.driver).and_then(Option::as_ref) {
            Some(driver) => driver.show(file.attr, &self.soc),
            None => Ok(Command::HELP.into()),
        }
    }

    /// Writes a node: the text as the driver gets it, newline included.
    pub fn write(&mut self, path: &str, text: &str) -> Result<(), i32> {
        let file = self.file(path, 0o222)?;
        if file.driver == CONTROL_DRIVER {
            return text.lines().try_for_each(|line| self.control(line).map_err(|_| libc::EINVAL));
        }
        let driver = self.board.drivers.get_mut(file.driver).and_then(Option::as_mut).ok_or(libc::ENODEV)?;
        let deaf = driver.range(&self.soc).is_some_and(|(domain, _)| self.soc.domains[domain].deaf);
        if !deaf {
            driver.store(file.attr, &mut self.soc, text)?;
            self.board.range_all(&mut self.soc);
        }
        Ok(())
    }

    /// Makes a directory; only cgroups can be made.
    pub fn make_dir(&mut self, path: &str) -> Result<(), i32> {
        match self.entry(path) {
            Some(_) => Err(libc::EEXIST),
            None => self.board.make_cgroup(path, &self.soc),
        }
    }

    /// Removes a directory; only cgroups can be removed.
    pub fn remove_dir(&mut self, path: &str) -> Result<(), i32> {
        match self.entry(path) {
            Some(Entry::Directory) => {
                self.board.remove_cgroup(path, &self.soc)?;
                self.board.range_all(&mut self.soc);
                Ok(())
            }
            Some(Entry::File(_)) => Err(libc::ENOTDIR),
            None => Err(libc::ENOENT),
        }
    }

    /// Carries out a command to misbehave.
    ///
    /// # Errors
    /// What is wrong with the command.
    pub fn control(&mut self, line: &str) -> Result<(), String> {
        let command = Command::parse(line, &self.soc)?;
        match command {
            Command::Fight(domain, period) => {
                let knob = self.soc.domains[domain].id.clone();
                let driver = *self.board.of_knob.get(&knob).ok_or("this knob has no driver to fight")?;
                self.start(Deed::Meddle(driver), period);
            }
            Command::Flap(domain, value, period) => self.start(Deed::Flap { domain, value }, period),
            Command::Calm => self.daemons.clear(),
            simple => simple.apply(&mut self.soc),
        }
        self.board.range_all(&mut self.soc);
        Ok(())
    }

    fn start(&mut self, deed: Deed, period: Duration) {
        self.daemons.push(Daemon::new(deed, period, self.soc.now));
    }

    /// Begins a trial: reseeds the noise, and rests unless heat is to carry over.
    pub fn begin_trial(&mut self, seed: u64) {
        self.soc.noise.begin(seed);
        if self.soc.spec.rest_between_trials {
            self.soc.rest();
            let now = self.soc.now;
            self.daemons.iter_mut().for_each(|daemon| daemon.restart(now));
        }
    }

    /// Lets time pass until `until`, or until `job` is done.
    pub fn advance(&mut self, until: u64, mut job: Option<&mut Job>) {
        loop {
            let due = self.daemons.iter().map(|daemon| daemon.next).min().unwrap_or(u64::MAX);
            self.soc.advance(until.min(due), job.as_deref_mut());
            self.work_daemons();
            if self.soc.now >= until || job.as_ref().is_some_and(|job| job.left <= 0.0) {
                return;
            }
        }
    }

    fn work_daemons(&mut self) {
        let now = self.soc.now;
        for daemon in self.daemons.iter_mut().filter(|daemon| daemon.next <= now) {
            let meddled = daemon.work(&mut self.soc);
            if let Some(driver) = meddled.and_then(|driver| self.board.drivers.get_mut(driver)?.as_mut()) {
                driver.meddle(&self.soc);
            }
            self.board.range_all(&mut self.soc);
        }
    }
}
