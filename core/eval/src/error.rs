//! Why embeddings could not be evaluated.

/// Result of everything in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why embeddings could not be evaluated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file with the embeddings cannot be used.
    #[error(transparent)]
    File(#[from] curricle_record::Error),
    /// The embeddings, labels or options make no sense.
    #[error("{0}")]
    Input(String),
    /// libtorch failed.
    #[error("while {during}: {source}")]
    Torch {
        /// The operation that failed.
        during: &'static str,
        /// libtorch's error.
        source: curricle_sdk::Error,
    },
}
