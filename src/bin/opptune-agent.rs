//! The agent: runs on the device, see `opptune::agent`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.split_first() {
        Some((word, rest)) if word == "restorer" => opptune::guard::restorer::run(rest),
        _ => ExitCode::from(2),
    }
}
