//! The agent: runs on the device, see `opptune::agent`.

fn main() {}
