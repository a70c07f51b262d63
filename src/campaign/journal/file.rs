//! The journal's file: append, read back, repair after a crash.
//!
//! A host that dies in the middle of a write leaves a torn last line: it is dropped with a warning, and cut
//! off before the next event is appended. Any other damage is an error, because what follows it cannot be
//! trusted to belong to what precedes it.

use super::{Event, Line, VERSION};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Appended events reach the disk at the latest after this long (they reach the kernel at once).
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be read or written.
    #[error("cannot {doing} the journal {}: {error}. Check the path and the free space, then resume the run", file.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file.
        file: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// Another process writes this run.
    #[error("the run {} is being written by another opptune. Wait for it, or end it, then resume", file.display())]
    InUse {
        /// The journal.
        file: PathBuf,
    },
    /// A line other than a torn last one is damaged.
    #[error("{}: line {line} is damaged: {why}. Put the file back from a copy, or keep the first {} lines of it and resume: what came later is measured again", file.display(), line - 1)]
    Damaged {
        /// The journal.
        file: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// Written by another version of the tool.
    #[error("{}: `version` is {found}, this build reads {VERSION}. Resume it with the opptune that wrote it (build {build})", file.display())]
    Version {
        /// The journal.
        file: PathBuf,
        /// What it says.
        found: u32,
        /// The build that wrote it.
        build: String,
    },
}

/// What a journal holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The events, in order.
    pub lines: Vec<Line>,
    /// What to tell the user about a torn last line that was dropped.
    pub warning: Option<String>,
    /// Bytes of the file that hold `lines`.
    sound_bytes: u64,
    /// The last line is whole but for its line feed.
    unended: bool,
}

/// Reads a journal without changing it.
///
/// # Errors
/// [`JournalError`].
pub fn read(file: &Path) -> Result<History, JournalError> {
    let bytes = std::fs::read(file).map_err(|error| fault("read", file, error))?;
    parse(&bytes, file)
}

fn fault(doing: &'static str, file: &Path, error: io::Error) -> JournalError {
    JournalError::Io { doing, file: file.to_owned(), error }
}

fn parse(bytes: &[u8], file: &Path) -> Result<History, JournalError> {
    let mut history = History::default();
    for (index, text) in bytes.split_inclusive(|&b| b == b'\n').enumerate() {
        let ended = text.ends_with(b"\n");
        match understand(text, index) {
            Ok(line) => history.lines.push(line),
            Err(_) if !ended => {
                let dropped = format!("line {} of {} was torn off and is dropped", index + 1, file.display());
                history.warning = Some(dropped);
                break;
            }
            Err(why) => return Err(JournalError::Damaged { file: file.to_owned(), line: index + 1, why }),
        }
        history.sound_bytes += text.len() as u64;
        history.unended = !ended;
    }
    check_version(&history, file)?;
    Ok(history)
}

/// Reads line number `index` (from 0).
fn understand(text: &[u8], index: usize) -> Result<Line, String> {
    let line: Line = serde_json::from_slice(text).map_err(|e| e.to_string())?;
    match line.seq == index as u64 {
        true => Ok(line),
        false => Err(format!("`seq` is {}, {index} was expected", line.seq)),
    }
}

fn check_version(history: &History, file: &Path) -> Result<(), JournalError> {
    match history.lines.first().map(|line| &line.event) {
        None | Some(Event::Created { version: VERSION, .. }) => Ok(()),
        Some(Event::Created { version, build }) => {
            Err(JournalError::Version { file: file.to_owned(), found: *version, build: build.clone() })
        }
        Some(_) => Err(JournalError::Damaged {
            file: file.to_owned(),
            line: 1,
            why: "the first event is not `created`".into(),
        }),
    }
}

/// A journal open for appending; no other process can open it at the same time.
pub struct Journal {
    file: File,
    path: PathBuf,
    next: u64,
    synced: Instant,
    unsynced: bool,
}

