//! Why a command failed.

use curricle_record::Exit;
use std::path::Path;

/// Result of every command.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] curricle_engine::Error),
    /// Runs could not be reported on.
    #[error(transparent)]
    Report(#[from] curricle_report::Error),
    /// The command has already reported the problem; only the exit code is left.
    #[error("failed")]
    Reported(Exit),
}

impl Error {
    /// The command cannot be run as typed.
    pub(crate) fn usage(message: String) -> Self {
        curricle_engine::Error::Usage(message).into()
    }

    /// Anything else that ends a command.
    pub(crate) fn failed(message: String) -> Self {
        curricle_engine::Error::Failed(message).into()
    }

    /// A failed file operation, for use with `map_err`.
    pub(crate) fn file(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        let failed = curricle_record::Error::file(action, path);
        move |source| failed(source).into()
    }

    /// How the program ends with this error.
    pub(crate) fn exit(&self) -> Exit {
        use curricle_report::Error as ReportError;
        match self {
            Error::Engine(error) => error.exit(),
            Error::Report(ReportError::Usage(_) | ReportError::NotComparable(_)) => Exit::Usage,
            Error::Report(_) => Exit::Failed,
            Error::Reported(exit) => *exit,
        }
    }
}

impl From<curricle_record::Error> for Error {
    fn from(error: curricle_record::Error) -> Self {
        Error::Engine(error.into())
    }
}

impl From<curricle_recipe::Problems> for Error {
    fn from(problems: curricle_recipe::Problems) -> Self {
        Error::Engine(problems.into())
    }
}

impl From<curricle_recipe::Refusal> for Error {
    fn from(refusal: curricle_recipe::Refusal) -> Self {
        Error::Engine(refusal.into())
    }
}

impl From<curricle_eval::Error> for Error {
    fn from(error: curricle_eval::Error) -> Self {
        Error::Engine(error.into())
    }
}
