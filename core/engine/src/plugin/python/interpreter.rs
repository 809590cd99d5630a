//! Which Python runs losses, and how long it may take.

use std::ffi::OsString;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A Python interpreter that can import torch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    /// The program: a path, or a name that is looked up in `PATH`.
    pub program: OsString,
    /// How long a call may take before the process counts as hanging. Loading the file may take at least
    /// [`TIME_LIMIT`](Self::TIME_LIMIT).
    pub time_limit: Duration,
}

impl Interpreter {
    /// Loading torch from a network drive takes up to a minute.
    pub const TIME_LIMIT: Duration = Duration::from_secs(120);
}

impl Default for Interpreter {
    fn default() -> Self {
        Self { program: "python3".into(), time_limit: Self::TIME_LIMIT }
    }
}

/// One for the whole program, like the number of threads: it decides where losses run, not what they compute.
static CHOSEN: Mutex<Option<Interpreter>> = Mutex::new(None);

/// Sets the interpreter of Python files that are opened from now on.
pub fn set_interpreter(interpreter: Interpreter) {
    *CHOSEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(interpreter);
}

pub(super) fn chosen() -> Interpreter {
    CHOSEN.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
}
