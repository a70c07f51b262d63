//! The sweep configuration (`sweep.toml`).

mod check;

use crate::engine::EngineSpec;
use crate::trial::{GateSpec, Setting, Stage};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The version of the configuration format this build reads.
pub const SCHEMA: u32 = 1;

/// A sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SweepConfig {
    /// Format version; must be [`SCHEMA`].
    pub schema: u32,
    /// Name of the run; part of its directory's name.
    pub name: String,
    /// The device.
    pub device: DeviceConfig,
    /// The engine and model.
    pub engine: EngineSpec,
    /// What is measured.
    #[serde(default)]
    pub settings: SettingsConfig,
    /// How it is searched.
    #[serde(default)]
    pub search: SearchConfig,
    /// How each point is measured.
    #[serde(default)]
    pub measure: MeasureConfig,
    /// When a trial may start.
    #[serde(default)]
    pub gate: GateSpec,
    /// What is done when things go wrong.
    #[serde(default)]
    pub retry: RetryConfig,
}

/// The device of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DeviceConfig {
    /// Name of a profile that comes with opptune, or path of a profile file.
    pub profile: String,
    /// The link: `local`, `adb`, `adb:SERIAL`, `ssh:[USER@]HOST[:PORT]`. The command line may override it.
    #[serde(default = "local")]
    pub link: String,
}

fn local() -> String {
    "local".into()
}

/// The settings: one search each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct SettingsConfig {
    /// Output tokens of the decode settings.
    pub decode: Vec<u32>,
    /// Prompt tokens of the prefill settings, one per input-length bucket.
    pub prefill: Vec<u32>,
    /// Prompt tokens that come before a decode.
    pub decode_prompt: u32,
}

impl Default for SettingsConfig {
    /// The published settings.
    fn default() -> Self {
        SettingsConfig { decode: vec![32], prefill: vec![32, 64, 128, 256, 512], decode_prompt: 32 }
    }
}

impl SettingsConfig {
    /// The settings in the order they are searched: decode first, then prefill by length.
    pub fn list(&self) -> Vec<Setting> {
        let of = |stage, tokens: &[u32]| {
            tokens.iter().map(move |&t| Setting { stage, tokens: t }).collect::<Vec<_>>()
        };
        let mut all = of(Stage::Decode, &self.decode);
        all.extend(of(Stage::Prefill, &self.prefill));
        all
    }
}

/// How the search goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct SearchConfig {
    /// The strategy.
    pub strategy: StrategyKind,
    /// What is tuned for.
    pub goal: GoalKind,
    /// The bound: energy per token for `latency`, latency for `energy`.
    pub budget: Budget,
    /// Upper bound on inferences per setting, baseline not counted.
    pub max_inferences: Option<u32>,
    /// Seeds token ids, order of batches, and a twin's noise.
    pub seed: u64,
}

impl Default for SearchConfig {
    fn default() -> Self {
        SearchConfig {
            strategy: StrategyKind::TwoStep,
            goal: GoalKind::Latency,
            budget: Budget::Baseline,
            max_inferences: None,
            seed: 1,
        }
    }
}

/// The strategies there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StrategyKind {
    /// GPU first, then CPU, as published.
    TwoStep,
    /// Every combination of the two axes.
    Exhaustive,
}

/// The goals there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GoalKind {
    /// G1: lowest latency within an energy budget.
    Latency,
    /// G2: lowest energy within a latency target.
    Energy,
}

/// The bound of a goal: `"baseline"`, `{ factor = 0.9 }` or `{ absolute = 350.0 }`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Budget {
    /// What the default governors draw (reach) on the same setting.
    Baseline,
    /// That times a factor.
    Factor(f64),
    /// mJ per token for goal `latency`, ms for goal `energy`.
    Absolute(f64),
}

/// How a point is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct MeasureConfig {
    /// Trials per point; the median decides.
    pub repeats: u32,
    /// Baseline trials per setting.
    pub baseline_repeats: u32,
    /// A stage is repeated until it lasted this long.
    pub min_window_ms: u64,
    /// ... and the energy source ticked this often.
    pub min_updates: u32,
    /// ... but not more often than this.
    pub max_passes: u32,
    /// One point is measured again after every so many trials, to see drift; 0: never.
    pub drift_every: u32,
}

