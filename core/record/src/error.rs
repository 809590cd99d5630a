//! Errors in the files of a run.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Result of everything in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a file of a run could not be read, written or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused to read or write a file.
    #[error("cannot {action} `{path}`: {reason}{hint}", reason = reason(source), hint = next_step(action, source))]
    File {
        /// `read`, `write`, `create`, …
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A file was read but its contents are not what they should be.
    #[error("`{path}`: {message}")]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong, and how to fix it.
        message: String,
    },
    /// Another process is working on the same run.
    #[error("another process is working on `{0}`; wait for it, or choose another folder with `--out`")]
    Busy(PathBuf),
    /// A run was started under conditions that no longer hold.
    #[error(
        "`{folder}` was started with {what} (`{before}`, now `{now}`) and cannot be resumed; use `--force` to start \
         over"
    )]
    NotResumable {
        /// The folder of the run.
        folder: PathBuf,
        /// What changed, e.g. `different data`.
        what: &'static str,
        /// Its value or hash when the run started.
        before: String,
        /// Its value or hash now.
        now: String,
    },
}

impl Error {
    /// A failed file operation, for use with `map_err`.
    pub fn file(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.as_ref().to_path_buf();
        move |source| Error::File { action, path, source }
    }

    /// A file whose contents are wrong.
    pub fn format(path: impl AsRef<Path>, message: impl Into<String>) -> Error {
        Error::Format { path: path.as_ref().to_path_buf(), message: message.into() }
    }
}

/// The operating system's error in words, without its number where it has a plain name.
fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        // Its own message says more than its kind.
        _ if error.get_ref().is_some() => error.to_string(),
        ErrorKind::NotFound => "no such file or folder".into(),
        ErrorKind::IsADirectory => "it is a folder, not a file".into(),
        ErrorKind::NotADirectory => "a part of the path is a file, not a folder".into(),
        ErrorKind::PermissionDenied => "permission denied".into(),
        ErrorKind::StorageFull => "no space left on the disk".into(),
        ErrorKind::ReadOnlyFilesystem => "the file system is read-only".into(),
        _ => error.to_string(),
    }
}

/// What to do about an error of the operating system, where that is clear.
fn next_step(action: &str, error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound if matches!(action, "write" | "create") => {
            "\nhelp: check the path; a folder in it does not exist"
        }
        ErrorKind::NotADirectory => "\nhelp: choose another path",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "\nhelp: free some space, or choose a folder on another disk; an interrupted run resumes where it stopped"
        }
        ErrorKind::PermissionDenied => "\nhelp: check the owner and permissions, or choose another folder",
        ErrorKind::ReadOnlyFilesystem => "\nhelp: choose a folder that can be written",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disks_and_missing_permissions_have_a_next_step() {
        for (kind, step) in [
            (ErrorKind::StorageFull, "free some space"),
            (ErrorKind::PermissionDenied, "check the owner and permissions"),
            (ErrorKind::ReadOnlyFilesystem, "choose a folder that can be written"),
            (ErrorKind::NotFound, "a folder in it does not exist"),
            (ErrorKind::NotADirectory, "a part of the path is a file"),
        ] {
            let message = Error::file("write", "a.json")(kind.into()).to_string();
            assert!(message.starts_with("cannot write `a.json`: ") && message.contains(step), "{message}");
        }
        assert!(!Error::file("read", "a.json")(ErrorKind::NotFound.into()).to_string().contains("help:"));
    }
}
