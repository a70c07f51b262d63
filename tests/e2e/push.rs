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
    Survey {
        arch: std::env::consts::ARCH.into(),
        place: place.to_str().unwrap().into(),
        state_dirs: Vec::new(),
    }
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
    let daemon = Daemon::adbd(25100);
    let proxy = Proxy::up(25102, 25100);
    let server = Server::new("127.0.0.1", daemon.says["ADB_SERVER_PORT"].parse().unwrap());
    let adb = Adb::find(server, Some("127.0.0.1:25102")).await.unwrap();
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
    // A part whose beginning is not ours, and a finished file that was tampered with.
    std::fs::write(format!("{}.part", placed.path), b"not the beginning of this file").unwrap();
    std::fs::write(&placed.path, b"tampered").unwrap();
    let again = place(&Local, &there, parcel, &|_, _, _| ()).await.unwrap();
    assert_eq!(std::fs::read(&again.path).unwrap(), std::fs::read(&file).unwrap());
    assert!(!Path::new(&format!("{}.part", again.path)).exists());
}

/// This machine, with a disk that is full.
struct Full;

#[async_trait]
impl Transport for Full {
    fn device(&self) -> String {
        "adb:full".into()
    }

    async fn open_agent(&self, argv: &[String]) -> Result<AgentStream, TransportError> {
        Local.open_agent(argv).await
    }

    async fn run(&self, argv: &[&str], deadline: Duration) -> Result<Output, TransportError> {
        let mut output = Local.run(argv, deadline).await?;
        if argv[0] == "df" {
            output.stdout = "Filesystem 1024-blocks Used Available Capacity Mounted on\nx 9 1 8 9% /".into();
        }
        Ok(output)
    }

    async fn push(
        &self,
        _: &Path,
        _: u64,
        remote: &str,
        _: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), TransportError> {
        panic!("{remote} was sent all the same")
    }

    async fn pull(&self, remote: &str, local: &Path) -> Result<(), TransportError> {
        Local.pull(remote, local).await
    }
}

#[tokio::test]
async fn no_room_is_said_before_anything_is_sent() {
    let dir = scratch("push-space");
    let (file, there) = (dir.join("file"), here(&dir.join("place")));
    std::fs::write(&file, noise(100_000)).unwrap();
    let parcel = Parcel { file: &file, program: false };
    let refused = place(&Full, &there, parcel, &|_, _, _| ()).await.unwrap_err();
    assert!(!refused.may_pass() && refused.to_string().contains("MiB are needed"), "{refused}");
    assert!(refused.to_string().contains("opptune clean --device adb:full"), "{refused}");
}

#[tokio::test]
async fn an_agent_is_placed_started_and_cleaned_away() {
    let daemon = Daemon::adbd(25110);
    let server = Server::new("127.0.0.1", daemon.says["ADB_SERVER_PORT"].parse().unwrap());
    let adb = Adb::find(server, Some(&daemon.says["ADB_SERIAL"])).await.unwrap();
    let agent = Some(std::path::PathBuf::from(env!("CARGO_BIN_EXE_opptune-agent")));
    let dial = Dial::over(Box::new(adb), DialOptions { agent, ..DialOptions::default() });
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
