//! Originals are saved on the device before the first write and restored whatever happens.
//!
//! The restore file is self-contained: a list of writes and checks that any later process can carry out
//! without a profile, a model or a host.

use crate::sysfs::NodePath;
use serde::{Deserialize, Serialize};

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
