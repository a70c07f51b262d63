//! What an agent says on its standard error: kept for error messages, bounded, and safe to print.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Lines kept.
const LINES: usize = 40;
/// Characters kept of one line: a device cannot fill the host by never ending one.
const LINE_CHARS: usize = 400;

/// The last lines of an agent's standard error. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct AgentLog {
    lines: Arc<Mutex<Lines>>,
}

#[derive(Debug, Default)]
struct Lines {
    done: VecDeque<String>,
    open: Vec<u8>,
}

impl AgentLog {
    /// Adds what arrived; a line may come in pieces.
    pub fn add(&self, bytes: &[u8]) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        for &byte in bytes {
            match byte {
                b'\n' => lines.end_line(),
                _ if lines.open.len() < LINE_CHARS => lines.open.push(byte),
                _ => (),
            }
        }
    }

    /// The lines kept, the last one possibly unfinished; empty when the agent said nothing.
    pub fn text(&self) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let open = printable(&lines.open);
        let all = lines.done.iter().map(String::as_str).chain((!open.is_empty()).then_some(open.as_str()));
        all.collect::<Vec<_>>().join("\n")
    }
}

impl Lines {
    fn end_line(&mut self) {
        let line = printable(&std::mem::take(&mut self.open));
        if self.done.len() == LINES {
            self.done.pop_front();
        }
        self.done.push_back(line);
    }
}

/// Text without control characters: a device must not drive the terminal of the host.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_end().chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_bounded_and_harmless() {
        let log = AgentLog::default();
        log.add(b"one");
        log.add(b" line\r\n\x1b[2Jtwo");
        assert_eq!(log.text(), "one line\n\u{fffd}[2Jtwo");
        log.add(&vec![b'x'; 1 << 20]);
        log.add("\nx".repeat(1000).as_bytes());
        assert!(log.text().len() <= (LINES + 1) * (LINE_CHARS + 1));
        assert_eq!(log.text().lines().count(), LINES + 1);
    }
}
