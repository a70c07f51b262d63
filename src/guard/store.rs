//! The restore file: durable before the first write to the device, gone when nothing differs any more.

use super::{GuardError, RestoreStep};
use crate::protocol::RestoreReport;
use crate::sysfs::{NodePath, Nodes, read_trimmed};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Version of the restore file.
const VERSION: u32 = 1;

/// What the restore file holds.
#[derive(Serialize, Deserialize)]
struct Saved {
    version: u32,
    /// The boot the originals were read in; empty where the device does not tell.
    boot_id: String,
    steps: Vec<RestoreStep>,
}

/// What the restorer did last, for whoever takes the device next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastRestore {
    /// Why it restored: the link to the agent was closed, or silent for longer than the lease.
    pub why: String,
    /// What it did.
    pub report: RestoreReport,
}

/// The state directory.
#[derive(Clone, Debug)]
pub(super) struct Store {
    dir: PathBuf,
    boot_id: String,
}

impl Store {
    /// Opens the state directory of a device, makes it if need be (0700).
    pub fn open(dir: &Path, nodes: &dyn Nodes) -> Result<Self, GuardError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(|e| GuardError::state("make", dir, e))?;
        let boot_id = read_trimmed(nodes, &NodePath::fixed("/proc/sys/kernel/random/boot_id"));
        Ok(Store { dir: dir.to_owned(), boot_id: boot_id.unwrap_or_default() })
    }

    fn file(&self) -> PathBuf {
        self.dir.join("restore.json")
    }

    /// The steps that are still owed; none when the device is clean. After a reboot nodes are back by
    /// themselves and only what survives it (persistent properties) is owed.
    pub fn load(&self) -> Result<Vec<RestoreStep>, GuardError> {
        let file = self.file();
        let text = match fs::read_to_string(&file) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|e| GuardError::state("read", &file, e))?,
        };
        let foreign = |why: String| GuardError::Foreign { file: file.clone(), why };
        let saved: Saved = serde_json::from_str(&text).map_err(|e| foreign(e.to_string()))?;
        if saved.version != VERSION {
            return Err(foreign(format!("it has version {}, this build knows {VERSION}", saved.version)));
        }
        let rebooted = !saved.boot_id.is_empty() && !self.boot_id.is_empty() && saved.boot_id != self.boot_id;
        Ok(saved.steps.into_iter().filter(|step| !rebooted || step.survives_reboot).collect())
    }

    /// Writes the steps so that they survive a crash at any moment: a new file, synced, then renamed over the
    /// old one, and the directory synced.
    pub fn save(&self, steps: &[RestoreStep]) -> Result<(), GuardError> {
        let saved = Saved { version: VERSION, boot_id: self.boot_id.clone(), steps: steps.to_vec() };
        self.write("restore.json", &saved)
    }

    /// Nothing is owed any more.
    pub fn clear(&self) -> Result<(), GuardError> {
        match fs::remove_file(self.file()) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(GuardError::state("remove", &self.file(), e))
            }
            _ => self.sync_dir().map_err(|e| GuardError::state("sync", &self.dir, e)),
        }
    }

    /// Leaves word of what the restorer did.
    pub fn note(&self, last: &LastRestore) -> Result<(), GuardError> {
        self.write("last-restore.json", last)
    }

    /// What the restorer did last, if it ever had to.
    pub fn last(&self) -> Option<LastRestore> {
        serde_json::from_str(&fs::read_to_string(self.dir.join("last-restore.json")).ok()?).ok()
    }

    fn write(&self, name: &str, content: &impl Serialize) -> Result<(), GuardError> {
        let file = self.dir.join(name);
        self.replace(name, content).map_err(|e| GuardError::state("write", &file, e))
    }

    fn replace(&self, name: &str, content: &impl Serialize) -> io::Result<()> {
        let fresh = self.dir.join(format!("{name}.new"));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(&serde_json::to_vec_pretty(content).map_err(io::Error::other)?)?;
        file.sync_all()?;
        fs::rename(&fresh, self.dir.join(name))?;
        self.sync_dir()
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }
}
