//! The agent's command line.

use super::machine::this_machine;
use super::{AgentError, Ended, ExitReason, Options, serve};
use crate::guard::{Launch, restore_from, restorer};
use crate::protocol::RestoreReport;
use lexopt::prelude::*;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
The part of opptune that runs on the device. The host starts it; by hand it is needed for `restore` only.

Usage: opptune-agent [OPTIONS] [serve | restore]

Commands:
  serve     Serve one host on standard input and output (default)
  restore   Put back what an earlier session left changed on this device

Options:
      --root DIR       Prefix of node files [default: /]
      --state-dir DIR  Where the lock and the restore file are kept
      --steal HOLDER   With restore: take the device although HOLDER has locked it
  -V, --version        Print version
  -h, --help           Print help

Exit codes: 0 done; 1 failed; 2 wrong usage; 6 ended by a signal or a silent host;
7 something could not be put back (each on a line of standard error)
";

const ANDROID_STATE: &str = "/data/local/tmp/opptune/state";
const ROOT_STATE: &str = "/var/lib/opptune";

const USAGE: u8 = 2;
const INTERRUPTED: u8 = 6;
const RESTORE_INCOMPLETE: u8 = 7;

#[derive(Debug, PartialEq)]
enum Command {
    Serve,
    Restore,
    Restorer(Vec<String>),
    Print(String),
}

#[derive(Debug, PartialEq)]
struct Args {
    command: Command,
    root: PathBuf,
    state_dir: PathBuf,
    steal_from: Option<String>,
}

/// The agent: `prefix` are the words of the command line between this program's name and
/// `args`; restorers are started with the same.
pub fn main_as(prefix: &[&str], args: impl Iterator<Item = String>) -> ExitCode {
    match parse(args) {
        Ok(args) => run(prefix, args),
        Err(error) => {
            eprintln!("opptune-agent: {error}. See `opptune-agent --help`");
            ExitCode::from(USAGE)
        }
    }
}

fn parse(args: impl Iterator<Item = String>) -> Result<Args, lexopt::Error> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut parsed =
        Args { command: Command::Serve, root: "/".into(), state_dir: default_state_dir(), steal_from: None };
    while let Some(arg) = parser.next()? {
        match arg {
            Long("root") => parsed.root = parser.value()?.into(),
            Long("state-dir") => parsed.state_dir = parser.value()?.into(),
            Long("steal") => parsed.steal_from = Some(parser.value()?.string()?),
            Short('h') | Long("help") => parsed.command = Command::Print(HELP.into()),
            Short('V') | Long("version") => parsed.command = Command::Print(version()),
            Value(name) => {
                parsed.command = match name.to_str() {
                    Some("serve") => Command::Serve,
                    Some("restore") => Command::Restore,
                    Some("restorer") => Command::Restorer(words(parser.raw_args()?)?),
                    _ => return Err(Value(name).unexpected()),
                }
            }
            other => return Err(other.unexpected()),
        }
    }
    Ok(parsed)
}

fn words(rest: lexopt::RawArgs<'_>) -> Result<Vec<String>, lexopt::Error> {
    rest.map(|word| word.string()).collect()
}

fn version() -> String {
    format!("opptune-agent {}, protocol {}\n", env!("CARGO_PKG_VERSION"), crate::protocol::PROTOCOL_VERSION)
}

/// Where lock and restore file are kept on this machine when nothing else is said.
pub fn default_state_dir() -> PathBuf {
    if cfg!(target_os = "android") || Path::new("/system/bin/getprop").exists() {
        return ANDROID_STATE.into();
    }
    if nix::unistd::geteuid().is_root() {
        return ROOT_STATE.into();
    }
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")));
    base.map_or_else(|| ROOT_STATE.into(), |base| base.join("opptune"))
}

fn run(prefix: &[&str], args: Args) -> ExitCode {
    let Args { command, root, state_dir, steal_from } = args;
    match command {
        Command::Print(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Command::Serve => match Launch::this_program(&root) {
            Ok(launch) => {
                let prefix = prefix.iter().map(ToString::to_string).collect();
                serve_stdio(Options { launch: Launch { prefix, ..launch }, state_dir, signals: true })
            }
            Err(error) => failed(&error),
        },
        Command::Restore => restore(&root, &state_dir, steal_from.as_deref()),
        Command::Restorer(order) => restorer::run(&order),
    }
}

fn failed(error: &dyn Display) -> ExitCode {
    eprintln!("opptune-agent: {error}");
    ExitCode::FAILURE
}

fn restore(root: &Path, state_dir: &Path, steal_from: Option<&str>) -> ExitCode {
    let device = this_machine(root);
    match restore_from(state_dir, &*device.nodes, &*device.properties, steal_from) {
        Err(error) => failed(&error),
        Ok(report) if report.complete() => {
            println!("{} value(s) put back", report.restored);
            ExitCode::SUCCESS
        }
        Ok(report) => incomplete(&report),
    }
}

fn serve_stdio(options: Options) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let stream = tokio::io::join(tokio::io::stdin(), tokio::io::stdout());
    let outcome = runtime.block_on(serve(Box::new(stream), options));
    // A thread may still be reading standard input; the session does not wait for it.
    runtime.shutdown_background();
    conclude(outcome)
}

fn conclude(outcome: Result<Ended, AgentError>) -> ExitCode {
    let (code, restored) = match outcome {
        Ok(Ended { reason: ExitReason::Bye | ExitReason::HostGone, restored }) => {
            (ExitCode::SUCCESS, restored)
        }
        Ok(Ended { reason, restored }) => {
            eprintln!("opptune-agent: ended: {reason}");
            (ExitCode::from(INTERRUPTED), restored)
        }
        Err(error) => {
            eprintln!("opptune-agent: {error}");
            match error {
                AgentError::Link { restored, .. } => (ExitCode::FAILURE, restored),
                _ => (ExitCode::FAILURE, RestoreReport::default()),
            }
        }
    };
    if restored.complete() { code } else { incomplete(&restored) }
}

fn incomplete(report: &RestoreReport) -> ExitCode {
    for line in &report.differs {
        eprintln!("opptune-agent: not restored: {line}");
    }
    eprintln!("opptune-agent: run `opptune-agent restore` to try again");
    ExitCode::from(RESTORE_INCOMPLETE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Args, String> {
        parse(words.iter().map(ToString::to_string)).map_err(|e| e.to_string())
    }

    #[test]
    fn commands_and_options_are_read_in_any_order() {
        let args =
            parsed(&["--root=/tmp/x", "restore", "--state-dir", "/s", "--steal", "night run"]).unwrap();
        let wanted = Args {
            command: Command::Restore,
            root: "/tmp/x".into(),
            state_dir: "/s".into(),
            steal_from: Some("night run".into()),
        };
        assert_eq!(args, wanted);
        assert_eq!(parsed(&[]).unwrap().command, Command::Serve);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        assert!(parsed(&["--rot", "/"]).unwrap_err().contains("--rot"));
        assert!(parsed(&["swerve"]).unwrap_err().contains("swerve"));
        assert!(parsed(&["--root"]).unwrap_err().contains("--root"));
    }
}
