//! The exit codes of the program.

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Everything worked.
    Success,
    /// The run failed.
    Failed,
    /// The command line or the recipe is wrong.
    Usage,
    /// Another process is working on the run (`EX_UNAVAILABLE`).
    Busy,
    /// Interrupted; the same command resumes the run (`EX_TEMPFAIL`).
    Interrupted,
}

impl Exit {
    const ALL: [Exit; 5] = [Exit::Success, Exit::Failed, Exit::Usage, Exit::Busy, Exit::Interrupted];

    /// The number that the process returns.
    pub const fn code(self) -> u8 {
        match self {
            Exit::Success => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Busy => 69,
            Exit::Interrupted => 75,
        }
    }

    /// The meaning of a number that a process returned; unknown numbers are failures.
    pub fn of(code: i32) -> Self {
        Self::ALL.into_iter().find(|exit| i32::from(exit.code()) == code).unwrap_or(Exit::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_meanings_agree_both_ways() {
        for exit in Exit::ALL {
            assert_eq!(Exit::of(exit.code().into()), exit);
        }
        assert_eq!(Exit::of(139), Exit::Failed);
    }
}
