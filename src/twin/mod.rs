//! A simulated device: SoC physics, governors, heat, node files. Stands in for the device *below* the agent.

use serde::{Deserialize, Serialize};

/// The physics of a twin, as its profile describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TwinSpec {}
