//! Why a library was not loaded.

use std::fmt;
use std::path::{Path, PathBuf};

/// A library that is not going to be used: what was found in it, and how to mend it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub what: String,
    /// What to do.
    pub fix: String,
}

impl Refusal {
    /// A library that is not going to be used.
    pub fn new(path: &Path, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { path: path.into(), what: what.into(), fix: fix.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "plugin `{}` {}; {}", self.path.display(), self.what, self.fix)
    }
}

impl std::error::Error for Refusal {}

/// Named on the command line, a library that cannot be used is bad usage.
impl From<Refusal> for crate::Error {
    fn from(refusal: Refusal) -> Self {
        crate::Error::Usage(refusal.to_string())
    }
}
