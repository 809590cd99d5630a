//! The engine's errors and their exit codes.

use curricle_recipe::{Problems, Refusal};
use curricle_record::{self as record, Exit};
use curricle_sdk::guard;
use std::path::{Path, PathBuf};

/// The engine's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the engine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The recipe has problems; all of them are listed.
    #[error(transparent)]
    Recipe(#[from] Problems),
    /// The command was used incorrectly.
    #[error("{0}")]
    Usage(String),
    /// A file could not be read or written.
    #[error(transparent)]
    Record(#[from] record::Error),
    /// Embeddings could not be evaluated.
    #[error(transparent)]
    Eval(#[from] curricle_eval::Error),
    /// A component failed.
    #[error("{kind} `{name}`: {source}")]
    Component {
        /// `loss`, `sampler` or `weights`.
        kind: curricle_sdk::ComponentKind,
        /// Its name.
        name: String,
        /// Its error.
        source: curricle_sdk::Error,
    },
    /// A plugin's component failed.
    #[error("plugin `{path}`: {source}")]
    Plugin {
        /// The plugin.
        path: PathBuf,
        /// The component's error.
        source: Box<Error>,
    },
    /// libtorch failed outside a component.
    #[error("while {during}: {source}")]
    Torch {
        /// The operation that failed.
        during: &'static str,
        /// libtorch's error.
        source: curricle_sdk::Error,
    },
    /// A device is out of memory; the message says what needed it and how to reduce it.
    #[error("{0}")]
    OutOfMemory(String),
    /// A saved state lacks a tensor.
    #[error("the saved state has no tensor `{0}`")]
    MissingTensor(String),
    /// A saved tensor has another shape.
    #[error("the saved `{name}` has shape {found:?} instead of {wanted:?}")]
    TensorShape {
        /// Its name.
        name: String,
        /// The shape in the file.
        found: Vec<i64>,
        /// The shape that is needed.
        wanted: Vec<i64>,
    },
    /// A checkpoint was written by another recipe.
    #[error("the checkpoint does not match the run's recipe; use `--force` to start over")]
    CheckpointMismatch,
    /// Something could not be turned into bytes: a table, an image, a page.
    #[error("cannot encode {what}: {source}")]
    Encode {
        /// What it is.
        what: &'static str,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Stopped by a signal; a checkpoint was written.
    #[error("interrupted; run the same command again to resume `{0}`")]
    Interrupted(PathBuf),
    /// The command has already reported the problem; only the exit code is left.
    #[error("failed")]
    Reported(Exit),
    /// Anything else that ends a run.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// The program's exit code: 2 for errors in the command line or the recipe, 69 for a run that
    /// another process is working on, 75 for an interrupted run that can be resumed, 1 otherwise.
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

    /// Something that cannot be turned into bytes, for use with `map_err`.
    pub fn encode<E: Into<Box<dyn std::error::Error + Send + Sync>>>(what: &'static str) -> impl FnOnce(E) -> Error {
        move |source| Error::Encode { what, source: source.into() }
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

/// Calls `work` and returns a panic in it as an error. Most tch functions panic when libtorch fails.
pub fn caught<T>(during: &'static str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    guard(|| Ok(work())).map_err(|source| Error::Torch { during, source })?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_and_errors_pass_through() {
        let sizes = [2, -1];
        let panicked = caught("trying", || Ok(tch::Tensor::zeros(sizes, tch::kind::FLOAT_CPU)));
        assert!(panicked.unwrap_err().to_string().starts_with("while trying: "));
        let refused = caught("trying", || Err::<(), _>(Error::Usage("no".into())));
        assert!(matches!(refused, Err(Error::Usage(_))));
    }
}
