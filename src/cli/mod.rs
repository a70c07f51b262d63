//! The command line: one file per subcommand, each a set of arguments and what is done with them.

mod agent;
mod clean;
mod collect;
mod compare;
mod completions;
mod detached;
mod devices;
mod doctor;
mod error;
mod exit;
mod merge;
mod probe;
mod progress;
mod report;
mod restore;
mod resume;
mod runner;
mod session;
mod status;
mod sweep;
mod table;
mod target;
mod text;

pub use error::CliError;
pub use exit::{EXIT_CODES, Exit};

use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  opptune sweep examples/pixel-7-twin.toml    a whole sweep on a simulated phone, in seconds
  opptune devices                             profiles that come with opptune, and what is attached
  opptune doctor --device adb                 what would spoil a run on the attached phone
  opptune sweep my-phone.toml --device adb    a sweep on it
  opptune table show results/RUN              the frequencies to use";

/// Finds the CPU and GPU frequencies that each stage of on-device LLM inference should run at.
///
/// opptune pins the frequencies of a rooted device, runs fixed prefill and decode workloads on it, measures
/// latency and energy, and searches for the best pair per stage and length. What it changes on a device it
/// puts back, whatever happens.
#[derive(Debug, Parser)]
#[command(name = "opptune", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Sweep(sweep::Args),
    Resume(resume::Args),
    Status(status::Args),
    Collect(collect::Args),
    Table(table::Args),
    Report(report::Args),
    Compare(compare::Args),
    Merge(merge::Args),
    Devices(devices::Args),
    Probe(probe::Args),
    CheckPins(probe::CheckArgs),
    Doctor(doctor::Args),
    Restore(restore::Args),
    Clean(clean::Args),
    Completions(completions::Args),
    #[command(hide = true)]
    Agent(agent::Args),
}

impl Command {
    fn run(self) -> Result<ExitCode, CliError> {
        let exit = match self {
            Command::Agent(args) => return Ok(args.run()),
            Command::Sweep(args) => args.run(),
            Command::Resume(args) => args.run(),
            Command::Status(args) => args.run(),
            Command::Collect(args) => args.run(),
            Command::Table(args) => args.run(),
            Command::Report(args) => args.run(),
            Command::Compare(args) => args.run(),
            Command::Merge(args) => args.run(),
            Command::Devices(args) => args.run(),
            Command::Probe(args) => args.run(),
            Command::CheckPins(args) => args.run(),
            Command::Doctor(args) => args.run(),
            Command::Restore(args) => args.run(),
            Command::Clean(args) => args.run(),
            Command::Completions(args) => args.run(),
        };
        exit.map(ExitCode::from)
    }
}

/// Parses the command line, does what it says, and returns the exit code of [`Exit`].
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(answer) => return usage(&answer),
    };
    match cli.command.run() {
        Ok(exit) => exit,
        Err(error) => {
            eprintln!("error: {error}");
            error.exit().into()
        }
    }
}

/// Help and version go to standard output and are no failure.
fn usage(answer: &clap::Error) -> ExitCode {
    // There is nobody left to tell when the answer cannot be printed.
    let _ = answer.print();
    if answer.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() }
}

/// Runs a command's asynchronous part.
fn block_on<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::Io { doing: "start the event loop".into(), error })?;
    runtime.block_on(work)
}
