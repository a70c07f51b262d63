//! Which entry holds for a stage and a token count.

use super::{Entry, Table};
use crate::trial::Stage;

/// The answer of a look-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lookup<'t> {
    /// The entry to use.
    pub entry: &'t Entry,
    /// How the token count lies to the entry's range.
    pub fit: Fit,
}

/// How a token count lies to the range of the entry that was chosen for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Inside.
    Inside,
    /// Below the first range of the stage; the first entry is the nearest there is.
    BelowFirst,
    /// Between two ranges; the entry of the longer one is used, because it was measured on more work.
    Between,
    /// Above the last range of the stage; the last entry is the nearest there is. Nothing was measured here.
    AboveLast,
}

impl Fit {
    /// What a reader must know of an answer that is not [`Fit::Inside`].
    pub fn note(self) -> Option<&'static str> {
        match self {
            Fit::Inside => None,
            Fit::BelowFirst => Some("below the first range; the first entry is used"),
            Fit::Between => Some("between two ranges; the entry of the longer one is used"),
            Fit::AboveLast => {
                Some("above the last range, nothing was measured there; the last entry is used")
            }
        }
    }
}

impl Table {
    /// The entry for `tokens` of `stage`; `None` when the table has no entry of that stage at all.
    pub fn lookup(&self, stage: Stage, tokens: u32) -> Option<Lookup<'_>> {
        let mut entries = self.entries.iter().filter(|e| e.stage == stage).peekable();
        let first = entries.peek().map(|e| e.from_tokens)?;
        let last = self.entries.iter().rfind(|e| e.stage == stage)?;
        // Ranges ascend, so the first that does not end below `tokens` is the one, or the next longer one.
        let Some(entry) = entries.find(|e| e.to_tokens.is_none_or(|to| tokens <= to)) else {
            return Some(Lookup { entry: last, fit: Fit::AboveLast });
        };
        let fit = match () {
            () if tokens >= entry.from_tokens => Fit::Inside,
            () if tokens < first => Fit::BelowFirst,
            () => Fit::Between,
        };
        Some(Lookup { entry, fit })
    }
}
