//! How to become root on a device: found out by trying, once per device.

/// A way to run commands as root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// The link is root's itself (after `adb root`, or an ssh login as root).
    Already,
    /// `su -c 'COMMAND'`: Magisk, KernelSU, SuperSU.
    SuCommand,
    /// `su 0 COMMAND`: userdebug builds.
    SuZero,
    /// `su root COMMAND`: userdebug builds, old.
    SuRoot,
    /// `sudo -n COMMAND`: boards and lab hosts whose sudo needs no password.
    Sudo,
}

impl Root {
    /// The ways of Android, in the order they are tried. `adb root` comes after all of them: it restarts adbd,
    /// which ends everything that runs over it.
    pub(super) const ANDROID: [Root; 4] = [Root::Already, Root::SuCommand, Root::SuZero, Root::SuRoot];

    /// The ways of what is reached over ssh: boards, lab hosts, Termux. The one that could ask for a password
    /// is last.
    #[cfg(feature = "ssh")]
    pub(super) const UNIX: [Root; 3] = [Root::Already, Root::Sudo, Root::SuCommand];

    /// The command line that runs `line` as root; `None` when `line` would need quotes within quotes.
    pub(super) fn wrap(self, line: &str) -> Option<String> {
        match self {
            Root::Already => Some(line.into()),
            Root::SuCommand => (!line.contains('\'')).then(|| format!("su -c '{line}'")),
            Root::SuZero => Some(format!("su 0 {line}")),
            Root::SuRoot => Some(format!("su root {line}")),
            Root::Sudo => Some(format!("sudo -n {line}")),
        }
    }

    /// Whether the answer to `id -u` is root's.
    pub(super) fn is_root(stdout: &str) -> bool {
        stdout.trim() == "0"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_keeps_the_words() {
        let lines: Vec<_> = Root::ANDROID.iter().map(|r| r.wrap("id -u").unwrap()).collect();
        assert_eq!(lines, ["id -u", "su -c 'id -u'", "su 0 id -u", "su root id -u"]);
        assert_eq!(Root::SuCommand.wrap("sh -c 'a b'"), None);
        assert!(Root::is_root("0\r\n") && !Root::is_root("2000\n") && !Root::is_root("su: not found"));
    }
}
