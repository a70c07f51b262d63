//! Command lines for a shell on a device. (Host programs are started from argument vectors; no host shell.)

/// Joins words into a command line that a POSIX shell splits into the same words. `None` when a word has
/// characters that none of our commands, paths or options need: it is refused, not escaped.
pub(super) fn command_line(argv: &[&str]) -> Option<String> {
    let words: Option<Vec<_>> = argv.iter().map(|word| quote(word)).collect();
    words.filter(|w| !w.is_empty()).map(|w| w.join(" "))
}

fn quote(word: &str) -> Option<String> {
    if is_plain(word) {
        Some(word.into())
    } else if !word.contains('\'') && !word.chars().any(char::is_control) {
        Some(format!("'{word}'"))
    } else {
        None
    }
}

/// A word that means itself in any shell, even inside another command's quotes.
pub(super) fn is_plain(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_-+./:=,@%".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_words_or_are_refused() {
        assert_eq!(command_line(&["rm", "-f", "/a/b"]).unwrap(), "rm -f /a/b");
        assert_eq!(command_line(&["sh", "-c", "a; b $(c) > d"]).unwrap(), "sh -c 'a; b $(c) > d'");
        assert_eq!(command_line(&["echo", ""]).unwrap(), "echo ''");
        for bad in ["it's", "a\nb", "a\0b"] {
            assert_eq!(command_line(&["echo", bad]), None);
        }
        assert_eq!(command_line(&[]), None);
    }
}
