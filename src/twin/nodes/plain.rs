//! Nodes that hold the text written to them and do nothing.

use super::{Driver, Shown, Stored};
use crate::twin::soc::Soc;

/// Plain nodes, by absolute path.
pub struct Plain {
    paths: Vec<String>,
    texts: Vec<String>,
}

impl Plain {
    /// Nodes with their first text.
    pub fn new<'a>(files: impl Iterator<Item = (&'a String, &'a String)>) -> Self {
        let (paths, texts) =
            files.map(|(path, text)| (path.clone(), format!("{}\n", text.trim_end()))).unzip();
        Plain { paths, texts }
    }
}

impl Driver for Plain {
    fn attrs(&self) -> Vec<(String, u16)> {
        self.paths.iter().map(|path| (path.trim_start_matches('/').to_owned(), 0o644)).collect()
    }

    fn show(&self, attr: usize, _soc: &Soc) -> Shown {
        self.texts.get(attr).cloned().ok_or(libc::ENOENT)
    }

    fn store(&mut self, attr: usize, _soc: &mut Soc, text: &str) -> Stored {
        let kept = self.texts.get_mut(attr).ok_or(libc::ENOENT)?;
        *kept = format!("{}\n", text.trim_end());
        Ok(())
    }
}
