//! opptune finds, on a rooted test device, the CPU/GPU operating points that each stage of on-device LLM
//! inference should run at, and writes them as a frequency table.
//!
//! A trial travels: `sweep.toml` -> [`campaign`] -> [`search`] -> [`protocol`] -> [`transport`] -> [`agent`] ->
//! [`knob`], [`sensor`], [`engine`] -> measurement -> journal -> [`table`] -> report. Who may know whom is part
//! of the design: `search`, `protocol`, `units` and `stats` know nobody above them; the agent never uses the
//! campaign; the campaign never touches a node; nothing above [`device`] asks whether a device is a [`twin`].

pub mod agent;
pub mod campaign;
#[cfg(feature = "host")]
pub mod cli;
pub mod clock;
pub mod companion;
pub mod condition;
pub mod device;
mod digest;
pub mod engine;
pub mod guard;
pub mod knob;
pub mod probe;
pub mod profile;
pub mod protocol;
#[cfg(feature = "host")]
pub mod report;
pub mod search;
pub mod sensor;
pub mod stats;
pub mod sysfs;
pub mod table;
pub mod transport;
pub mod trial;
pub mod twin;
pub mod units;
pub mod untethered;
mod whole_file;
