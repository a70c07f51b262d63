//! A run from configuration to table: plan, baseline, search, journal, retry, resume.
//!
//! The campaign decides what is measured and in which order. It talks to one agent over one link and never
//! touches a node. Everything it learns goes through the journal before it is used, so a run that was cut off
//! at any point goes on where it was.

pub mod config;
pub mod journal;
