//! Finding and reading device profiles: those that come with opptune are part of the binary, others are files.

use super::validate::problem;
use super::{Matching, Profile};
use crate::protocol::Fingerprint;
use include_dir::{Dir, include_dir};
use std::path::{Path, PathBuf};

static BUILT_IN: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/device-profiles");

/// Why a profile cannot be used. Each names the profile and the key.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The file cannot be read.
    #[error("cannot read profile {}: {error}. Give the path of a profile file, or one of the names that `opptune devices` lists", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The system's answer.
        error: std::io::Error,
    },
    /// There is no built-in profile of that name.
    #[error("there is no profile `{name}`. {hint}; a path of your own profile must end in .toml")]
    Unknown {
        /// What was asked for.
        name: String,
        /// Names that come close, or all of them.
        hint: String,
    },
    /// The file is not what the schema says.
    #[error("{}: {error}", file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// Line, key and what was expected.
        error: Box<toml::de::Error>,
    },
    /// A value makes no sense.
    #[error("{}: `{key}` {why}", file.display())]
    Value {
        /// The file.
        file: PathBuf,
        /// The key.
        key: String,
        /// What is wrong, what is expected and what to do.
        why: String,
    },
}

/// Names of the profiles that come with opptune, sorted; `twins/...` are simulated devices.
pub fn builtin_names() -> Vec<String> {
    let mut names: Vec<_> = files(&BUILT_IN).map(|(name, _)| name).collect();
    names.sort();
    names
}

/// The profile of that name, or, if it ends in `.toml`, the one in that file.
///
/// # Errors
/// [`ProfileError`], naming profile and key.
pub fn load(name_or_path: &str) -> Result<Profile, ProfileError> {
    let path = Path::new(name_or_path);
    if path.extension().is_some_and(|e| e == "toml") {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ProfileError::Unreadable { file: path.to_owned(), error })?;
        return parse(&text, path);
    }
    let found = files(&BUILT_IN).find(|(name, _)| name == name_or_path);
    let (name, text) = found.ok_or_else(|| unknown(name_or_path))?;
    parse(text, Path::new(&format!("{name}.toml (built in)")))
}

/// Parses and validates a profile; `file` is for errors only.
///
/// # Errors
/// [`ProfileError`], naming file and key.
pub fn parse(text: &str, file: &Path) -> Result<Profile, ProfileError> {
    let profile: Profile = toml::from_str(text)
        .map_err(|error| ProfileError::Syntax { file: file.to_owned(), error: Box::new(error) })?;
    match problem(&profile) {
        None => Ok(profile),
        Some((key, why)) => Err(ProfileError::Value { file: file.to_owned(), key, why }),
    }
}

/// Names of the built-in profiles that are for this device. Twins are for no device.
pub fn matching(device: &Fingerprint) -> Vec<String> {
    let fits = |name: &String| {
        load(name).is_ok_and(|profile| profile.twin.is_none() && is_for(&profile.matching, device))
    };
    builtin_names().into_iter().filter(fits).collect()
}

/// A list that is empty says nothing; a profile whose lists are all empty is chosen by name only.
fn is_for(matching: &Matching, device: &Fingerprint) -> bool {
    let says = |list: &[String], value: &str| list.is_empty() || list.iter().any(|x| x == value);
    let silent = matching.model.is_empty() && matching.soc.is_empty();
    !silent && says(&matching.model, &device.model) && says(&matching.soc, &device.soc)
}

fn files(dir: &'static Dir<'static>) -> Box<dyn Iterator<Item = (String, &'static str)>> {
    let here = dir.files().filter_map(|file| {
        let name = file.path().to_str()?.strip_suffix(".toml")?;
        Some((name.to_owned(), file.contents_utf8()?))
    });
    Box::new(here.chain(dir.dirs().flat_map(files)))
}

fn unknown(name: &str) -> ProfileError {
    let names = builtin_names();
    let close: Vec<_> = names.iter().filter(|known| shares_a_word(known, name)).cloned().collect();
    let hint = match close.is_empty() {
        true => format!("There are: {}", names.join(", ")),
        false => format!("Did you mean {}", close.join(" or ")),
    };
    ProfileError::Unknown { name: name.into(), hint }
}

fn shares_a_word(known: &str, asked: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase).collect()
    };
    let asked = words(asked);
    words(known).iter().any(|word| word.len() > 2 && word != "twins" && asked.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_profile_is_valid_and_has_a_name_of_its_own() {
        let files = builtin_names();
        let profiles: Vec<_> =
            files.iter().map(|name| load(name).unwrap_or_else(|e| panic!("{e}"))).collect();
        let names: std::collections::BTreeSet<_> = profiles.iter().map(|p| &p.name).collect();
        assert!(names.len() == files.len() && files.len() >= 12, "{names:?}");
        for (file, profile) in files.iter().zip(&profiles) {
            assert!(profile.twin.is_some() || profile.name == *file, "{file} calls itself {}", profile.name);
        }
    }

    #[test]
    fn a_pixel_7_is_recognised_by_its_model() {
        let device = Fingerprint { model: "Pixel 7".into(), soc: "GS201".into(), ..Default::default() };
        assert_eq!(matching(&device), ["pixel-7"]);
        let stranger = Fingerprint { model: "Toaster".into(), ..Default::default() };
        assert!(matching(&stranger).is_empty());
    }

    #[test]
    fn an_unknown_name_is_answered_with_close_ones() {
        let text = load("pixel7").unwrap_err().to_string();
        assert!(text.contains("There are: "), "{text}");
        let text = load("pixel-9").unwrap_err().to_string();
        assert!(text.contains("Did you mean pixel-6 or pixel-7"), "{text}");
    }

    #[test]
    fn syntax_errors_show_the_line() {
        let text = parse("schema = 1\nnome = \"x\"\n", Path::new("p.toml")).unwrap_err().to_string();
        assert!(text.contains("p.toml") && text.contains("line 2") && text.contains('^'), "{text}");
    }
}
