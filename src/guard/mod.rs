//! Originals are saved on the device before the first write and restored whatever happens.
//!
//! The restore file is self-contained: a list of writes and checks that any later process can carry out
//! without a profile, a model or a host. Three parties restore, never two at once: the agent itself, its
//! [`restorer`] when the agent cannot, and whoever takes the device next when neither could.

mod lease;
mod lock;
mod process;
mod put_back;
pub mod restorer;
mod session;
mod store;
#[cfg(test)]
mod tests;

pub use put_back::{Place, put_back};
pub use session::{Feeder, Guard, Launch, restore_from};
pub use store::LastRestore;

use crate::protocol::FailureClass;
use crate::sysfs::{AndroidProperties, NoProperties, NodePath, Properties, RootedNodes};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where a restoring write goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// A node file.
    Node(NodePath),
    /// An Android property.
    Property(String),
    /// A cgroup of ours: its processes go to `home`, then it is removed; `write` is unused. Emptying it by its
    /// own list of processes, not by a saved process id, cannot move a stranger that was given the same id.
    Cgroup {
        /// The directory.
        dir: NodePath,
        /// Where its processes came from.
        home: NodePath,
    },
    /// A kernel wakelock of this name to drop; `write` is unused.
    Wakelock(String),
}

/// How a restored value is verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// The trimmed text reads back exactly like this.
    Text(String),
    /// The first number in the text is this one (`"current index: 3/3"`, `"848000 / 900000"`).
    FirstNumber(i64),
    /// The text contains this (`"disabled"`, `"[adaptive]"`).
    Contains(String),
    /// An intermediate write (opening a range) or a node that cannot be read back.
    Nothing,
}

/// One restoring write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreStep {
    /// Who needs it: a knob's or companion's name.
    pub owner: String,
    /// Where to.
    pub target: Target,
    /// What to write.
    pub write: String,
    /// How to verify it, once all steps of the same owner were written.
    pub check: Check,
    /// Still needed after the device was rebooted (persistent properties).
    pub survives_reboot: bool,
}

impl Check {
    /// Whether a node's trimmed text is as wanted.
    pub fn holds(&self, text: &str) -> bool {
        match self {
            Check::Text(wanted) => text.trim() == wanted,
            Check::FirstNumber(wanted) => first_number(text) == Some(*wanted),
            Check::Contains(part) => text.contains(part.as_str()),
            Check::Nothing => true,
        }
    }
}

/// The first number that is not part of a word.
fn first_number(text: &str) -> Option<i64> {
    let word_or_sign = |c: char| !c.is_alphanumeric() && c != '-' && c != '_';
    text.split(word_or_sign).find_map(|word| word.parse().ok())
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Check::Text(text) => write!(f, "`{text}`"),
            Check::FirstNumber(number) => write!(f, "{number}"),
            Check::Contains(part) => write!(f, "a text with `{part}`"),
            Check::Nothing => f.write_str("anything"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Node(path) => path.fmt(f),
            Target::Property(name) => write!(f, "property {name}"),
            Target::Cgroup { dir, .. } => dir.fmt(f),
            Target::Wakelock(name) => write!(f, "wakelock {name}"),
        }
    }
}

/// Why a device could not be taken, saved or restored.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// Somebody else measures on this device.
    #[error(
        "the device is held by `{holder}` (process {pid}); wait for it, or take it with --steal '{holder}'"
    )]
    Held {
        /// Name of the holder.
        holder: String,
        /// Its process id, 0 if unknown.
        pid: i32,
    },
    /// The device was to be stolen from somebody who does not hold it.
    #[error(
        "the device is not held by `{named}` but by `{holder}`; to take it, name that one: --steal '{holder}'"
    )]
    NotTheHolder {
        /// Who was named.
        named: String,
        /// Who holds it.
        holder: String,
    },
    /// The device was found changed and could not be put back.
    #[error(
        "the device was left changed by an earlier run and cannot be put back: {}. Remove what stands in the way \
         and run `opptune restore`, or reboot the device",
        differs.join("; ")
    )]
    Dirty {
        /// What differs, one line each.
        differs: Vec<String>,
    },
    /// The state directory cannot be used.
    #[error("cannot {doing} {}: {error}. Nothing was changed on the device", path.display())]
    State {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The restore file is there but cannot be understood.
    #[error(
        "{} cannot be understood: {why}. The device may still be pinned; restore it with the build that wrote \
         the file, or reboot it and then remove the file",
        file.display()
    )]
    Foreign {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The restorer does not start. Without it nothing may be changed.
    #[error("cannot start the restorer {}: {why}. Nothing was changed on the device", program.display())]
    Restorer {
        /// The program.
        program: PathBuf,
        /// Why.
        why: String,
    },
}

impl GuardError {
    /// How a host is to treat it.
    pub fn class(&self) -> FailureClass {
        match self {
            GuardError::Held { .. } | GuardError::Dirty { .. } => FailureClass::Gate,
            GuardError::NotTheHolder { .. } => FailureClass::Rejected,
            GuardError::State { .. } | GuardError::Foreign { .. } => FailureClass::Permanent,
            GuardError::Restorer { .. } => FailureClass::Transient,
        }
    }

    fn state(doing: &'static str, path: &Path, error: io::Error) -> Self {
        GuardError::State { doing, path: path.to_owned(), error }
    }
}

/// Longest wait for one node while restoring.
const NODE_DEADLINE: Duration = Duration::from_secs(2);

/// The machine below `root`, for processes that restore without a profile.
fn machine(root: &Path) -> (RootedNodes, Box<dyn Properties>) {
    let properties: Box<dyn Properties> = match root.join("system/bin/getprop").exists() {
        true => Box::new(AndroidProperties),
        false => Box::new(NoProperties),
    };
    (RootedNodes::new(root, NODE_DEADLINE), properties)
}
