//! Reading and writing node files (sysfs, procfs), and Android properties.
//!
//! Everything the tool knows or changes about a device goes through [`Nodes`]. The production one is
//! [`RootedNodes`]; a twin serves the same trait from its simulated drivers.

pub mod cgroup;
mod glob;
mod properties;
mod rooted;

pub use glob::{find_all, find_one, matches};
pub use properties::{AndroidProperties, NoProperties, Properties};
pub use rooted::RootedNodes;

use serde::{Deserialize, Serialize};
use std::fmt;

/// Absolute path of a node on the device, such as `/sys/class/kgsl/kgsl-3d0/max_pwrlevel`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct NodePath(String);

impl NodePath {
    /// Checks that `path` is absolute and has no `..` part.
    ///
    /// # Errors
    /// The text of what is wrong with it.
    pub fn new(path: impl Into<String>) -> Result<Self, String> {
        let path = path.into();
        if !path.starts_with('/') {
            return Err(format!(
                "node path `{path}` is not absolute; write it as the device sees it, e.g. /sys/..."
            ));
        }
        if path.split('/').any(|part| part == "..") || path.contains('\0') {
            return Err(format!("node path `{path}` leaves its directory; write it without `..`"));
        }
        Ok(NodePath(path))
    }

    /// A path written in this program, which is known to be absolute.
    pub(crate) fn fixed(path: &'static str) -> Self {
        debug_assert!(NodePath::new(path).is_ok());
        NodePath(path.to_owned())
    }

    /// The path below this one.
    pub fn join(&self, name: &str) -> NodePath {
        NodePath(format!("{}/{}", self.0.trim_end_matches('/'), name))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last part.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or("")
    }
}

impl<'de> Deserialize<'de> for NodePath {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        NodePath::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for NodePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a node could not be read or written. The kinds are those that callers decide by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeFault {
    /// ENOENT, ENODEV, ENXIO: not there, or gone.
    NotFound,
    /// EACCES, EPERM, EROFS.
    Denied,
    /// EINVAL, ERANGE: the driver refuses the value.
    Invalid,
    /// EBUSY.
    Busy,
    /// EAGAIN, ENODATA, EIO: no value at the moment.
    NoData,
    /// The call did not return before its deadline.
    Timeout,
    /// Any other errno.
    Other(i32),
}

/// A failed access to a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{op} {path}: {detail}")]
pub struct NodeError {
    /// `read`, `write` or `list`.
    pub op: String,
    /// The node.
    pub path: String,
    /// The class of the failure.
    pub fault: NodeFault,
    /// What the system said.
    pub detail: String,
}

impl NodeError {
    /// An error from the operating system's own.
    pub fn from_io(op: &str, path: &NodePath, error: &std::io::Error) -> Self {
        let fault = error.raw_os_error().map_or(NodeFault::Other(0), NodeFault::from_errno);
        NodeError { op: op.into(), path: path.to_string(), fault, detail: error.to_string() }
    }

    /// An error with an errno, as a simulated driver answers it.
    pub fn from_errno(op: &str, path: &NodePath, errno: i32) -> Self {
        NodeError::from_io(op, path, &std::io::Error::from_raw_os_error(errno))
    }
}

impl NodeFault {
    /// The class an errno belongs to.
    pub fn from_errno(errno: i32) -> Self {
        match errno {
            libc::ENOENT | libc::ENODEV | libc::ENXIO => NodeFault::NotFound,
            libc::EACCES | libc::EPERM | libc::EROFS => NodeFault::Denied,
            libc::EINVAL | libc::ERANGE => NodeFault::Invalid,
            libc::EBUSY => NodeFault::Busy,
            libc::EAGAIN | libc::ENODATA | libc::EIO => NodeFault::NoData,
            libc::ETIMEDOUT => NodeFault::Timeout,
            other => NodeFault::Other(other),
        }
    }
}

/// Access to the node files of one device.
pub trait Nodes: Send + Sync {
    /// The whole text of a node, as it is (trailing newline included).
    ///
    /// # Errors
    /// [`NodeError`] with the class of the failure; every read has a deadline.
    fn read(&self, path: &NodePath) -> Result<String, NodeError>;

    /// Writes `text` and a newline in one `write(2)`. Never creates a file.
    ///
    /// # Errors
    /// [`NodeError`] with the class of the failure.
    fn write(&self, path: &NodePath, text: &str) -> Result<(), NodeError>;

    /// Names of the entries of a directory, sorted.
    ///
    /// # Errors
    /// [`NodeError`], for example when the directory is not there.
    fn list(&self, dir: &NodePath) -> Result<Vec<String>, NodeError>;

    /// Whether the node is there.
    fn exists(&self, path: &NodePath) -> bool;

    /// Makes a directory (a cgroup). One that is there already is fine.
    ///
    /// # Errors
    /// [`NodeError`] with the class of the failure.
    fn make_dir(&self, dir: &NodePath) -> Result<(), NodeError>;

    /// Removes an empty directory (a cgroup without tasks). One that is not there is fine.
    ///
    /// # Errors
    /// [`NodeError`] with the class of the failure.
    fn remove_dir(&self, dir: &NodePath) -> Result<(), NodeError>;
}

/// Reads a node and trims white space around its text.
///
/// # Errors
/// As [`Nodes::read`].
pub fn read_trimmed(nodes: &dyn Nodes, path: &NodePath) -> Result<String, NodeError> {
    Ok(nodes.read(path)?.trim().to_owned())
}

/// Reads a node that holds one unsigned number.
///
/// # Errors
/// As [`Nodes::read`]; text that is not a number is [`NodeFault::NoData`] and is quoted in the message.
pub fn read_u64(nodes: &dyn Nodes, path: &NodePath) -> Result<u64, NodeError> {
    parse(nodes, path)
}

/// Reads a node that holds one signed number.
///
/// # Errors
/// As [`read_u64`].
pub fn read_i64(nodes: &dyn Nodes, path: &NodePath) -> Result<i64, NodeError> {
    parse(nodes, path)
}

fn parse<T: std::str::FromStr>(nodes: &dyn Nodes, path: &NodePath) -> Result<T, NodeError> {
    let text = nodes.read(path)?;
    text.trim().parse().map_err(|_| NodeError {
        op: "read".into(),
        path: path.to_string(),
        fault: NodeFault::NoData,
        detail: format!("expected a number, found `{}`", text.trim().chars().take(40).collect::<String>()),
    })
}
