//! `opptune compare`: what the two-step search loses against all combinations, and what it saves.

use super::{CliError, Exit, text};
use crate::campaign::config::{Budget, GoalKind};
use crate::campaign::{Comparison, Found, Run, RunDir, compare};
use crate::knob::KnobInfo;
use crate::report::rows;
use std::path::PathBuf;

/// Hold the two-step search against an exhaustive run
///
/// A complete exhaustive run knows every combination, so the two-step search can be replayed on it: how much
/// worse is its answer (regret), with how many inferences? Both goals are answered: the run's own with its budget,
/// the other within what the default governors reach.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  opptune sweep examples/pixel-7-twin-exhaustive.toml
  opptune compare results/2026-01-31-pixel-7-twin-exhaustive")]
pub struct Args {
    /// Directory of a complete run with strategy = "exhaustive"
    run: PathBuf,
}

impl Args {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let run = Run::load(&RunDir::open(&self.run)?)?;
        let warnings = rows::warnings_of(run.ledger.finished());
        warnings.iter().for_each(|warning| println!("{warning}"));
        for goal in [GoalKind::Latency, GoalKind::Energy] {
            let own = run.config.search.goal == goal;
            let budget = if own { run.config.search.budget } else { Budget::Baseline };
            print(&run, goal, &compare(&run.lines, &run.config, &run.profile, (goal, budget))?);
        }
        Ok(Exit::Done)
    }
}

const HEADINGS: [&str; 7] =
    ["setting", "governors", "exhaustive", "two-step", "regret", "inferences: exhaustive", "two-step"];

fn print(run: &Run, goal: GoalKind, all: &[Comparison]) {
    let (what, minimised) = match goal {
        GoalKind::Latency => ("goal `latency`: lowest latency within the energy budget", "latency"),
        GoalKind::Energy => ("goal `energy`: lowest energy within the latency target", "energy"),
    };
    let knobs = run.ledger.first().map_or(&[][..], |opened| &opened.knobs);
    let (spent, full) = all.iter().fold((0, 0), |(spent, full), one| {
        (spent + one.two_step.inferences, full + one.exhaustive.inferences)
    });
    println!("\n{what}\n{}", text::table(HEADINGS, all.iter().map(|one| row(run, knobs, one))));
    println!("two-step: {spent} inferences instead of {full}; regret is in {minimised}");
}

fn row(run: &Run, knobs: &[KnobInfo], one: &Comparison) -> Vec<String> {
    let found = |found: &Found| match found.best {
        None => "none".into(),
        Some((point, value)) => {
            format!(
                "{:.1} ms, {:.1} mJ\n{}",
                value.latency.0,
                value.energy.0,
                rows::point(&run.profile, knobs, point)
            )
        }
    };
    vec![
        one.setting.to_string(),
        format!("{:.1} ms, {:.1} mJ", one.baseline.latency.0, one.baseline.energy.0),
        found(&one.exhaustive),
        found(&one.two_step),
        one.regret().map_or("-".into(), |regret| format!("{:+.1} %", regret * 100.0)),
        one.exhaustive.inferences.to_string(),
        one.two_step.inferences.to_string(),
    ]
}
