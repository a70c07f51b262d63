//! Control groups as the device has them: which hierarchies are mounted, and where this process is in them.
//!
//! Both versions of the interface are found: phones mix v1 (`/dev/cpuset`, `/dev/cpuctl`) with v2, servers
//! have either. Sources: cgroups(7), `Documentation/admin-guide/cgroup-v1` and `cgroup-v2.rst`.

use super::{NodeError, NodePath, Nodes, read_trimmed};

/// A mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Where it is mounted.
    pub mount: NodePath,
    /// Whether it speaks the v2 interface.
    pub unified: bool,
    /// Controllers that can be used in it (v1: also `name=...`).
    pub controllers: Vec<String>,
}

impl Hierarchy {
    /// The directory of this hierarchy that the process is in. A process outside the visible part of the
    /// hierarchy (cgroup namespaces) counts as being at its root.
    ///
    /// # Errors
    /// When `/proc/self/cgroup` cannot be read.
    pub fn home(&self, nodes: &dyn Nodes) -> Result<NodePath, NodeError> {
        let listing = nodes.read(&NodePath::fixed("/proc/self/cgroup"))?;
        let path = listing.lines().find_map(|line| self.path_in(line)).unwrap_or("/");
        let joined = format!("{}{}", self.mount.as_str().trim_end_matches('/'), path.trim_end_matches('/'));
        Ok(NodePath::new(joined).unwrap_or_else(|_| self.mount.clone()))
    }

    /// The path of a `/proc/self/cgroup` line, if the line is about this hierarchy.
    fn path_in<'a>(&self, line: &'a str) -> Option<&'a str> {
        let mut fields = line.splitn(3, ':');
        let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let ours = match self.unified {
            true => id == "0" && controllers.is_empty(),
            false => controllers.split(',').any(|name| self.has(name)),
        };
        ours.then_some(path)
    }

    /// Whether a controller can be used here.
    pub fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|name| name == controller)
    }
}

/// The mounted hierarchies.
///
/// # Errors
/// When `/proc/mounts` cannot be read.
pub fn hierarchies(nodes: &dyn Nodes) -> Result<Vec<Hierarchy>, NodeError> {
    let mounts = nodes.read(&NodePath::fixed("/proc/mounts"))?;
    Ok(mounts.lines().filter_map(|line| parse(nodes, line)).collect())
}

/// The hierarchy that has `controller`; where both versions have it, v1, because the kernel gives a
/// controller to one hierarchy only and v1 mounts take it first.
///
/// # Errors
/// When `/proc/mounts` cannot be read.
pub fn with_controller(nodes: &dyn Nodes, controller: &str) -> Result<Option<Hierarchy>, NodeError> {
    let mut usable = hierarchies(nodes)?;
    usable.retain(|hierarchy| hierarchy.has(controller));
    usable.sort_by_key(|hierarchy| hierarchy.unified);
    Ok(usable.into_iter().next())
}

fn parse(nodes: &dyn Nodes, line: &str) -> Option<Hierarchy> {
    let mut fields = line.split(' ').skip(1);
    let mount = NodePath::new(fields.next()?).ok()?;
    let (kind, options) = (fields.next()?, fields.next()?);
    let words = |text: &str, by: char| text.split(by).map(str::to_owned).collect();
    match kind {
        "cgroup" => Some(Hierarchy { mount, unified: false, controllers: words(options, ',') }),
        "cgroup2" => {
            let listed = read_trimmed(nodes, &mount.join("cgroup.controllers")).unwrap_or_default();
            Some(Hierarchy { mount, unified: true, controllers: words(&listed, ' ') })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::RootedNodes;
    use std::fs;
    use std::time::Duration;

    fn device(mounts: &str, own: &str) -> (tempfile::TempDir, RootedNodes) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        fs::create_dir_all(dir.path().join("cg2")).unwrap();
        fs::write(dir.path().join("cg2/cgroup.controllers"), "cpu memory\n").unwrap();
        fs::write(dir.path().join("proc/mounts"), mounts).unwrap();
        fs::write(dir.path().join("proc/self/cgroup"), own).unwrap();
        let nodes = RootedNodes::new(dir.path(), Duration::from_secs(5));
        (dir, nodes)
    }

    #[test]
    fn the_old_interface_is_found_first() {
        let (_dir, nodes) = device(
            "cgroup2 /cg2 cgroup2 rw 0 0\ncgroup /dev/cpuctl cgroup rw,cpu,cpuacct 0 0\n",
            "3:cpu,cpuacct:/top-app\n0::/uid_0/pid_7\n",
        );
        let cpu = with_controller(&nodes, "cpu").unwrap().unwrap();
        assert_eq!((cpu.mount.as_str(), cpu.unified), ("/dev/cpuctl", false));
        assert_eq!(cpu.home(&nodes).unwrap().as_str(), "/dev/cpuctl/top-app");
        assert!(with_controller(&nodes, "cpuset").unwrap().is_none());
    }

    #[test]
    fn the_unified_interface_lists_its_own_controllers() {
        let (_dir, nodes) = device("cgroup2 /cg2 cgroup2 rw 0 0\n", "0::/../elsewhere\n");
        let cpu = with_controller(&nodes, "cpu").unwrap().unwrap();
        assert!(cpu.unified);
        assert_eq!(cpu.home(&nodes).unwrap().as_str(), "/cg2", "outside the namespace counts as the root");
    }
}
