//! SHA-256 of files on a device, by its own tools.

use super::{Transport, TransportError};
use std::time::Duration;

const QUICK: Duration = Duration::from_secs(20);
/// For the device to hash a whole model.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);
/// The programs of different userlands that hash.
const TOOLS: [&[&str]; 3] = [&["sha256sum"], &["toybox", "sha256sum"], &["busybox", "sha256sum"]];

/// The hash of a file on the device; `None` when it is not there.
///
/// # Errors
/// [`TransportError`] of the link, or when the device has nothing to hash with.
pub(super) async fn there(link: &dyn Transport, path: &str) -> Result<Option<String>, TransportError> {
    if link.run(&["test", "-f", path], QUICK).await?.status != Some(0) {
        return Ok(None);
    }
    for tool in TOOLS {
        let said = link.run(&[tool, &[path]].concat(), PATIENCE).await?;
        if let Some(hash) = parse(&said.stdout) {
            return Ok(Some(hash));
        }
    }
    let next = "Install toybox or busybox with sha256sum on it";
    Err(TransportError::refused(&link.device(), "verifying a copy", "it has no sha256sum", next))
}

/// A shell function `hash`, for scripts that a device runs: what the first tool that works says of its arguments,
/// or of its standard input.
pub(crate) fn shell_function() -> String {
    let tools = TOOLS.map(|tool| format!("{} \"$@\"", tool.join(" ")));
    format!("hash() {{ {}; }} 2>/dev/null;", tools.join(" || "))
}

/// The hash in the answer of one of the tools.
pub(crate) fn parse(said: &str) -> Option<String> {
    let hash = said.split_whitespace().next()?;
    (hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit())).then(|| hash.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::of_file;
    use crate::transport::local::Local;

    #[test]
    fn answers_of_every_userland_are_read() {
        let hash = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
        assert_eq!(parse(&format!("{hash}  /a/b\n")).as_deref(), Some(hash));
        assert_eq!(parse("sha256sum: not found"), None);
    }

    #[tokio::test]
    async fn both_sides_agree() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, b"abc").unwrap();
        // FIPS 180-4, the example of one block.
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of_file(&file).unwrap(), (3, hash.into()));
        let path = file.to_str().unwrap();
        assert_eq!(there(&Local, path).await.unwrap().as_deref(), Some(hash));
        let script = format!("{} head -c 3 {path} | hash; hash {path}", shell_function());
        let said = Local.run(&["sh", "-c", &script], QUICK).await.unwrap().stdout;
        assert_eq!(said, format!("{hash}  -\n{hash}  {path}\n"));
        assert_eq!(there(&Local, "/no/such/file").await.unwrap(), None);
    }
}
