use super::*;
use crate::transport::local::Local;
use crate::transport::{AgentStream, DialOptions, Output, Transport, TransportError};
use async_trait::async_trait;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// This machine over a link that damages the first files it brings home.
struct Bad(Arc<AtomicU32>);

#[async_trait]
impl Transport for Bad {
    fn device(&self) -> String {
        "adb:bad".into()
    }

    async fn open_agent(&self, argv: &[String]) -> Result<AgentStream, TransportError> {
        Local.open_agent(argv).await
    }

    async fn run(&self, argv: &[&str], deadline: Duration) -> Result<Output, TransportError> {
        Local.run(argv, deadline).await
    }

    async fn push(
        &self,
        local: &Path,
        offset: u64,
        remote: &str,
        sent: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), TransportError> {
        Local.push(local, offset, remote, sent).await
    }

    async fn pull(&self, remote: &str, local: &Path) -> Result<(), TransportError> {
        Local.pull(remote, local).await?;
        if self.0.load(Relaxed) > 0 {
            self.0.fetch_sub(1, Relaxed);
            std::fs::write(local, b"{\"event\": \"damaged\"}\n").unwrap();
        }
        Ok(())
    }
}

struct Lab {
    dir: tempfile::TempDir,
    bad: Arc<AtomicU32>,
}

impl Lab {
    /// A run on a device, which has a log and a sample so far.
    fn new() -> Lab {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("there/samples")).unwrap();
        std::fs::create_dir_all(dir.path().join("here/samples")).unwrap();
        std::fs::write(dir.path().join("there/log"), "of the device\n").unwrap();
        std::fs::write(dir.path().join("there/samples/1.csv"), "{}").unwrap();
        Lab { dir, bad: Arc::default() }
    }

    async fn fetch(&self, damage: u32, state: State) -> Result<Progress, CliError> {
        self.bad.store(damage, Relaxed);
        let device = Dial::over(Box::new(Bad(self.bad.clone())), DialOptions::default());
        let dir = self.dir.path().join("there").to_str().unwrap().to_owned();
        let detached = Detached { link: "adb:bad".into(), dir, state };
        detached.fetch(&device, &self.dir.path().join("here")).await
    }

    fn log(&self) -> Option<String> {
        std::fs::read_to_string(self.dir.path().join("here/log")).ok()
    }
}

#[tokio::test]
async fn what_arrives_damaged_is_fetched_again_or_refused() {
    let lab = Lab::new();
    let progress = lab.fetch(2, State::Started).await.unwrap();
    assert_eq!((progress.word(), lab.log().as_deref()), ("not started", Some("of the device\n")));
    assert!(lab.dir.path().join("here/samples/1.csv").exists());

    std::fs::write(lab.dir.path().join("there/log"), "of the device\nand more\n").unwrap();
    let error = lab.fetch(u32::MAX, State::Started).await.err().unwrap().to_string();
    assert!(error.contains("bringing log home") && error.contains("SHA-256"), "{error}");
    assert_eq!(lab.log().as_deref(), Some("of the device\n"), "what was here is unchanged");
    assert!(!lab.dir.path().join("here/log.part").exists());

    // What is here already, as it is there, is not fetched: it could be damaged only.
    lab.fetch(0, State::Started).await.unwrap();
    lab.fetch(u32::MAX, State::Started).await.unwrap();
    assert_eq!(lab.log().as_deref(), Some("of the device\nand more\n"));
}

#[tokio::test]
async fn a_run_that_never_reached_the_device_is_told_from_one_that_was_cleaned_away() {
    let lab = Lab::new();
    std::fs::remove_dir_all(lab.dir.path().join("there")).unwrap();
    assert_eq!(lab.fetch(0, State::Starting).await.unwrap().word(), "not started");
    let error = lab.fetch(0, State::Started).await.err().unwrap().to_string();
    assert!(error.contains("not there any more"), "{error}");
}

#[tokio::test]
async fn a_journal_that_grows_meanwhile_is_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("journal");
    std::fs::write(&file, "one\ntwo\n").unwrap();
    let hash = crate::digest::of_file(&file).unwrap().1;
    std::fs::write(&file, "one\ntwo\nthree\n").unwrap();
    let there = home::beginning(&Local, file.to_str().unwrap(), 8).await.unwrap();
    assert_eq!(there, Some(hash));
}

#[test]
fn a_device_names_no_other_files() {
    let hash = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
    let name = |name: &str| home::file_of(&format!("{hash}  {name}")).map(|(name, _)| name);
    assert_eq!(name("journal.jsonl").as_deref(), Some("journal.jsonl"));
    assert_eq!(name("samples/a-1@2.csv").as_deref(), Some("samples/a-1@2.csv"));
    for bad in ["config.toml", "../x", "samples/../x", "samples/.x", "samples/a/b", "samples/", "samples/a b"]
    {
        assert_eq!(name(bad), None, "{bad}");
    }
}
