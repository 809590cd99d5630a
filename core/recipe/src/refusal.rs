//! Why a library was not loaded.

use std::fmt;
use std::path::{Path, PathBuf};

/// A library that cannot be used: what is wrong with it, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub what: String,
    /// How to fix it.
    pub fix: String,
}

impl Refusal {
    /// Creates a refusal.
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
