//! The run directory: complete in itself. Configuration, profile, environment, journal, samples, table, report.

use super::config::{ConfigError, SweepConfig};
use super::samples;
use crate::profile::{self, Profile, ProfileError};
use crate::protocol::{Opened, Series};
use crate::trial::TrialId;
use crate::whole_file;
use std::io;
use std::path::{Path, PathBuf};

/// The directory of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
}

/// Why a run directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// A file or directory of it cannot be made, read or written.
    #[error("cannot {doing} {}: {error}. Check the path, its permissions and the free space", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// It is not a run directory.
    #[error("{} is no run directory: it has no {missing}. Give a directory that `opptune sweep` made below results/", path.display())]
    NotARun {
        /// The directory.
        path: PathBuf,
        /// The file that is missing.
        missing: &'static str,
    },
    /// Its configuration is damaged.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its profile is damaged.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// Something cannot be put into a file's format.
    #[error("cannot write {}: {why}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What the format's library said.
        why: String,
    },
}

impl RunDir {
    /// Makes `RESULTS/<date>-<device>-<name>/`; a taken name gets -2, -3, ...
    ///
    /// # Errors
    /// [`RunDirError::Io`].
    pub fn create(
        results: &Path,
        date: jiff::civil::Date,
        device: &str,
        name: &str,
    ) -> Result<Self, RunDirError> {
        let fault = |path: &Path, error| RunDirError::Io { doing: "make", path: path.to_owned(), error };
        std::fs::create_dir_all(results).map_err(|error| fault(results, error))?;
        let base = format!("{date}-{}-{}", plain(device), plain(name));
        let names = std::iter::once(base.clone()).chain((2u32..).map(|n| format!("{base}-{n}")));
        for path in names.map(|name| results.join(name)) {
            match std::fs::create_dir(&path) {
                Ok(()) => return RunDir { path }.with_samples(),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
                Err(error) => return Err(fault(&path, error)),
            }
        }
        Err(fault(results, io::Error::other("every name is taken")))
    }

    fn with_samples(self) -> Result<Self, RunDirError> {
        let path = self.path.join("samples");
        match std::fs::create_dir(&path) {
            Ok(()) => Ok(self),
            Err(error) => Err(RunDirError::Io { doing: "make", path, error }),
        }
    }

    /// Today, for [`RunDir::create`] (UTC: a run directory may be made on a device without a time zone).
    pub fn today() -> jiff::civil::Date {
        jiff::tz::TimeZone::UTC.to_datetime(jiff::Timestamp::now()).date()
    }

    /// An existing run directory.
    ///
    /// # Errors
    /// [`RunDirError::NotARun`] when files are missing that every run has.
    pub fn open(path: &Path) -> Result<Self, RunDirError> {
        let missing = ["config.toml", "profile.toml", "journal.jsonl"];
        match missing.into_iter().find(|name| !path.join(name).is_file()) {
            Some(missing) => Err(RunDirError::NotARun { path: path.to_owned(), missing }),
            None => Ok(RunDir { path: path.to_owned() }),
        }
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `journal.jsonl`.
    pub fn journal(&self) -> PathBuf {
        self.path.join("journal.jsonl")
    }

    /// `table.toml`.
    pub fn table(&self) -> PathBuf {
        self.path.join("table.toml")
    }

    /// `samples/`.
    pub fn samples(&self) -> PathBuf {
        self.path.join("samples")
    }

    /// The configuration of the run.
    ///
    /// # Errors
    /// [`RunDirError::Config`].
    pub fn config(&self) -> Result<SweepConfig, RunDirError> {
        Ok(SweepConfig::load(&self.path.join("config.toml"))?)
    }

    /// The profile of the run.
    ///
    /// # Errors
    /// [`RunDirError::Profile`].
    pub fn profile(&self) -> Result<Profile, RunDirError> {
        let path = self.path.join("profile.toml");
        let text = std::fs::read_to_string(&path).map_err(|error| RunDirError::Io {
            doing: "read",
            path: path.clone(),
            error,
        })?;
        Ok(profile::parse(&text, &path)?)
    }

    /// Writes what the run is made from, unless it is there already.
    ///
    /// # Errors
    /// [`RunDirError`].
    pub fn write_inputs(&self, config: &SweepConfig, profile: &Profile) -> Result<(), RunDirError> {
        self.write_once("config.toml", || toml::to_string_pretty(config).map_err(|e| e.to_string()))?;
        self.write_once("profile.toml", || toml::to_string_pretty(profile).map_err(|e| e.to_string()))
    }

    /// Writes what the device was found to be, the first time.
    ///
    /// # Errors
    /// [`RunDirError`].
    pub fn write_environment(&self, opened: &Opened) -> Result<(), RunDirError> {
        self.write_once("environment.json", || {
            serde_json::to_string_pretty(opened).map_err(|e| e.to_string())
        })
    }

    /// Writes what was sampled during a trial.
    ///
    /// # Errors
    /// [`RunDirError::Io`].
    pub fn write_samples(&self, id: &TrialId, series: &[Series]) -> Result<(), RunDirError> {
        match series.is_empty() {
            true => Ok(()),
            false => write(self.samples().join(samples::file_name(id)), &samples::csv(series)),
        }
    }

    fn write_once(
        &self,
        name: &str,
        text: impl FnOnce() -> Result<String, String>,
    ) -> Result<(), RunDirError> {
        let path = self.path.join(name);
        if path.exists() {
            return Ok(());
        }
        let text = text().map_err(|why| RunDirError::Format { path: path.clone(), why })?;
        write(path, &text)
    }
}

fn write(path: PathBuf, text: &str) -> Result<(), RunDirError> {
    whole_file::write(&path, text).map_err(|error| RunDirError::Io { doing: "write", path, error })
}

/// A name as part of a file name.
fn plain(name: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || c == '.' || c == '_' { c } else { '-' };
    let text: String = name.to_lowercase().chars().map(kept).collect();
    let text = text.trim_matches(['-', '.']);
    if text.is_empty() { "device".into() } else { text.chars().take(64).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_name_gets_a_number() {
        let results = tempfile::tempdir().unwrap();
        let date = jiff::civil::date(2026, 2, 3);
        let make =
            || RunDir::create(&results.path().join("results"), date, "Pixel 7 / Pro", "night.1").unwrap();
        let names =
            [make(), make(), make()].map(|run| run.path().file_name().unwrap().to_str().unwrap().to_owned());
        assert_eq!(names, ["", "-2", "-3"].map(|end| format!("2026-02-03-pixel-7---pro-night.1{end}")));
        assert!(make().samples().is_dir());
    }

    #[test]
    fn names_cannot_leave_the_directory() {
        assert_eq!(plain("../../etc"), "etc");
        assert_eq!(plain(".."), "device");
        assert_eq!(plain("adb:127.0.0.1:5555"), "adb-127.0.0.1-5555");
    }

    #[test]
    fn other_directories_are_no_runs() {
        let dir = tempfile::tempdir().unwrap();
        let error = RunDir::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("no config.toml"), "{error}");
    }
}