impl Journal {
    /// Opens the journal at `path` (made if it is not there), repairs a torn end, and returns what it holds.
    /// An empty journal gets its first event.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open(path: &Path) -> Result<(Self, History), JournalError> {
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).open(path);
        let file = file.map_err(|error| fault("open", path, error))?;
        file.try_lock().map_err(|error| match error {
            std::fs::TryLockError::WouldBlock => JournalError::InUse { file: path.to_owned() },
            std::fs::TryLockError::Error(error) => fault("lock", path, error),
        })?;
        let history = read(path)?;
        let next = history.lines.len() as u64;
        let mut journal =
            Journal { file, path: path.to_owned(), next, synced: Instant::now(), unsynced: false };
        journal.repair(&history).map_err(|error| fault("repair", path, error))?;
        if history.lines.is_empty() {
            let build = env!("CARGO_PKG_VERSION").to_owned();
            journal.append(&Event::Created { version: VERSION, build })?;
        }
        Ok((journal, history))
    }

    /// Cuts a torn end off and ends a line that lost only its line feed.
    fn repair(&mut self, history: &History) -> io::Result<()> {
        self.file.set_len(history.sound_bytes)?;
        self.file.seek(SeekFrom::End(0))?;
        if history.unended {
            self.file.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Appends an event with one write; syncs to the disk if the last time was long enough ago.
    ///
    /// # Errors
    /// [`JournalError::Io`].
    pub fn append(&mut self, event: &Event) -> Result<(), JournalError> {
        self.write(event).map_err(|error| fault("write", &self.path, error))?;
        match self.synced.elapsed() >= SYNC_EVERY {
            true => self.sync(),
            false => Ok(()),
        }
    }

    fn write(&mut self, event: &Event) -> io::Result<()> {
        let at = jiff::Timestamp::now().to_string();
        let mut text = serde_json::to_vec(&Line { seq: self.next, at, event: event.clone() })?;
        text.push(b'\n');
        self.file.write_all(&text)?;
        self.next += 1;
        self.unsynced = true;
        Ok(())
    }

    /// Brings everything appended to the disk.
    ///
    /// # Errors
    /// [`JournalError::Io`].
    pub fn sync(&mut self) -> Result<(), JournalError> {
        if self.unsynced {
            self.file.sync_data().map_err(|error| fault("sync", &self.path, error))?;
        }
        self.unsynced = false;
        self.synced = Instant::now();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events() -> Vec<Event> {
        ["one", "two"].map(|why| Event::Interrupted { why: why.into() }).into()
    }

    /// A directory with a journal of three lines, and the bytes of it.
    fn journal() -> (tempfile::TempDir, PathBuf, Vec<u8>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let (mut journal, _) = Journal::open(&path).unwrap();
        events().iter().for_each(|event| journal.append(event).unwrap());
        let bytes = std::fs::read(&path).unwrap();
        (dir, path, bytes)
    }

    #[test]
    fn what_is_appended_is_read_back_with_its_numbers() {
        let (_dir, path, _) = journal();
        let history = read(&path).unwrap();
        assert_eq!(history.warning, None);
        assert_eq!(history.lines.iter().map(|l| l.seq).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(history.lines[1..].iter().map(|l| l.event.clone()).collect::<Vec<_>>(), events());
    }

    #[test]
    fn a_journal_cut_at_any_byte_opens_and_goes_on() {
        let (_dir, path, bytes) = journal();
        for cut in 0..=bytes.len() {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let whole = bytes[..cut].iter().filter(|&&b| b == b'\n').count();
            let torn = cut > 0 && bytes[cut - 1] != b'\n';
            let lost_line_feed = torn && bytes.get(cut) == Some(&b'\n');
            let (mut journal, history) = Journal::open(&path).unwrap();
            assert_eq!(history.lines.len(), whole + usize::from(lost_line_feed), "cut at {cut}");
            assert_eq!(history.warning.is_some(), torn && !lost_line_feed, "cut at {cut}");
            journal.append(&events()[0]).unwrap();
            drop(journal);
            let after = read(&path).unwrap();
            assert_eq!(after.lines.len(), history.lines.len().max(1) + 1, "cut at {cut}");
            assert_eq!(after.warning, None);
        }
    }

    #[test]
    fn damage_anywhere_else_names_the_line() {
        let (_dir, path, bytes) = journal();
        let text = String::from_utf8(bytes).unwrap();
        let spoils = [
            (text.replacen("\"one\"", "\"one", 1), "line 2"),
            (text.replacen("\"seq\":1", "\"seq\":5", 1), "line 2 is damaged: `seq` is 5"),
            (text.replacen("interrupted", "interupted", 1), "line 2"),
            (text.lines().skip(1).map(|l| format!("{l}\n")).collect(), "line 1"),
            (format!("{text}\n"), "line 4"),
            (text.replacen("\"version\":1", "\"version\":9", 1), "`version` is 9, this build reads 1"),
        ];
        for (spoilt, told) in spoils {
            std::fs::write(&path, spoilt).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(told) && error.contains("journal.jsonl"), "{error}");
        }
    }

    #[test]
    fn a_run_has_one_writer() {
        let (_dir, path, _) = journal();
        let (first, _) = Journal::open(&path).unwrap();
        assert!(matches!(Journal::open(&path), Err(JournalError::InUse { .. })));
        drop(first);
        assert!(Journal::open(&path).is_ok());
    }
}
