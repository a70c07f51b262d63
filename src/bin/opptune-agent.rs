//! The agent: runs on the device, see `opptune::agent`.

use std::process::ExitCode;

fn main() -> ExitCode {
    opptune::agent::main(std::env::args().skip(1))
}
