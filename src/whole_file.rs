//! Files that are there whole or not at all.

use std::io;
use std::path::{Path, PathBuf};

/// Writes `file` beside and renames it into place: readers see the old file or the new one, never a part.
///
/// # Errors
/// The system's.
pub fn write(file: &Path, text: impl AsRef<[u8]>) -> io::Result<()> {
    let beside = PathBuf::from(format!("{}.new", file.display()));
    std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, file))
}
