//! What a run without a host is told.

use super::wait::Waits;
use std::path::PathBuf;

/// How a plan is run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Order {
    pub dir: PathBuf,
    pub model: Option<String>,
    pub steal_from: Option<String>,
    pub waits: Waits,
    pub here: bool,
    pub root: PathBuf,
    pub state_dir: PathBuf,
}
