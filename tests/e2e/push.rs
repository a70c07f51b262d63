//! Files on their way to a device: skipped, resumed, verified, refused.

use crate::lab::{Daemon, Proxy, noise, scratch};
use async_trait::async_trait;
use opptune::transport::adb::{Adb, Server};
use opptune::transport::local::Local;
use opptune::transport::push::{Parcel, Survey, place};
use opptune::transport::{AgentStream, Dial, DialOptions, Output, Transport, TransportError};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

fn here(place: &Path) -> Survey {
    let place = place.to_str().unwrap().into();
    Survey { arch: std::env::consts::ARCH.into(), cpu_features: Vec::new(), place, state_dirs: Vec::new() }
}

fn mode(path: &str) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Pushes a file through a proxy that resets the connection at three points, and counts the bytes.
pub async fn broken_three_times(link: &dyn Transport, proxy: &Proxy, test: &str) {
    let dir = scratch(test);
    let (file, there) = (dir.join("model.gguf"), here(&dir.join("place")));
    let size = 60_000_000;
    let bytes = noise(size);
    std::fs::write(&file, &bytes).unwrap();
    let cuts = Mutex::new(vec![size * 3 / 4, size / 2, size / 4]);
    let cut = |_: &str, at: u64, _: u64| {
        let mut left = cuts.lock().unwrap();
        if left.last().is_some_and(|&next| at >= next as u64) {
            left.pop();
            proxy.tell("cut", &[]);
        }
    };
    let before = proxy.bytes_up();
    let placed = place(link, &there, Parcel { file: &file, program: false }, &cut).await.unwrap();
    let carried = proxy.bytes_up() - before;
    assert!(cuts.lock().unwrap().is_empty(), "not all cuts were made: {cuts:?}");
    assert!(std::fs::read(&placed.path).unwrap() == bytes);
    assert_eq!(mode(&placed.path), 0o600);
    // Less than one whole file twice: what had arrived before each cut was not sent again.
    println!("{test}: {size} bytes, {} sent by the host, {carried} through the proxy", placed.sent);
    assert!((size as u64..size as u64 * 3 / 2).contains(&carried), "{carried} bytes went through the proxy");
    let again = place(link, &there, Parcel { file: &file, program: false }, &|_, _, _| ()).await.unwrap();
    assert_eq!((again.path, again.sent), (placed.path, 0));
}

#[tokio::test]
async fn a_push_over_adb_goes_on_after_every_cut() {
    let daemon = Daemon::adbd();
    let proxy = Proxy::up(daemon.port());
    let server = Server::new("127.0.0.1", daemon.says["ADB_SERVER_PORT"].parse().unwrap());
    let adb = Adb::find(server, Some(&proxy.serial())).await.unwrap();
    broken_three_times(&adb, &proxy, "push-adb").await;
}

#[tokio::test]
async fn what_is_damaged_on_the_way_is_sent_again() {
    let dir = scratch("push-damaged");
    let (file, there) = (dir.join("agent"), here(&dir.join("place")));
    std::fs::write(&file, noise(100_000)).unwrap();
    let parcel = Parcel { file: &file, program: true };
    let placed = place(&Local, &there, parcel, &|_, _, _| ()).await.unwrap();
    assert_eq!((placed.sent, mode(&placed.path)), (100_000, 0o700));
    assert_eq!(mode(&there.place), 0o700);
    // What another push has left is gone on with.
    std::fs::write(format!("{}.1.part", placed.path), &std::fs::read(&file).unwrap()[..60_000]).unwrap();
    std::fs::remove_file(&placed.path).unwrap();
    let resumed = place(&Local, &there, parcel, &|_, _, _| ()).await.unwrap();
    assert_eq!((resumed.sent, mode(&resumed.path)), (40_000, 0o700));
    // A part whose beginning is not ours, and a finished file that was tampered with.
    std::fs::write(format!("{}.part", placed.path), b"not the beginning of this file").unwrap();
    std::fs::write(&placed.path, b"tampered").unwrap();
    let again = place(&Local, &there, parcel, &|_, _, _| ()).await.unwrap();
    assert_eq!(std::fs::read(&again.path).unwrap(), std::fs::read(&file).unwrap());
    assert_eq!(files_beside(&again.path), 1);
}

/// Files in the directory of this one, itself included.
fn files_beside(path: &str) -> usize {
    std::fs::read_dir(Path::new(path).parent().unwrap()).unwrap().count()
}

/// Two pushes of the same file at once, again and again: both end with the whole file.
async fn pushed_twice_at_once(one: &dyn Transport, other: &dyn Transport, test: &str) {
    let dir = scratch(test);
    let file = dir.join("agent");
    std::fs::write(&file, noise(6_000_000)).unwrap();
    for round in 0..5 {
        let there = here(&dir.join(format!("place-{round}")));
        let parcel = Parcel { file: &file, program: true };
        let push = |link| place(link, &there, parcel, &|_, _, _| ());
        let (one, other) = tokio::join!(push(one), push(other));
        let (one, other) = (one.unwrap(), other.unwrap());
        assert_eq!((&one.path, mode(&one.path)), (&other.path, 0o700));
        assert!(std::fs::read(&one.path).unwrap() == std::fs::read(&file).unwrap());
        assert_eq!(files_beside(&one.path), 1, "a part is left");
    }
}

#[tokio::test]
async fn two_pushes_at_once_do_not_spoil_each_other() {
    pushed_twice_at_once(&Local, &Local, "push-twice").await;
    let daemon = Daemon::adbd();
    let server = Server::new("127.0.0.1", daemon.says["ADB_SERVER_PORT"].parse().unwrap());
    let link = async || Adb::find(server.clone(), Some(&daemon.says["ADB_SERIAL"])).await.unwrap();
    pushed_twice_at_once(&link().await, &link().await, "push-twice-adb").await;
}

