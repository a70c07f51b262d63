//! End to end: the real library and binaries against real daemons.
//!
//! The daemons come from `scripts/lab`. A test whose daemon cannot be started fails and says why.

mod adb;
mod lab;
