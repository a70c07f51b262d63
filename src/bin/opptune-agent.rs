//! The agent: runs on the device, see `opptune::agent` and `opptune::untethered`.

use std::process::ExitCode;

fn main() -> ExitCode {
    opptune::untethered::main_as(&[], std::env::args().skip(1))
}
