//! Brings home what there is of a run on a device, and makes sure that it is what the device has.

use super::{Detached, QUICK, State, io};
use crate::campaign::journal;
use crate::campaign::ledger::Ledger;
use crate::campaign::{CampaignError, is_sample_name};
use crate::cli::CliError;
use crate::cli::target::{AgentArgs, dial};
use crate::digest;
use crate::transport::{Dial, Transport, TransportError, sha256};
use crate::untethered::{RUN_PLAN, files};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a run directory on a device may hold beside its samples.
const FILES: [&str; 5] = ["journal.jsonl", "environment.json", "table.toml", files::LOG, files::PULSES];
/// How often a file is brought home that arrives damaged, or changes meanwhile.
const TRIES: u32 = 4;

/// How far a run on a device is.
pub struct Progress {
    /// Whether the device ever began it.
    pub begun: bool,
    /// Whether its process is there.
    pub running: bool,
    /// Whether it is complete.
    pub completed: bool,
    /// Trials that are done.
    pub trials: usize,
}

impl Progress {
    /// What to say of a run that never began.
    pub const NOT_BEGUN: &'static str = "this host went before the device had begun the run, and nothing was measured; start \
                                         it again with `opptune sweep --detach`";

    /// In a word.
    pub fn word(&self) -> &'static str {
        match self {
            Progress { completed: true, .. } => "complete",
            Progress { running: true, .. } => "running",
            Progress { begun: true, .. } => "stopped",
            Progress { begun: false, .. } => "not started",
        }
    }
}

impl Detached {
    /// Brings home what there is of the run `run` left to a device, and says how far it is.
    pub async fn bring_home(run: &Path, agent: &AgentArgs) -> Result<Progress, CliError> {
        let detached = Self::load(run)?;
        let device = dial(&detached.link, agent).await?;
        detached.fetch(&device, run).await
    }

    /// Brings home what there is and says how far it is.
    pub(super) async fn fetch(&self, device: &Dial, run: &Path) -> Result<Progress, CliError> {
        let link = device.transport();
        let there = link.run_as_agent(&["test", "-d", &self.dir], QUICK).await?.status == Some(0);
        match (there, self.state) {
            (true, _) => (),
            (false, State::Starting) => {
                return Ok(Progress { begun: false, running: false, completed: false, trials: 0 });
            }
            (false, State::Started) => return Err(self.lost(link)),
        }
        // Asked first: a run that ends in between has written everything by the time it is fetched.
        let process = self.process(link).await?;
        self.fetch_files(link, run).await?;
        let file = run.join("journal.jsonl");
        let lines = match file.exists() {
            true => journal::read(&file).map_err(CampaignError::from)?.lines,
            false => Vec::new(),
        };
        let ledger = Ledger::of(&lines);
        let (begun, running) = (process.is_some(), process == Some(true));
        Ok(Progress { begun, running, completed: ledger.completed(), trials: ledger.finished().count() })
    }

    fn lost(&self, link: &dyn Transport) -> CliError {
        let why = format!("{} is not there any more: it was cleaned up, or is another device's", self.dir);
        let next = "What was brought home before is in the run directory here; begin anew with: opptune sweep --detach";
        TransportError::refused(&link.device(), "looking for the run", why, next).into()
    }

    /// Whether the process that wrote its id still is the run; `None` when none ever did.
    async fn process(&self, link: &dyn Transport) -> Result<Option<bool>, CliError> {
        let pid = link.run_as_agent(&["cat", &format!("{}/{}", self.dir, files::PID)], QUICK).await?.stdout;
        let Ok(pid) = pid.trim().parse::<u32>() else { return Ok(None) };
        let looked =
            link.run_as_agent(&["grep", "-q", RUN_PLAN, &format!("/proc/{pid}/cmdline")], QUICK).await?;
        Ok(Some(looked.status == Some(0)))
    }

    /// Brings home every file that is not here as it is there.
    async fn fetch_files(&self, link: &dyn Transport, run: &Path) -> Result<(), CliError> {
        // The place above is the login's alone; the run may be root's.
        let open = link.run_as_agent(&["chmod", "-R", "go+rX", &self.dir], QUICK).await?;
        open.succeeded(&link.device(), "opening the run directory")?;
        for (name, hash) in self.listed(link).await? {
            let file = run.join(&name);
            if digest::of_file(&file).is_ok_and(|(_, ours)| ours == hash) {
                continue;
            }
            self.fetch_file(link, &name, &hash, &file).await?;
        }
        Ok(())
    }

    /// Files of the run with their hashes. A device cannot make the host write anywhere else.
    async fn listed(&self, link: &dyn Transport) -> Result<BTreeMap<String, String>, CliError> {
        let script = format!(
            "{} cd {} && for f in {} samples/*; do test -f $f && hash $f; done",
            sha256::shell_function(),
            self.dir,
            FILES.join(" ")
        );
        let said = link.run(&["sh", "-c", &script], sha256::PATIENCE).await?.stdout;
        Ok(said.lines().filter_map(file_of).collect())
    }

    /// Brings one file home in place of ours, verified: by the hash it had when it was listed, or, if it has grown
    /// since, by that of its beginning.
    async fn fetch_file(
        &self,
        link: &dyn Transport,
        name: &str,
        listed: &str,
        file: &Path,
    ) -> Result<(), CliError> {
        let remote = format!("{}/{name}", self.dir);
        let beside = PathBuf::from(format!("{}.part", file.display()));
        for _ in 0..TRIES {
            link.pull(&remote, &beside).await?;
            let (size, ours) = digest::of_file(&beside).map_err(|error| io("read", &beside, error))?;
            if ours == listed || beginning(link, &remote, size).await?.as_deref() == Some(&ours) {
                return std::fs::rename(&beside, file).map_err(|error| io("write", file, error));
            }
        }
        // It is of no use; that it may stay is no reason to hide the error.
        let _ = std::fs::remove_file(&beside);
        let why = format!(
            "its SHA-256 here is not the one there, {TRIES} times; what was here before is unchanged"
        );
        let next = "The device still has it. Look at cable and memory, then collect the run again";
        Err(TransportError::refused(&link.device(), format!("bringing {name} home"), why, next).into())
    }
}

/// Hash of the first `size` bytes of a file on the device: a journal that has grown since still begins as it did.
pub(super) async fn beginning(
    link: &dyn Transport,
    remote: &str,
    size: u64,
) -> Result<Option<String>, CliError> {
    let script = format!("{} head -c {size} {remote} | hash", sha256::shell_function());
    Ok(sha256::parse(&link.run(&["sh", "-c", &script], sha256::PATIENCE).await?.stdout))
}

/// Name and hash in a line of sha256sum, if the name is one that a run has.
pub(super) fn file_of(line: &str) -> Option<(String, String)> {
    let hash = sha256::parse(line)?;
    let name = line.split_once(char::is_whitespace)?.1.trim();
    let ours = FILES.contains(&name) || name.strip_prefix("samples/").is_some_and(is_sample_name);
    ours.then(|| (name.to_owned(), hash))
}
