//! The device side.

mod gate;
mod metrics;
