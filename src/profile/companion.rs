//! What a profile declares against whoever would fight a pin.

use serde::{Deserialize, Serialize};

/// Something that must be put out of the way. Saved, applied, restored like a knob.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CompanionSpec {
    /// Its name.
    pub id: String,
    /// What is done.
    pub action: CompanionAction,
    /// Not finding it is no fault (other builds of the same device).
    #[serde(default)]
    pub optional: bool,
    /// It alters thermal control: needs `accept-thermal-risk`.
    #[serde(default)]
    pub thermal: bool,
}

/// What a companion does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum CompanionAction {
    /// Writes `value` to a node (`*` may match several); the original text is put back.
    #[serde(rename_all = "kebab-case")]
    Node {
        /// The node or glob.
        path: String,
        /// What to write.
        value: String,
        /// What to write to restore, where the read-back form cannot be written back.
        #[serde(default)]
        restore: Option<String>,
        /// The node takes the bracketed word of its own list (`always_on [adaptive]`).
        #[serde(default)]
        bracketed: bool,
    },
    /// Sets a property; optionally restarts a service through `ctl.restart` after each change.
    #[serde(rename_all = "kebab-case")]
    Property {
        /// Name of the property.
        name: String,
        /// What to set.
        value: String,
        /// Service to restart, if any.
        #[serde(default)]
        restart: Option<String>,
    },
    /// Withdraws the votes in a `cpu:kHz` pair node of msm_performance.
    #[serde(rename_all = "kebab-case")]
    MsmPerformance {
        /// The node.
        path: String,
        /// The vote that means none: 0 for minima, 4294967295 for maxima.
        vote: u64,
    },
    /// Holds a kernel wakelock while the session lasts.
    #[serde(rename_all = "kebab-case")]
    Wakelock {},
    /// Brings every present CPU online; those that were offline are taken offline again.
    #[serde(rename_all = "kebab-case")]
    CpusOnline {},
    /// Sets cpufreq's `boost` to 1, so that boost steps can be reached. The kernel resets the maximum of every
    /// policy when `boost` changes, so the limits of all policies are saved before and written again after it,
    /// both ways.
    #[serde(rename_all = "kebab-case")]
    Boost {},
    /// Moves the agent to the top cpuset so that affinity can be applied.
    #[serde(rename_all = "kebab-case")]
    TopCpuset {},
    /// Suspends charging; verified by the gauge's sign, not by the node.
    #[serde(rename_all = "kebab-case")]
    SuspendCharging {
        /// The node.
        path: String,
        /// Text that suspends.
        stop: String,
        /// Text that resumes.
        run: String,
    },
}
