//! Where a name leads: asked of the user's own ssh, which knows its configuration best.
//!
//! `ssh -G` prints what OpenSSH would do (ssh_config(5): Host, Match, Include, tokens and all) without
//! connecting. On machines without it the usual defaults hold.

use crate::transport::TransportError;
use std::env;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Identities tried when there is no ssh to ask, best first.
const DEFAULT_IDENTITIES: [&str; 3] = ["~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa"];

/// How to reach a host and whom to be there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Target {
    pub host: String,
    pub port: u16,
    pub user: String,
    /// Name its key is filed under.
    pub key_name: String,
    pub identities: Vec<PathBuf>,
    pub known_hosts: Vec<PathBuf>,
    /// Whether only `identities` may be offered, not everything the ssh agent holds.
    pub identities_only: bool,
}

/// What the user's ssh would do with `host`; `file` stands in for `~/.ssh/config`.
pub(super) fn resolve(
    device: &str,
    file: Option<&Path>,
    host: &str,
    user: Option<&str>,
    port: Option<u16>,
) -> Result<Target, TransportError> {
    let refused = |why: String| {
        let next = format!("Look at it with: ssh -G {host}");
        TransportError::refused(device, "reading the ssh configuration", why, next)
    };
    let mut command = Command::new("ssh");
    if let Some(file) = file {
        command.arg("-F").arg(file);
    }
    // Each is checked to have no characters an option or a shell could be made of (see `parse_link`).
    if let Some(user) = user {
        command.args(["-l", user]);
    }
    if let Some(port) = port {
        command.args(["-p", &port.to_string()]);
    }
    command.args(["-G", "--", host]).stdin(Stdio::null());
    match command.output() {
        Ok(output) if output.status.success() => {
            parse(&String::from_utf8_lossy(&output.stdout), host).map_err(refused)
        }
        Ok(output) => Err(refused(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(defaults(host, user, port)),
        Err(e) => Err(refused(format!("ssh cannot be run: {e}"))),
    }
}

fn defaults(host: &str, user: Option<&str>, port: Option<u16>) -> Target {
    Target {
        host: host.into(),
        port: port.unwrap_or(22),
        user: user.map(Into::into).or_else(|| env::var("USER").ok()).unwrap_or_else(|| "root".into()),
        key_name: host.into(),
        identities: DEFAULT_IDENTITIES.into_iter().map(expand).collect(),
        known_hosts: vec![expand("~/.ssh/known_hosts"), "/etc/ssh/ssh_known_hosts".into()],
        identities_only: false,
    }
}

/// Reads `keyword value` lines.
fn parse(text: &str, asked: &str) -> Result<Target, String> {
    let mut target = Target { host: asked.into(), port: 22, ..Target::default() };
    for (key, value) in text.lines().filter_map(|line| line.split_once(' ')) {
        match key {
            "hostname" => target.host = value.into(),
            "hostkeyalias" => target.key_name = value.into(),
            "port" => target.port = value.parse().map_err(|_| format!("its port is `{value}`"))?,
            "user" => target.user = value.into(),
            "identityfile" => target.identities.push(expand(value)),
            "identitiesonly" => target.identities_only = value == "yes",
            "userknownhostsfile" | "globalknownhostsfile" => {
                target.known_hosts.extend(value.split(' ').map(expand));
            }
            "proxyjump" | "proxycommand" if value != "none" => {
                return Err(format!(
                    "it says `{key} {value}`, which is not supported; forward a port instead"
                ));
            }
            _ => (),
        }
    }
    if target.key_name.is_empty() {
        target.key_name.clone_from(&target.host);
    }
    Ok(target)
}

fn expand(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => path.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ssh_prints_is_read() {
        let text = "host b\nuser pi\nhostname 10.0.0.9\nport 2222\nidentitiesonly yes\nidentityfile /k/a\n\
                    identityfile /k/b\nglobalknownhostsfile /e/1 /e/2\nuserknownhostsfile /u/1\nproxycommand none\n";
        let target = parse(text, "b").unwrap();
        assert_eq!((target.host.as_str(), target.port, target.user.as_str()), ("10.0.0.9", 2222, "pi"));
        assert_eq!((target.key_name.as_str(), target.identities_only), ("10.0.0.9", true));
        assert_eq!((target.identities.len(), target.known_hosts.len()), (2, 3));
        assert_eq!(parse("hostkeyalias lab\n", "b").unwrap().key_name, "lab");
        assert!(parse("proxyjump gate\n", "b").unwrap_err().contains("proxyjump gate"));
    }

    #[test]
    fn without_ssh_the_link_and_the_defaults_hold() {
        let target = defaults("b", Some("me"), None);
        assert_eq!((target.user.as_str(), target.port, target.identities.len()), ("me", 22, 3));
    }
}