impl Default for MeasureConfig {
    fn default() -> Self {
        MeasureConfig {
            repeats: 3,
            baseline_repeats: 3,
            min_window_ms: 1000,
            min_updates: 10,
            max_passes: 200,
            drift_every: 0,
        }
    }
}

/// What is done when things go wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct RetryConfig {
    /// Attempts per trial for failures that may pass.
    pub attempts: u32,
    /// First wait between them; doubled each time.
    pub backoff_ms: u64,
    /// How long a device that is gone is waited for.
    pub wait_for_device_s: u64,
    /// What to do when the device was rebooted in between.
    pub on_reboot: OnReboot,
    /// The agent restores and leaves when it hears nothing for this long.
    pub lease_ms: u64,
}

impl Default for RetryConfig {
    fn default() -> Self {
        RetryConfig {
            attempts: 3,
            backoff_ms: 500,
            wait_for_device_s: 600,
            on_reboot: OnReboot::Continue,
            lease_ms: 10_000,
        }
    }
}

/// What to do after a reboot of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnReboot {
    /// Wait until it has settled and go on.
    Continue,
    /// Stop, resumable.
    Stop,
}

/// Why a configuration cannot be used. Each names the file and the key.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {error}. Give the path of a sweep configuration; examples/ has some that run as they are", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The system's answer.
        error: std::io::Error,
    },
    /// The file is not what the schema says.
    #[error("{}: {error}", file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// Line, key and what was expected.
        error: Box<toml::de::Error>,
    },
    /// A value makes no sense.
    #[error("{}: `{key}` {why}", file.display())]
    Value {
        /// The file.
        file: PathBuf,
        /// The key.
        key: String,
        /// What is wrong and what is expected.
        why: String,
    },
}

impl SweepConfig {
    /// Reads and validates a configuration file.
    ///
    /// # Errors
    /// [`ConfigError`], naming file and key.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| ConfigError::Unreadable { file: file.to_owned(), error })?;
        Self::parse(&text, file)
    }

    /// Parses and validates a configuration; `file` is for errors only.
    ///
    /// # Errors
    /// [`ConfigError`], naming file and key.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        let config: SweepConfig = toml::from_str(text)
            .map_err(|error| ConfigError::Syntax { file: file.to_owned(), error: Box::new(error) })?;
        match config.problem() {
            None => Ok(config),
            Some((key, why)) => Err(ConfigError::Value { file: file.to_owned(), key: key.into(), why }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(more: &str) -> Result<SweepConfig, ConfigError> {
        let base = "schema = 1\nname = \"n\"\ndevice = { profile = \"p\" }\nengine = { kind = \"spin\" }\n";
        SweepConfig::parse(&format!("{base}{more}"), Path::new("sweep.toml"))
    }

    #[test]
    fn defaults_are_the_published_settings_and_survive_a_file() {
        let config = parse("").unwrap();
        let names: Vec<String> = config.settings.list().iter().map(ToString::to_string).collect();
        assert_eq!(
            names,
            ["decode-32", "prefill-32", "prefill-64", "prefill-128", "prefill-256", "prefill-512"]
        );
        let text = toml::to_string_pretty(&config).unwrap();
        assert_eq!(SweepConfig::parse(&text, Path::new("x")).unwrap(), config);
    }

    #[test]
    fn budgets_are_written_three_ways() {
        for (text, budget) in [
            ("\"baseline\"", Budget::Baseline),
            ("{ factor = 0.9 }", Budget::Factor(0.9)),
            ("{ absolute = 350.0 }", Budget::Absolute(350.0)),
        ] {
            assert_eq!(parse(&format!("search = {{ budget = {text} }}")).unwrap().search.budget, budget);
        }
    }

    #[test]
    fn what_makes_no_sense_names_file_and_key() {
        for (text, key) in [
            ("search = { max-inferences = 2 }", "`search.max-inferences` is below measure.repeats"),
            ("search = { budget = { factor = -1.0 } }", "`search.budget` is -1"),
            ("settings = { decode = [], prefill = [] }", "`settings` names no decode"),
            ("settings = { prefill = [8, 8] }", "`settings` names a length twice"),
            ("settings = { decode = [1] }", "`settings.decode` has a length of 1"),
            ("measure = { repeats = 4000000000 }", "`measure.repeats` must be"),
            ("retry = { patience = 3 }", "patience"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with("sweep.toml: ") && error.contains(key), "{error}");
        }
    }
}
