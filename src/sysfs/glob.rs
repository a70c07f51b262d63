//! Finding nodes whose path holds `*`: addresses and numbers in node names differ from build to build.

use super::{NodeError, NodeFault, NodePath, Nodes};

/// Every node that `pattern` names, sorted. `*` stands for any run of characters within one part of the path.
///
/// # Errors
/// A pattern that is not an absolute path is [`NodeFault::Invalid`]; one that matches nothing is
/// [`NodeFault::NotFound`].
pub fn find_all(nodes: &dyn Nodes, pattern: &str) -> Result<Vec<NodePath>, NodeError> {
    let whole = NodePath::new(pattern).map_err(|why| failure(pattern, NodeFault::Invalid, why))?;
    let parts: Vec<&str> = whole.as_str().split('/').filter(|part| !part.is_empty()).collect();
    let mut found = Vec::new();
    descend(nodes, "", &parts, &mut found);
    if found.is_empty() {
        return Err(failure(pattern, NodeFault::NotFound, "no such node on this device".into()));
    }
    Ok(found)
}

/// The one node that `pattern` names.
///
/// # Errors
/// As [`find_all`]; several matches are [`NodeFault::Invalid`] and are named, because a guess could pin the
/// wrong device.
pub fn find_one(nodes: &dyn Nodes, pattern: &str) -> Result<NodePath, NodeError> {
    let mut found = find_all(nodes, pattern)?;
    match (found.pop(), found.len()) {
        (Some(only), 0) => Ok(only),
        (last, _) => {
            let names: Vec<&str> = found.iter().chain(&last).map(NodePath::as_str).collect();
            let why = format!("matches more than one node: {}; name it closer", names.join(", "));
            Err(failure(pattern, NodeFault::Invalid, why))
        }
    }
}

fn failure(pattern: &str, fault: NodeFault, detail: String) -> NodeError {
    NodeError { op: "find".into(), path: pattern.into(), fault, detail }
}

fn descend(nodes: &dyn Nodes, base: &str, parts: &[&str], found: &mut Vec<NodePath>) {
    let Some((part, rest)) = parts.split_first() else {
        found.extend(NodePath::new(base).ok().filter(|path| nodes.exists(path)));
        return;
    };
    if !part.contains('*') {
        return descend(nodes, &format!("{base}/{part}"), rest, found);
    }
    let dir = NodePath::new(if base.is_empty() { "/" } else { base });
    let names = dir.ok().and_then(|dir| nodes.list(&dir).ok()).unwrap_or_default();
    for name in names.iter().filter(|name| matches(part, name)) {
        descend(nodes, &format!("{base}/{name}"), rest, found);
    }
}

/// Whether `name` fits `pattern`, where `*` stands for any run of characters.
pub fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => name.strip_prefix(head).is_some_and(|rest| {
            rest.char_indices()
                .map(|(at, _)| at)
                .chain([rest.len()])
                .any(|at| rest.get(at..).is_some_and(|rest| matches(tail, rest)))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::RootedNodes;
    use std::time::Duration;

    #[test]
    fn stars_match_within_one_part() {
        assert!(matches("*.mali", "1c500000.mali"));
        assert!(matches("cpu*", "cpu12"));
        assert!(matches("*", "x"));
        assert!(!matches("*.mali", "1c500000.gpu"));
        assert!(matches("a*b*c", "a-b-b-c"));
    }

    #[test]
    fn one_match_is_wanted_where_one_node_is_meant() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["platform/1.mali", "platform/2.gpu", "thermal/zone0", "thermal/zone1"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        let nodes = RootedNodes::new(dir.path(), Duration::from_secs(5));
        assert_eq!(find_one(&nodes, "/platform/*.mali").unwrap().as_str(), "/platform/1.mali");
        assert_eq!(find_all(&nodes, "/thermal/zone*").unwrap().len(), 2);
        let several = find_one(&nodes, "/thermal/zone*").unwrap_err();
        assert_eq!(several.fault, NodeFault::Invalid);
        assert!(several.detail.contains("zone0") && several.detail.contains("zone1"), "{several}");
        assert_eq!(find_one(&nodes, "/platform/*.npu").unwrap_err().fault, NodeFault::NotFound);
    }
}
