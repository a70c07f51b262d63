//! Runs without a host: the agent's binary runs the campaign itself, on the device, beside the agent.
//!
//! The same campaign, search and journal as on a host, over the in-memory link to the same agent. The run directory
//! on the device is the one that is collected.

mod args;
mod detach;
mod order;
mod run;
mod wait;

pub use args::main_as;

/// Names of files in a run directory on a device, beside those of every run.
pub mod files {
    /// Process id of the run.
    pub const PID: &str = "pid";
    /// What the run says.
    pub const LOG: &str = "log";
    /// When bursts of load began and ended: pairs of nanoseconds of the device's boot clock.
    pub const PULSES: &str = "pulses.json";
}

/// The subcommand, as the host types it.
pub const RUN_PLAN: &str = "run-plan";
