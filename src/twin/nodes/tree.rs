//! The tree of node files: which driver's attribute is behind which path.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A file: an attribute of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Index of the driver.
    pub driver: usize,
    /// Index of its attribute.
    pub attr: usize,
    /// Permission bits.
    pub mode: u16,
}

/// Files by path, and the entries of every directory. Paths have no trailing slash; the root is the empty one.
#[derive(Debug, Default)]
pub struct Tree {
    files: HashMap<String, File>,
    dirs: BTreeMap<String, BTreeSet<String>>,
}

impl Tree {
    /// An empty tree.
    pub fn new() -> Self {
        let mut tree = Tree::default();
        tree.dirs.insert(String::new(), BTreeSet::new());
        tree
    }

    /// The file behind a path.
    pub fn file(&self, path: &str) -> Option<File> {
        self.files.get(path).copied()
    }

    /// The entries of a directory.
    pub fn entries(&self, path: &str) -> Option<&BTreeSet<String>> {
        self.dirs.get(path.trim_end_matches('/'))
    }

    /// Adds a file and the directories above it.
    pub fn add_file(&mut self, path: &str, file: File) {
        self.add_to_parent(path);
        self.files.insert(path.to_owned(), file);
    }

    /// Adds a directory and those above it.
    pub fn add_dir(&mut self, path: &str) {
        if !self.dirs.contains_key(path) {
            self.dirs.insert(path.to_owned(), BTreeSet::new());
            self.add_to_parent(path);
        }
    }

    /// Removes a directory with the files in it.
    pub fn remove_dir(&mut self, path: &str) {
        for name in self.dirs.remove(path).unwrap_or_default() {
            self.files.remove(&format!("{path}/{name}"));
        }
        if let Some((parent, name)) = path.rsplit_once('/')
            && let Some(entries) = self.dirs.get_mut(parent)
        {
            entries.remove(name);
        }
    }

    fn add_to_parent(&mut self, path: &str) {
        if let Some((parent, name)) = path.rsplit_once('/') {
            self.add_dir(parent);
            if let Some(entries) = self.dirs.get_mut(parent) {
                entries.insert(name.to_owned());
            }
        }
    }
}
