//! The agent program's command line, where `run-plan` is added to what the agent itself understands.

use super::order::Order;
use super::wait::Waits;
use super::{RUN_PLAN, detach, run};
use crate::agent;
use lexopt::prelude::*;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const HELP: &str = "\
Run the plan in DIR on this device, without a host. `opptune sweep --detach` starts it.

Usage: opptune-agent run-plan --dir DIR [OPTIONS]

      --dir DIR                The run directory: config.toml and profile.toml; the journal is written there
      --model PATH             Where the model is on this device
      --steal HOLDER           Take the device although HOLDER has locked it
      --unplug-within SECONDS  Begin once the cable is gone; not at all if it is still there then
      --delay SECONDS          Wait before the first load, for a meter to be started
      --pulses N               Bursts of load before the first trial, to align a meter's trace with
      --root DIR               As for `serve`
      --state-dir DIR          As for `serve`
      --here                   Stay attached to what started it
";

const USAGE: u8 = 2;

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
        steal_from: None,
        waits: Waits::default(),
        here: false,
        root: "/".into(),
        state_dir: agent::default_state_dir(),
    };
    while let Some(arg) = parser.next()? {
        match arg {
            Long("dir") => dir = Some(PathBuf::from(parser.value()?)),
            Long("model") => order.model = Some(parser.value()?.string()?),
            Long("steal") => order.steal_from = Some(parser.value()?.string()?),
            Long("unplug-within") => {
                order.waits.unplug_within = Some(Duration::from_secs(parser.value()?.parse()?));
            }
            Long("delay") => order.waits.delay = Duration::from_secs(parser.value()?.parse()?),
            Long("pulses") => order.waits.pulses = parser.value()?.parse()?,
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
        let order = parsed("--delay 5 --dir /d --root=/r --unplug-within 9 --pulses 3").unwrap().unwrap();
        let (delay, unplug_within) = (Duration::from_secs(5), Some(Duration::from_secs(9)));
        assert_eq!((order.dir, order.waits), ("/d".into(), Waits { unplug_within, delay, pulses: 3 }));
        assert_eq!((order.root, order.here), ("/r".into(), false));
        assert!(parsed("--delay 5").unwrap_err().contains("--dir"));
        assert!(parsed("--dir /d --delay soon").is_err());
        assert_eq!(parsed("--help").unwrap(), None);
    }
}
