//! A run from configuration to table: plan, baseline, search, journal, retry, resume.
//!
//! The campaign decides what is measured and in which order. It talks to one agent over one link and never
//! touches a node. Everything it learns goes through the journal before it is used, so a run that was cut off
//! at any point goes on where it was: the [`ledger`] is the fold of the journal, the [`plan`] is a pure
//! function of configuration and ledger, and resuming is nothing but walking the plan again while everything
//! it asks for is settled already.

mod attempt;
pub mod axes;
mod compare;

pub mod config;
mod connect;
pub mod identity;
pub mod journal;
pub mod ledger;
mod merge;

mod observe;
mod outcome;
pub mod plan;
mod retry;
mod run;
mod rundir;
mod samples;
mod session;
mod tabulate;

pub use compare::{Comparison, Found, compare};
pub use merge::{Run, merge};
pub use observe::{Observer, Update};
pub use outcome::{CampaignError, End, Outcome};
pub use run::Campaign;
pub use rundir::{RunDir, RunDirError};
#[cfg(feature = "host")]
pub(crate) use samples::is_file_name as is_sample_name;
pub use tabulate::table_of;

#[cfg(test)]
mod tests;
