//! The ssh link against a real sshd.

use crate::lab::{Daemon, Proxy, noise, scratch, until};
use crate::push::broken_three_times;
use opptune::transport::ssh::Ssh;
use opptune::transport::{Transport, TransportError, parse_link};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Longest wait for anything; reached only when something is broken.
const SOON: Duration = Duration::from_secs(60);

/// A link through a configuration file of its own, as a user would write it.
fn connect(daemon: &Daemon, port: u16, test: &str) -> Ssh {
    connect_as(daemon, port, test, &daemon.says["SSH_KNOWN_HOSTS"], &daemon.says["SSH_KEY"])
}

fn connect_as(daemon: &Daemon, port: u16, test: &str, known_hosts: &str, key: &str) -> Ssh {
    let config = config(test);
    let text = format!(
        "Host board\n  HostName 127.0.0.1\n  Port {port}\n  User {}\n  IdentityFile {key}\n  IdentitiesOnly yes\n  \
         UserKnownHostsFile {known_hosts}\n  HostKeyAlias [127.0.0.1]:{}\n",
        daemon.says["SSH_USER"], daemon.says["SSH_PORT"]
    );
    std::fs::write(&config, text).unwrap();
    Ssh::with_config(&parse_link("ssh:board").unwrap(), Some(&config)).unwrap()
}

fn config(test: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-config"));
    std::fs::create_dir_all(&dir).unwrap();
    dir.join("config")
}

fn words(argv: &[&str]) -> Vec<String> {
    argv.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn it_runs_streams_and_copies() {
    let daemon = Daemon::sshd();
    let ssh = connect(&daemon, daemon.port(), "ssh-works");
    let out = ssh.run(&["sh", "-c", "echo out; echo err >&2; exit 7"], SOON).await.unwrap();
    assert_eq!((out.stdout.as_str(), out.stderr.as_str(), out.status), ("out\n", "err\n", Some(7)));
    let late = ssh.run(&["sleep", "60"], Duration::from_millis(300)).await.unwrap_err();
    assert!(late.may_pass(), "{late}");

    let mut agent = ssh.open_agent(&words(&["sh", "-c", "echo up >&2; exec cat"])).await.unwrap();
    let sent: Vec<u8> = (0..=255).cycle().take(500_000).chain(noise(3_000_000)).collect();
    let (mut read, mut write) = tokio::io::split(&mut agent.stream);
    let mut back = vec![0; sent.len()];
    let (wrote, got) = tokio::join!(write.write_all(&sent), read.read_exact(&mut back));
    wrote.unwrap();
    got.unwrap();
    assert!(back == sent && agent.log.text() == "up", "{}", agent.log.text());

    let dir = scratch("ssh-files");
    let (from, back, remote) = (dir.join("from"), dir.join("back"), dir.join("remote"));
    std::fs::write(&from, noise(5_000_001)).unwrap();
    let remote = remote.to_str().unwrap();
    ssh.push(&from, 0, remote, &|_| ()).await.unwrap();
    std::fs::OpenOptions::new().write(true).open(remote).unwrap().set_len(2_000_000).unwrap();
    ssh.push(&from, 2_000_000, remote, &|_| ()).await.unwrap();
    ssh.pull(remote, &back).await.unwrap();
    assert!(std::fs::read(&back).unwrap() == std::fs::read(&from).unwrap());
}

#[tokio::test]
async fn an_agent_is_given_time_when_its_stream_is_dropped() {
    let daemon = Daemon::sshd();
    let ssh = connect(&daemon, daemon.port(), "ssh-grace");
    let mark = scratch("ssh-grace").join("restored");
    let script = format!("cat >/dev/null; echo late; sleep 0.5; echo done > {}", mark.display());
    drop(ssh.open_agent(&words(&["sh", "-c", &script])).await.unwrap());
    until("the agent has restored", SOON, || mark.exists()).await;
}

#[tokio::test]
async fn a_killed_daemon_ends_the_stream_and_is_found_again() {
    let mut daemon = Daemon::sshd();
    let ssh = connect(&daemon, daemon.port(), "ssh-killed");
    ssh.run(&["true"], SOON).await.unwrap();
    let mut agent = ssh.open_agent(&words(&["cat"])).await.unwrap();
    daemon.tell("kill");
    let mut byte = [0; 1];
    let end = tokio::time::timeout(SOON, agent.stream.read(&mut byte)).await.expect("the stream hangs");
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    // The session that was open breaks first; then nobody answers.
    let _ = ssh.run(&["true"], SOON).await;
    let gone = ssh.run(&["true"], SOON).await.unwrap_err();
    assert!(matches!(gone, TransportError::Unavailable { .. }), "{gone}");
    daemon.start();
    ssh.run(&["true"], SOON).await.unwrap();
}

#[tokio::test]
async fn unknown_and_changed_keys_are_refused_with_what_to_type() {
    let daemon = Daemon::sshd();
    let dir = scratch("ssh-keys");
    let key = &daemon.says["SSH_KEY"];
    let none = dir.join("none");
    let unknown = connect_as(&daemon, daemon.port(), "ssh-keys", none.to_str().unwrap(), key);
    let error = unknown.run(&["true"], SOON).await.unwrap_err();
    assert!(!error.may_pass(), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("SHA256:")
            && text.contains(&format!("ssh-keyscan -t ed25519 -p {} 127.0.0.1 >> ", daemon.port())),
        "{text}"
    );

    let other = dir.join("other");
    let known = std::fs::read_to_string(&daemon.says["SSH_KNOWN_HOSTS"]).unwrap();
    let name = known.split(' ').next().unwrap();
    let wrong = std::fs::read_to_string(format!("{key}.pub")).unwrap();
    let wrong = wrong.split(' ').take(2).collect::<Vec<_>>().join(" ");
    std::fs::write(&other, format!("{name} {wrong}\n")).unwrap();
    let changed = connect_as(&daemon, daemon.port(), "ssh-keys", other.to_str().unwrap(), key);
    let text = changed.run(&["true"], SOON).await.unwrap_err().to_string();
    assert!(text.contains("not the one on file") && text.contains("ssh-keygen -R"), "{text}");

    let known = &daemon.says["SSH_KNOWN_HOSTS"];
    let locked_out = connect_as(&daemon, daemon.port(), "ssh-keys", known, "/nonexistent");
    let text = locked_out.run(&["true"], SOON).await.unwrap_err().to_string();
    assert!(
        text.contains("logging in as") && text.contains(&format!("Try: ssh -p {}", daemon.port())),
        "{text}"
    );
}

#[tokio::test]
async fn a_stalled_link_is_an_answer() {
    let daemon = Daemon::sshd();
    let proxy = Proxy::up(daemon.port());
    let ssh = connect(&daemon, proxy.port(), "ssh-stalled");
    ssh.run(&["true"], SOON).await.unwrap();
    proxy.tell("stall", &[]);
    let start = Instant::now();
    let error = ssh.run(&["true"], Duration::from_secs(1)).await.unwrap_err();
    assert!(error.may_pass() && start.elapsed() < SOON, "{error} after {:?}", start.elapsed());
    proxy.tell("resume", &[]);
    ssh.run(&["true"], SOON).await.unwrap();
}

#[tokio::test]
async fn a_push_over_ssh_goes_on_after_every_cut() {
    let daemon = Daemon::sshd();
    let proxy = Proxy::up(daemon.port());
    let ssh = connect(&daemon, proxy.port(), "push-ssh");
    broken_three_times(&ssh, &proxy, "push-ssh").await;
}
