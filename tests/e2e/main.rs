//! End to end: the real library and binaries against real daemons.
//!
//! The daemons come from `scripts/lab`. A test whose daemon cannot be started fails and says why.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // these are tests

mod adb;
mod lab;
mod push;
