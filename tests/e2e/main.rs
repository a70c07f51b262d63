//! End to end: the real binaries and the library against real daemons.
//!
//! The daemons come from `scripts/lab`. A test whose daemon cannot be started fails and says why.

// Every function here is a test or serves one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod adb;
mod agent;
mod bad_input;
mod lab;
mod look;
mod lost;
mod merge;
mod push;
mod several;
#[cfg(feature = "ssh")]
mod ssh;
mod support;
mod sweep;
mod untethered;
