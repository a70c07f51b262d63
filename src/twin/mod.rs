//! A simulated device: SoC physics, governors, heat, node files. Stands in for the device *below* the agent.
//!
//! [`physics`] holds the formulas, [`spec`] the data a profile gives, [`soc`] lets time pass over both, and
//! [`nodes`] serves the result as the drivers of real phones do. [`Twin`] is the whole of it, shared between the
//! node files, the clock and the engine of a [`Device`].

mod battery;
mod check;
mod clock;
mod control;
mod domain;
mod engine;
mod governor;
mod heat;
mod machine;
mod nodes;
mod noise;
pub mod physics;
mod serve;
mod soc;
pub mod spec;

pub use clock::TwinClock;
pub use engine::TwinEngine;
pub use machine::{CONTROL, Entry, MARKER};
pub use serve::{Twin, TwinNodes, TwinProperties};
pub use spec::TwinSpec;

use crate::device::Device;
use crate::profile::Profile;

/// Why there is no twin of a profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TwinError {
    /// The profile describes a real device.
    #[error(
        "profile `{profile}` has no [twin] table; name a profile of a simulated device, e.g. pixel-7-twin"
    )]
    NotSimulated {
        /// Name of the profile.
        profile: String,
    },
    /// A value of the `[twin]` table makes no sense.
    #[error("profile `{profile}`: `{key}` {why}")]
    Value {
        /// Name of the profile.
        profile: String,
        /// The key.
        key: String,
        /// What is wrong and what is expected.
        why: String,
    },
}

/// An in-process twin on virtual time: a [`Device`] like any other. `seed` is the run's.
///
/// # Errors
/// [`TwinError`] when the profile has no usable `[twin]` table.
pub fn device(profile: &Profile, seed: u64) -> Result<Device, TwinError> {
    Ok(Twin::new(profile, seed)?.device())
}

#[cfg(test)]
mod tests;
