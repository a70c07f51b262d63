//! The host binary: parse, dispatch, exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    opptune::cli::main(std::env::args_os())
}
