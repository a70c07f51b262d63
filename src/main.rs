//! The host binary: parse, dispatch, exit code.

fn main() {}
