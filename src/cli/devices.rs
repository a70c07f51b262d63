//! `opptune devices`: the profiles that come with opptune, and what is attached.

use super::{CliError, Exit, block_on, text};
use crate::profile::{self, Accuracy};
use crate::transport::adb::Server;

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

/// A device as this command lists it.
#[derive(serde::Serialize)]
struct Attached {
    link: String,
    model: String,
    state: String,
}

/// What `--json` prints.
#[derive(serde::Serialize)]
struct Lists {
    profiles: Vec<Listed>,
    devices: Vec<Attached>,
    /// Why attached devices cannot be listed, if they cannot.
    problem: Option<String>,
}

impl Args {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let (devices, problem) = match block_on(attached()) {
            Ok(devices) => (devices, None),
            Err(error) => (vec![this_machine()], Some(error.to_string())),
        };
        let lists = Lists { profiles: listed()?, devices, problem };
        if self.json {
            super::probe::print_json(&lists)?;
        } else {
            print(lists);
        }
        Ok(Exit::Done)
    }
}

fn print(lists: Lists) {
    println!("Profiles (device-profiles/, for --profile and `device.profile`)");
    let rows = lists.profiles.into_iter().map(|p| vec![p.name, p.title, trust(p.accuracy).into()]);
    println!("{}", text::table(["name", "device", "how far to trust it"], rows));
    println!("\nDevices (for --device); boards by ssh are not listed: ssh:[USER@]HOST[:PORT]");
    let rows = lists.devices.into_iter().map(|d| vec![d.link, d.model, d.state]);
    println!("{}", text::table(["link", "model", "state"], rows));
    if let Some(problem) = lists.problem {
        println!("Android devices: {problem}");
    }
}

/// This machine, and what the adb server knows.
async fn attached() -> Result<Vec<Attached>, CliError> {
    let known = Server::from_env()?.devices().await?;
    let android = known.into_iter().map(|device| Attached {
        link: format!("adb:{}", device.serial),
        model: device.model.clone().unwrap_or_default(),
        state: device.state.problem().map_or("ready".into(), |(why, next)| format!("{why}. {next}")),
    });
    Ok(std::iter::once(this_machine()).chain(android).collect())
}

fn this_machine() -> Attached {
    Attached { link: "local".into(), model: String::new(), state: "this machine".into() }
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
