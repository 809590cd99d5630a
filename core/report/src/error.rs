//! Why runs could not be reported on.

use curricle_record as record;

/// Result of everything in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why runs could not be reported on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for does not exist: no such folder, run, method, case or metric.
    #[error("{0}")]
    Usage(String),
    /// The runs were made under different conditions.
    #[error("these runs cannot be compared: {0}")]
    NotComparable(String),
    /// A file could not be read or written.
    #[error(transparent)]
    Record(#[from] record::Error),
    /// A table or page could not be written.
    #[error("cannot write the {what}: {message}")]
    Write {
        /// The table or page.
        what: &'static str,
        /// What went wrong.
        message: String,
    },
}
