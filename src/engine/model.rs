//! Where a model file is: a path, or the bare name of a file in the model cache.

use super::EngineError;
use std::path::{Path, PathBuf};

/// The file of the model called `name`. A name with a `/` is a path (`~/` is the home directory); a bare name
/// is a file of the model cache, with or without `.gguf`. The cache is `$OPPTUNE_MODEL_DIR`, else
/// `opptune/models` below `$XDG_CACHE_HOME` or `~/.cache`; `scripts/fetch-model.sh` fills it.
///
/// # Errors
/// [`EngineError::Rejected`] when there is no such file, with what to type.
pub fn resolve_model(name: &str) -> Result<PathBuf, EngineError> {
    let place = Place { home: variable("HOME"), cache: cache_dir(&variable) };
    place.find(name)
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn cache_dir(variable: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let cache = || variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    variable("OPPTUNE_MODEL_DIR").or_else(|| Some(cache()?.join("opptune/models")))
}

struct Place {
    home: Option<PathBuf>,
    cache: Option<PathBuf>,
}

impl Place {
    fn find(&self, name: &str) -> Result<PathBuf, EngineError> {
        let tried = self.candidates(name);
        tried.iter().find(|file| file.is_file()).cloned().ok_or_else(|| {
            let tried: Vec<_> = tried.iter().map(|file| file.display().to_string()).collect();
            EngineError::Rejected(format!(
                "there is no model `{name}` (looked for {}); run scripts/fetch-model.sh for smollm2-135m, or \
                 give the path of a GGUF file",
                if tried.is_empty() {
                    "a cache directory, but HOME is not set".into()
                } else {
                    tried.join(", ")
                }
            ))
        })
    }

    fn candidates(&self, name: &str) -> Vec<PathBuf> {
        match (name.strip_prefix("~/"), &self.home) {
            _ if name.is_empty() => Vec::new(),
            (Some(rest), Some(home)) => vec![home.join(rest)],
            _ if name.contains('/') => vec![Path::new(name).to_owned()],
            _ => {
                self.cache.iter().flat_map(|dir| [dir.join(name), dir.join(format!("{name}.gguf"))]).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up_in_the_cache_and_paths_are_taken_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tiny.gguf");
        std::fs::write(&file, "GGUF").unwrap();
        let place = Place { home: Some(dir.path().into()), cache: Some(dir.path().into()) };
        for name in ["tiny", "tiny.gguf", "~/tiny.gguf", file.to_str().unwrap()] {
            assert_eq!(place.find(name).unwrap(), file, "{name}");
        }
        let error = place.find("other").unwrap_err().to_string();
        assert!(error.contains("other.gguf") && error.contains("scripts/fetch-model.sh"), "{error}");
    }

    #[test]
    fn the_cache_directory_follows_the_environment() {
        let only = |given: &'static [(&str, &str)]| {
            cache_dir(&move |name| given.iter().find(|(n, _)| *n == name).map(|(_, v)| PathBuf::from(v)))
        };
        assert_eq!(only(&[("HOME", "/h")]), Some("/h/.cache/opptune/models".into()));
        assert_eq!(only(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/c")]), Some("/c/opptune/models".into()));
        assert_eq!(only(&[("OPPTUNE_MODEL_DIR", "/m")]), Some("/m".into()));
        assert_eq!(only(&[]), None);
    }
}
