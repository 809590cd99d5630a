//! What can go wrong, and which exit code it has.

use curricle_recipe::{Problems, Refusal};
use curricle_record::{self as record, Exit};
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
    /// A file could not be read, written or understood, or another process is using it.
    #[error(transparent)]
    Record(#[from] record::Error),
    /// Embeddings could not be evaluated.
    #[error(transparent)]
    Eval(#[from] curricle_eval::Error),
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
    /// Stopped by a signal; a checkpoint was written.
    #[error("interrupted; run the same command again to go on from `{0}`")]
    Interrupted(PathBuf),
    /// Something is wrong and the command has said so already; only the exit code is left.
    #[error("failed")]
    Reported(Exit),
    /// Anything else that ends a run.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// How the program ends with this error.
    pub fn exit(&self) -> Exit {
        match self {
            Error::Recipe(_) | Error::Usage(_) => Exit::Usage,
            Error::Record(record::Error::Busy(_)) => Exit::Busy,
            Error::Interrupted(_) => Exit::Interrupted,
            Error::Reported(exit) => *exit,
            _ => Exit::Failed,
        }
    }

    /// A failed file operation, for use with `map_err`.
    pub fn file(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Error {
        let failed = record::Error::file(action, path);
        move |source| failed(source).into()
    }

    /// A file whose contents are wrong.
    pub fn format(path: impl AsRef<Path>, message: impl Into<String>) -> Error {
        record::Error::format(path, message).into()
    }
}

/// A library named on the command line that cannot be used is a usage error.
impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Error::Usage(refusal.to_string())
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
