//! `opptune devices`: the profiles that come with opptune, and what is attached.

use super::{CliError, Exit, text};
use crate::profile::{self, Accuracy};

/// List the profiles that come with opptune, and attached devices
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A profile as this command lists it.
#[derive(serde::Serialize)]
struct Listed {
    name: String,
    title: String,
    accuracy: Accuracy,
}

impl Args {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let profiles = listed()?;
        if self.json {
            super::probe::print_json(&profiles)?;
            return Ok(Exit::Done);
        }
        println!("Profiles (device-profiles/, for --profile and `device.profile`)");
        let rows = profiles.into_iter().map(|p| vec![p.name, p.title, trust(p.accuracy).into()]);
        println!("{}", text::table(["name", "device", "how far to trust it"], rows));
        Ok(Exit::Done)
    }
}

fn listed() -> Result<Vec<Listed>, CliError> {
    let of = |name: String| {
        let profile = profile::load(&name)?;
        Ok(Listed { name, title: profile.title, accuracy: profile.accuracy })
    };
    profile::builtin_names().into_iter().map(of).collect()
}

fn trust(accuracy: Accuracy) -> &'static str {
    match accuracy {
        Accuracy::DeviceVerified => "seen to work on the device",
        Accuracy::FromSources => "from driver sources; not tried on the device",
        Accuracy::FromReports => "from public reports; run check-pins first",
        Accuracy::Twin => "simulated device",
    }
}
