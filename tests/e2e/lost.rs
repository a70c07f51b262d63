//! Sweeps whose link is lost in the middle: they go on, and the device is put back.

use crate::lab::{Daemon, Proxy};
use crate::support::{Tree, journal, opptune, run_dir_in, until};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};

/// Starts a sweep of a tree, breaks its link once the tree is pinned, and waits for the sweep's end.
fn survives(mut sweep: Command, tree: &Tree, break_it: impl FnOnce()) {
    let results = tempfile::tempdir().unwrap();
    sweep.arg("--results").arg(results.path()).args(tree.agent_args());
    let sweep = sweep.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut sweep = sweep.spawn().unwrap();
    until("a trial is done", || {
        let run = run_dir_in(results.path());
        run.is_some_and(|run| journal(&run).iter().any(|line| line["event"] == "finished"))
            || sweep.try_wait().unwrap().is_some()
    });
    until("the device is pinned", || tree.changed() || sweep.try_wait().unwrap().is_some());
    break_it();
    let output = sweep.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(!tree.changed(), "{}", tree.difference());
    let lines = journal(&run_dir_in(results.path()).unwrap());
    let of = |event: &str| lines.iter().filter(|line| line["event"] == event).collect::<Vec<_>>();
    assert!(of("opened").len() >= 2, "the link was not lost: {said}");
    assert_eq!(of("completed").len(), 1);
    let ids: Vec<_> = of("finished").iter().map(|line| line["measurement"]["id"].to_string()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "measured twice");
}

fn over_adb(daemon: &Daemon, serial: &str, tree: &Tree) -> Command {
    let mut sweep = opptune(["sweep"]);
    sweep.arg(tree.config()).arg(format!("--device=adb:{serial}"));
    sweep.env("ANDROID_ADB_SERVER_PORT", &daemon.says["ADB_SERVER_PORT"]);
    sweep
}

#[test]
fn adbd_is_killed() {
    let (mut daemon, tree) = (Daemon::adbd(), Tree::new());
    let sweep = over_adb(&daemon, &daemon.says["ADB_SERIAL"], &tree);
    survives(sweep, &tree, || {
        daemon.tell("kill");
        daemon.start();
    });
}

#[test]
fn the_connection_to_adbd_is_cut() {
    let (daemon, tree) = (Daemon::adbd(), Tree::new());
    let proxy = Proxy::up(daemon.port());
    survives(over_adb(&daemon, &proxy.serial(), &tree), &tree, || drop(proxy.tell("cut", &[])));
}

#[test]
fn the_connection_to_adbd_is_stalled() {
    let (daemon, tree) = (Daemon::adbd(), Tree::new());
    let proxy = Proxy::up(daemon.port());
    survives(over_adb(&daemon, &proxy.serial(), &tree), &tree, || {
        proxy.tell("stall", &[]);
        until("the agent has put the device back by itself", || !tree.changed());
        proxy.tell("resume", &[]);
    });
}

#[cfg(feature = "ssh")]
mod ssh {
    use super::*;
    use crate::lab::scratch;

    fn over_ssh(daemon: &Daemon, link: &str, test: &str, tree: &Tree) -> Command {
        let mut sweep = opptune(["sweep"]);
        sweep.arg(tree.config()).arg(format!("--device={link}"));
        let says = |key: &str| &daemon.says[key];
        let config = scratch(test).join("config");
        let text = format!(
            "Host lab\n HostName {0}\n Port {1}\n User {2}\n IdentityFile {3}\n UserKnownHostsFile {4}\n \
             HostKeyAlias [{0}]:{1}\n",
            says("SSH_HOST"),
            says("SSH_PORT"),
            says("SSH_USER"),
            says("SSH_KEY"),
            says("SSH_KNOWN_HOSTS")
        );
        std::fs::write(&config, text).unwrap();
        sweep.env("OPPTUNE_SSH_CONFIG", config);
        sweep
    }

    #[test]
    fn sshd_is_killed() {
        let (mut daemon, tree) = (Daemon::sshd(), Tree::new());
        let sweep = over_ssh(&daemon, "ssh:lab", "lost-sshd", &tree);
        survives(sweep, &tree, || {
            daemon.tell("kill");
            daemon.start();
        });
    }

    #[test]
    fn the_connection_to_sshd_is_cut_and_stalled() {
        let (daemon, tree) = (Daemon::sshd(), Tree::new());
        let proxy = Proxy::up(daemon.port());
        let link = format!("ssh:lab:{}", proxy.port());
        survives(over_ssh(&daemon, &link, "lost-ssh-cut", &tree), &tree, || {
            proxy.tell("cut", &[]);
            until("the agent has put the device back", || !tree.changed());
        });
        let stalled = over_ssh(&daemon, &link, "lost-ssh-stall", &tree);
        survives(stalled, &tree, || {
            proxy.tell("stall", &[]);
            until("the agent has put the device back by itself", || !tree.changed());
            proxy.tell("resume", &[]);
        });
    }
}
