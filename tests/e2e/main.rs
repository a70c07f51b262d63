//! End to end, over the real binaries.

mod support;
mod sweep;
