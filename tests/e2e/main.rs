//! End to end: the real binaries and the library against real daemons.
//!
//! The daemons come from `scripts/lab`. A test whose daemon cannot be started fails and says why.

mod adb;
mod agent;
mod lab;
mod support;
mod sweep;
