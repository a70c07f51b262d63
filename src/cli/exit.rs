//! Exit codes: the one place where they are decided and described.

use std::process::ExitCode;

/// How a command ended, as scripts see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything asked for was done.
    Done = 0,
    /// Anything that has no code of its own.
    Other = 1,
    /// The command line, a configuration, a profile, a journal or a table is wrong, or what answers is no agent
    /// of this build.
    Usage = 2,
    /// The device or the link to it is not there.
    Unavailable = 3,
    /// A gate refused: too hot, locked by somebody else, `doctor` found what would spoil the run.
    Gate = 4,
    /// The sweep is complete, but for some setting no combination that was tried meets the budget.
    Budget = 5,
    /// Interrupted; the message says how to resume.
    Interrupted = 6,
    /// The device was not put back completely; the message says what differs.
    Restore = 7,
}

impl Exit {
    /// The exit with this code, as a campaign says it.
    pub fn of(code: u8) -> Exit {
        use Exit::*;
        let all = [Done, Usage, Unavailable, Gate, Budget, Interrupted, Restore];
        all.into_iter().find(|exit| *exit as u8 == code).unwrap_or(Other)
    }

    /// Of two ends, the one that asks more of a person: a device that was not put back before everything, what
    /// has to be mended before what waits, and that before what is only to be read.
    #[must_use]
    pub fn or_worse(self, other: Exit) -> Exit {
        use Exit::*;
        let order = [Restore, Other, Usage, Unavailable, Gate, Interrupted, Budget];
        order.into_iter().find(|exit| [self, other].contains(exit)).unwrap_or(Done)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// The exit codes as `--help` prints them.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  anything that has no code of its own
  2  command line, configuration, profile, journal or table is wrong, or what
     answers is no agent of this build
  3  device unavailable
  4  refused by a gate: too hot, locked, or doctor says stop
  5  complete, but for some setting no combination that was tried meets the budget
  6  interrupted, resumable: the command is printed
  7  device not put back completely: what differs is printed";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worse_of_two_ends_counts() {
        use Exit::*;
        assert_eq!(Done.or_worse(Done), Done);
        assert_eq!(Done.or_worse(Budget), Budget);
        assert_eq!(Unavailable.or_worse(Restore), Restore);
        assert_eq!(Gate.or_worse(Budget), Gate);
        for exit in [Other, Usage, Unavailable, Gate, Budget, Interrupted, Restore] {
            assert_eq!((exit.or_worse(Done), Done.or_worse(exit)), (exit, exit));
        }
    }

    #[test]
    fn help_lists_every_code() {
        use Exit::*;
        for exit in [Done, Other, Usage, Unavailable, Gate, Budget, Interrupted, Restore] {
            assert!(EXIT_CODES.contains(&format!("\n  {}  ", exit as u8)), "{exit:?}");
            assert_eq!(Exit::of(exit as u8), exit);
        }
    }
}
