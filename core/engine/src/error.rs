//! What can go wrong, and which exit code it has.

use crate::recipe::Problems;
use curricle_sdk::guard;
use std::path::{Path, PathBuf};

/// Result of everything in the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the engine could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The recipe has problems; all of them are listed.
    #[error(transparent)]
    Recipe(#[from] Problems),
    /// The command cannot be carried out as typed.
    #[error("{0}")]
    Usage(String),
    /// A file could not be read or written.
    #[error("cannot {action} `{path}`: {source}")]
    File {
        /// `read`, `write`, `create`, …
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file was read but is not what it should be.
    #[error("`{path}`: {message}")]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what would be right.
        message: String,
    },
    /// A component failed.
    #[error("{kind} `{name}`: {source}")]
    Component {
        /// `loss`, `sampler` or `weights`.
        kind: curricle_sdk::Kind,
        /// Its name.
        name: String,
        /// What it said.
        source: curricle_sdk::Error,
    },
    /// A component of a library failed.
    #[error("plugin `{path}`: {source}")]
    Plugin {
        /// The library.
        path: PathBuf,
        /// What its component said.
        source: Box<Error>,
    },
    /// libtorch failed outside a component.
    #[error("while {during}: {source}")]
    Torch {
        /// What was going on.
        during: &'static str,
        /// What it said.
        source: curricle_sdk::Error,
    },
    /// The memory of a device was not enough; says for what, and what to change.
    #[error("{0}")]
    OutOfMemory(String),
    /// Another process works on the same run.
    #[error("another process is working on `{0}`; wait for it, or choose another folder with `--out`")]
    Busy(PathBuf),
    /// Stopped by a signal; a checkpoint was written.
    #[error("interrupted; run the same command again to go on from `{0}`")]
    Interrupted(PathBuf),
    /// Something is wrong and the command has said so already; only the exit code is left.
    #[error("failed")]
    Reported(u8),
    /// Anything else that ends a run.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// The exit code of the program: 2 for what the user typed or wrote, 69 for a run that another
    /// process is working on, 75 for interrupted and resumable, 1 for the rest.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Recipe(_) | Error::Usage(_) => 2,
            Error::Busy(_) => 69,
            Error::Interrupted(_) => 75,
            Error::Reported(code) => *code,
            _ => 1,
        }
    }

    /// Shorthand for a failed file operation, for use with `map_err`.
    pub fn file(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.as_ref().to_path_buf();
        move |source| Error::File { action, path, source }
    }
}

/// Calls `work` and returns a panic in it as an error. Most functions of tch panic where libtorch fails.
pub fn caught<T>(during: &'static str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    guard(|| Ok(work())).map_err(|source| Error::Torch { during, source })?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_and_errors_stay_what_they_are() {
        let sizes = [2, -1];
        let panicked = caught("trying", || Ok(tch::Tensor::zeros(sizes, tch::kind::FLOAT_CPU)));
        assert!(panicked.unwrap_err().to_string().starts_with("while trying: "));
        let refused = caught("trying", || Err::<(), _>(Error::Usage("no".into())));
        assert!(matches!(refused, Err(Error::Usage(_))));
    }
}
