//! The adb link against a real adb server and a real adbd.

use crate::lab::{Daemon, noise, scratch, until};
use opptune::transport::adb::{Adb, Root, Server, Service};
use opptune::transport::{Transport, TransportError};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Longest wait for anything; reached only when something is broken.
const SOON: Duration = Duration::from_secs(60);

async fn connect(daemon: &Daemon) -> Adb {
    let server = Server::new("127.0.0.1", daemon.says["ADB_SERVER_PORT"].parse().unwrap());
    Adb::find(server, Some(&daemon.says["ADB_SERIAL"])).await.unwrap()
}

fn words(argv: &[&str]) -> Vec<String> {
    argv.iter().map(ToString::to_string).collect()
}

async fn a_command_answers(adb: &Adb, status: bool) {
    let out = adb.run(&["sh", "-c", "echo out; echo err >&2; exit 7"], SOON).await.unwrap();
    assert!(out.stdout.contains("out"), "{out:?}");
    assert!(status && out.status == Some(7), "{out:?}");
    let missing = adb.run(&["/no/such/program"], SOON).await.unwrap();
    assert_eq!(missing.status, Some(127), "{missing:?}");
}

/// Every byte there is, more than once, through `cat` and back.
async fn a_stream_is_binary_safe(adb: &Adb) {
    let mut agent = adb.open_agent(&words(&["cat"])).await.unwrap();
    let sent: Vec<u8> = (0..=255).cycle().take(100_000).chain(noise(100_000)).collect();
    let (mut read, mut write) = tokio::io::split(&mut agent.stream);
    let mut back = vec![0; sent.len()];
    let (wrote, got) = tokio::join!(write.write_all(&sent), read.read_exact(&mut back));
    wrote.unwrap();
    got.unwrap();
    assert!(back == sent);
}

async fn a_file_goes_there_and_back(adb: &Adb, test: &str) {
    let dir = scratch(test);
    let (from, back) = (dir.join("from"), dir.join("back"));
    let remote = dir.join("remote");
    let remote = remote.to_str().unwrap();
    let bytes = noise(9_000_001);
    std::fs::write(&from, &bytes).unwrap();
    let sent = AtomicU64::new(0);
    let note = |n| sent.store(n, Ordering::Relaxed);
    adb.push(&from, 0, remote, &note).await.unwrap();
    assert_eq!(sent.load(Ordering::Relaxed), bytes.len() as u64);
    // The tail again, after the file was cut short: appended, not replaced.
    std::fs::OpenOptions::new().write(true).open(remote).unwrap().set_len(5_000_000).unwrap();
    adb.push(&from, 5_000_000, remote, &note).await.unwrap();
    adb.pull(remote, &back).await.unwrap();
    assert!(std::fs::read(&back).unwrap() == bytes);
    let mode = std::fs::metadata(remote).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{remote}");
    let missing = adb.pull("/no/such/file", &back).await.unwrap_err();
    assert!(missing.to_string().contains("No such file"), "{missing}");
}

#[tokio::test]
async fn a_current_daemon_runs_streams_and_copies() {
    let daemon = Daemon::adbd();
    let adb = connect(&daemon).await;
    a_command_answers(&adb, true).await;
    a_stream_is_binary_safe(&adb).await;
    a_file_goes_there_and_back(&adb, "adb-v2").await;
    let apart = adb.run(&["sh", "-c", "echo out; echo err >&2"], SOON).await.unwrap();
    assert_eq!((apart.stdout.as_str(), apart.stderr.as_str()), ("out\n", "err\n"));
    let me = nix_uid();
    let root = adb.root().await;
    assert!(if me == 0 { root.unwrap() == Root::Already } else { root.is_err() || me != 0 });
}

fn nix_uid() -> u32 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid()
}

#[tokio::test]
async fn the_services_of_old_daemons_do_the_same() {
    let daemon = Daemon::adbd();
    for (service, test) in [(Service::Exec, "adb-exec"), (Service::Terminal, "adb-terminal")] {
        let adb = connect(&daemon).await.with_service(service);
        a_command_answers(&adb, true).await;
        a_stream_is_binary_safe(&adb).await;
        a_file_goes_there_and_back(&adb, test).await;
    }
}

#[tokio::test]
async fn a_command_that_hangs_runs_into_its_deadline() {
    let daemon = Daemon::adbd();
    let adb = connect(&daemon).await;
    let start = Instant::now();
    let late = adb.run(&["sleep", "60"], Duration::from_millis(300)).await.unwrap_err();
    assert!(late.may_pass() && late.to_string().contains("no answer within 300ms"), "{late}");
    assert!(start.elapsed() < SOON);
}

#[tokio::test]
async fn an_agent_is_given_time_when_its_stream_is_dropped() {
    let daemon = Daemon::adbd();
    let adb = connect(&daemon).await;
    let mark = scratch("adb-grace").join("restored");
    let script = format!("echo up >&2; cat >/dev/null; sleep 0.5; echo done > {}", mark.display());
    let agent = adb.open_agent(&words(&["sh", "-c", &script])).await.unwrap();
    until("the agent says it is up", SOON, || agent.log.text() == "up").await;
    drop(agent);
    until("the agent has restored", SOON, || mark.exists()).await;
}

#[tokio::test]
async fn a_killed_daemon_ends_the_stream_and_is_found_again() {
    let mut daemon = Daemon::adbd();
    let adb = connect(&daemon).await;
    let mut agent = adb.open_agent(&words(&["cat"])).await.unwrap();
    daemon.tell("kill");
    let mut byte = [0; 1];
    let end = tokio::time::timeout(SOON, agent.stream.read(&mut byte)).await.expect("the stream hangs");
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    let gone = adb.run(&["true"], SOON).await.unwrap_err();
    assert!(matches!(gone, TransportError::Unavailable { .. }), "{gone}");
    // The server still lists a device it has just lost, as offline: either way the next command is named.
    let text = gone.to_string();
    assert!(text.contains("then: adb devices") || text.contains("then: adb reconnect offline"), "{text}");
    daemon.start();
    a_command_answers(&adb, true).await;
}

#[tokio::test]
async fn a_device_that_is_not_there_is_named() {
    let daemon = Daemon::adbd();
    let server = Server::new("127.0.0.1", daemon.says["ADB_SERVER_PORT"].parse().unwrap());
    let adb = Adb::find(server.clone(), Some("nosuchserial")).await.unwrap();
    let error = adb.run(&["true"], SOON).await.unwrap_err();
    assert!(matches!(error, TransportError::Unavailable { .. }), "{error}");
    assert!(
        error.to_string().contains("adb:nosuchserial") && error.to_string().contains("Plug it in"),
        "{error}"
    );
    let only = Adb::find(server, None).await.unwrap();
    assert_eq!(only.device(), format!("adb:{}", daemon.says["ADB_SERIAL"]));
}
