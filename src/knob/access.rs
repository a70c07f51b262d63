//! Node access in the words of a knob: every failure becomes a [`KnobError`] of the right kind.

use super::KnobError;
use crate::guard::{Check, RestoreStep, Target};
use crate::sysfs::{NodeError, NodeFault, NodePath, Nodes, find_one};
use crate::trial::KnobId;

/// The nodes of a device, as one knob uses them.
#[derive(Clone, Copy)]
pub(super) struct Access<'a> {
    pub id: &'a KnobId,
    pub nodes: &'a dyn Nodes,
}

impl<'a> Access<'a> {
    pub fn new(id: &'a KnobId, nodes: &'a dyn Nodes) -> Self {
        Access { id, nodes }
    }

    /// The one directory a profile's node path names.
    pub fn dir(&self, pattern: &str) -> Result<NodePath, KnobError> {
        find_one(self.nodes, pattern).map_err(|e| self.failed(e))
    }

    /// The trimmed text of a node.
    pub fn text(&self, path: &NodePath) -> Result<String, KnobError> {
        crate::sysfs::read_trimmed(self.nodes, path).map_err(|e| self.failed(e))
    }

    /// The trimmed text of a node that need not be there; empty if it is not, or says nothing now.
    pub fn optional(&self, path: &NodePath) -> String {
        crate::sysfs::read_trimmed(self.nodes, path).unwrap_or_default()
    }

    /// The number a node holds.
    pub fn number(&self, path: &NodePath) -> Result<u64, KnobError> {
        let text = self.nodes.read(path).map_err(|e| self.failed(e))?;
        text.trim().parse().map_err(|_| self.unreadable(path, text.trim(), "a number"))
    }

    /// The number of a node that need not be there; zero counts as no answer, as drivers mean it.
    pub fn positive(&self, path: &NodePath) -> Option<u64> {
        self.nodes.read(path).ok()?.trim().parse().ok().filter(|&value| value > 0)
    }

    /// Writes one value on the way to `asked`.
    pub fn write(&self, path: &NodePath, text: &str, asked: &str) -> Result<(), KnobError> {
        self.nodes.write(path, text).map_err(|e| self.write_failed(e, asked))
    }

    /// What a failed write on the way to `asked` means.
    pub fn write_failed(&self, error: NodeError, asked: &str) -> KnobError {
        match error.fault {
            NodeFault::Invalid => self.rejected(asked, error.to_string()),
            NodeFault::Busy => self.gone(error.to_string()),
            _ => self.failed(error),
        }
    }

    /// The driver refuses `asked`.
    pub fn rejected(&self, asked: &str, why: impl Into<String>) -> KnobError {
        KnobError::Rejected { knob: self.id.clone(), asked: asked.into(), why: why.into() }
    }

    /// The domain is not there now.
    pub fn gone(&self, why: impl Into<String>) -> KnobError {
        KnobError::Unavailable { knob: self.id.clone(), why: why.into() }
    }

    /// A node says something this family does not print.
    pub fn unreadable(&self, node: &NodePath, text: &str, expected: &str) -> KnobError {
        KnobError::Unreadable {
            knob: self.id.clone(),
            node: node.clone(),
            text: text.chars().take(80).collect(),
            expected: expected.into(),
        }
    }

    /// The write was accepted but is not in force.
    pub fn did_not_stick(&self, asked: &str, found: impl Into<String>) -> KnobError {
        KnobError::DidNotStick { knob: self.id.clone(), asked: asked.into(), found: found.into() }
    }

    /// A restoring write.
    pub fn step(&self, node: &NodePath, write: impl Into<String>, check: Check) -> RestoreStep {
        RestoreStep {
            owner: self.id.0.clone(),
            target: Target::Node(node.clone()),
            write: write.into(),
            check,
            survives_reboot: false,
        }
    }

    fn failed(&self, error: NodeError) -> KnobError {
        match error.fault {
            NodeFault::NotFound => self.gone(error.to_string()),
            _ => KnobError::Node { knob: self.id.clone(), error },
        }
    }
}