/// A device that answers some commands differently, and whose files are somewhere else than this machine's.
struct Told<T, F> {
    link: T,
    answer: F,
    /// Instead of [`OF_ROOT`].
    of_root: String,
}

/// Where root's agents keep their state. Other agents of this machine may be at work there.
const OF_ROOT: &str = "/var/lib/opptune";

#[async_trait]
impl<T: Transport, F: Fn(&[&str], &mut Output) + Send + Sync> Transport for Told<T, F> {
    fn device(&self) -> String {
        "adb:told".into()
    }

    async fn open_agent(&self, argv: &[String]) -> Result<AgentStream, TransportError> {
        self.link.open_agent(argv).await
    }

    async fn run(&self, argv: &[&str], deadline: Duration) -> Result<Output, TransportError> {
        let moved: Vec<_> = argv.iter().map(|word| word.replace(OF_ROOT, &self.of_root)).collect();
        let words: Vec<_> = moved.iter().map(String::as_str).collect();
        let mut output = self.link.run(&words, deadline).await?;
        (self.answer)(argv, &mut output);
        Ok(output)
    }

    async fn push(
        &self,
        local: &Path,
        offset: u64,
        remote: &str,
        sent: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), TransportError> {
        self.link.push(local, offset, remote, sent).await
    }

    async fn pull(&self, remote: &str, local: &Path) -> Result<(), TransportError> {
        self.link.pull(remote, local).await
    }
}

#[tokio::test]
async fn a_part_that_another_push_has_put_in_place_is_done() {
    let dir = scratch("push-overtaken");
    let (file, there) = (dir.join("agent"), here(&dir.join("place")));
    std::fs::write(&file, noise(100_000)).unwrap();
    // Between the look at its part and the next command.
    let answer = |argv: &[&str], _: &mut Output| {
        if let ["sha256sum", part] = argv
            && part.ends_with(".part")
        {
            std::fs::rename(part, Path::new(part).with_file_name("agent")).unwrap();
        }
    };
    let overtaken = Told { link: Local, answer, of_root: OF_ROOT.into() };
    let parcel = Parcel { file: &file, program: true };
    let placed = place(&overtaken, &there, parcel, &|_, _, _| ()).await.unwrap();
    assert_eq!(std::fs::read(&placed.path).unwrap(), std::fs::read(&file).unwrap());
}

#[tokio::test]
async fn no_room_is_said_before_anything_is_sent() {
    let dir = scratch("push-space");
    let (file, there) = (dir.join("file"), here(&dir.join("place")));
    std::fs::write(&file, noise(100_000)).unwrap();
    let parcel = Parcel { file: &file, program: false };
    let answer = |argv: &[&str], output: &mut Output| {
        if argv[0] == "df" {
            output.stdout = "Filesystem 1024-blocks Used Available Capacity Mounted on\nx 9 1 8 9% /".into();
        }
    };
    let full = Told { link: Local, answer, of_root: OF_ROOT.into() };
    let sent = |_: &str, at: u64, _: u64| panic!("{at} bytes were sent all the same");
    let refused = place(&full, &there, parcel, &sent).await.unwrap_err();
    assert!(!refused.may_pass() && refused.to_string().contains("MiB are needed"), "{refused}");
    assert!(refused.to_string().contains("opptune clean --device adb:told"), "{refused}");
}

#[tokio::test]
async fn an_agent_is_placed_started_and_cleaned_away() {
    let daemon = Daemon::adbd();
    let server = Server::new("127.0.0.1", daemon.says["ADB_SERVER_PORT"].parse().unwrap());
    let adb = Adb::find(server, Some(&daemon.says["ADB_SERIAL"])).await.unwrap();
    let agent = Some(std::path::PathBuf::from(env!("CARGO_BIN_EXE_opptune-agent")));
    // Another home, so that what other tests have put into this machine's is left alone.
    let other_home = scratch("push-clean");
    let of_root = other_home.join("of-root").to_str().unwrap().to_owned();
    let answer = move |argv: &[&str], output: &mut Output| {
        if argv.last().is_some_and(|script| script.contains("uname -m")) {
            let mut lines: Vec<_> = output.stdout.lines().collect();
            lines[2] = other_home.to_str().unwrap();
            output.stdout = lines.join("\n");
        }
    };
    let told = Told { link: adb, answer, of_root };
    let dial = Dial::over(Box::new(told), DialOptions { agent, ..DialOptions::default() });
    let home = dial.survey().await.unwrap().place.clone();
    let argv = dial.place_agent().await.unwrap();
    assert!(argv[0].starts_with(&home) && argv[0].ends_with("/opptune-agent"), "{argv:?}");
    assert_eq!(mode(&argv[0]), 0o700);
    let state = Path::new(&dial.survey().await.unwrap().state_dirs[1]).to_owned();
    std::fs::create_dir_all(&state).unwrap();
    std::fs::write(state.join("restore.json"), "{}").unwrap();
    let dirty = dial.clean().await.unwrap_err().to_string();
    assert!(dirty.contains("values to restore") && dirty.contains("opptune restore"), "{dirty}");
    std::fs::remove_file(state.join("restore.json")).unwrap();
    let lock = std::fs::File::create(state.join("lock")).unwrap();
    lock.lock().unwrap();
    assert!(dial.clean().await.unwrap_err().to_string().contains("an agent is using it"));
    drop(lock);
    dial.clean().await.unwrap();
    assert!(!Path::new(&home).exists());
}
