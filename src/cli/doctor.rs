//! `opptune doctor`: what would spoil tonight's run.

use super::target::Target;
use super::{CliError, Exit, block_on, probe::print_json, text};
use crate::protocol::{DoctorReport, Grade, ToAgent, ToHost};

/// Say what would spoil a run on a device, and what to do about it
///
/// Looks at root, SELinux, charging, battery, screen, heat, background load, time since boot, tuning daemons,
/// free space and sensors. Changes nothing. Exit code 4 if something would make the run fail or worthless.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  opptune doctor --device adb --profile pixel-7")]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

impl Args {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let report = block_on(self.ask())?;
        if self.json {
            print_json(&report)?;
        } else {
            print(&report);
        }
        let stop = report.findings.iter().any(|finding| finding.grade == Grade::Stop);
        Ok(if stop { Exit::Gate } else { Exit::Done })
    }

    async fn ask(&self) -> Result<DoctorReport, CliError> {
        let (mut session, profile) = self.target.look().await?;
        let report = match session.ask(ToAgent::Doctor { profile }).await? {
            ToHost::Doctored(report) => *report,
            other => return Err(session.odd(format!("the agent answered doctor with {other:?}"))),
        };
        session.bye().await?;
        Ok(report)
    }
}

fn print(report: &DoctorReport) {
    println!("{} ({}), kernel {}", text::device(&report.device), report.origin, report.device.kernel);
    let rows = report.findings.iter().map(|finding| {
        let grade = match finding.grade {
            Grade::Fine => "fine",
            Grade::Warn => "WARN",
            Grade::Stop => "STOP",
        };
        vec![grade.into(), finding.check.clone(), finding.found.clone(), finding.advice.clone()]
    });
    println!("{}", text::table(["", "check", "found", "what to do"], rows));
}
