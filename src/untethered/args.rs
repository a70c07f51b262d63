//! The agent program's command line, where `run-plan` is added to what the agent itself understands.

use super::{RUN_PLAN, detach, run};
use crate::agent;
use lexopt::prelude::*;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const HELP: &str = "\
Run the plan in DIR on this device, without a host. `opptune sweep --detach` starts it.

Usage: opptune-agent run-plan --dir DIR [--model PATH] [--delay SECONDS] [--root DIR] [--state-dir DIR]

      --dir DIR        The run directory: config.toml and profile.toml; the journal is written there
      --model PATH     Where the model is on this device
      --delay SECONDS  Wait before the first trial, for a cable to be unplugged
      --here           Stay attached to what started it
";

const USAGE: u8 = 2;

/// How a plan is run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Order {
    pub dir: PathBuf,
    pub model: Option<String>,
    pub delay: Duration,
    pub here: bool,
    pub root: PathBuf,
    pub state_dir: PathBuf,
}

/// The agent's binary: `prefix` are the words of the command line between this program's name and `args`.
pub fn main_as(prefix: &[&str], args: impl Iterator<Item = String>) -> ExitCode {
    let mut args = args.peekable();
    if args.next_if(|word| word == RUN_PLAN).is_none() {
        return agent::main_as(prefix, args);
    }
    let words: Vec<_> = args.collect();
    match parse(&words) {
        Ok(None) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Ok(Some(order)) if order.here => run::run(prefix, &order),
        Ok(Some(order)) => detach::start(prefix, &words, &order),
        Err(error) => {
            eprintln!("opptune-agent: {error}. See `opptune-agent {RUN_PLAN} --help`");
            ExitCode::from(USAGE)
        }
    }
}

/// `None`: help is wanted.
fn parse(words: &[String]) -> Result<Option<Order>, lexopt::Error> {
    let mut parser = lexopt::Parser::from_args(words);
    let mut dir = None;
    let mut order = Order {
        dir: PathBuf::new(),
        model: None,
        delay: Duration::ZERO,
        here: false,
        root: "/".into(),
        state_dir: agent::default_state_dir(),
    };
    while let Some(arg) = parser.next()? {
        match arg {
            Long("dir") => dir = Some(PathBuf::from(parser.value()?)),
            Long("model") => order.model = Some(parser.value()?.string()?),
            Long("delay") => order.delay = Duration::from_secs(parser.value()?.parse()?),
            Long("here") => order.here = true,
            Long("root") => order.root = parser.value()?.into(),
            Long("state-dir") => order.state_dir = parser.value()?.into(),
            Short('h') | Long("help") => return Ok(None),
            other => return Err(other.unexpected()),
        }
    }
    order.dir = dir.ok_or("--dir is missing")?;
    Ok(Some(order))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Option<Order>, String> {
        let words: Vec<_> = line.split(' ').map(ToString::to_string).collect();
        parse(&words).map_err(|e| e.to_string())
    }

    #[test]
    fn a_plan_needs_its_directory() {
        let order = parsed("--delay 5 --dir /d --root=/r").unwrap().unwrap();
        assert_eq!((order.dir, order.delay), ("/d".into(), Duration::from_secs(5)));
        assert_eq!((order.root, order.here), ("/r".into(), false));
        assert!(parsed("--delay 5").unwrap_err().contains("--dir"));
        assert!(parsed("--dir /d --delay soon").is_err());
        assert_eq!(parsed("--help").unwrap(), None);
    }
}
