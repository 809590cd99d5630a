//! The text files of published data sets: whitespace-separated fields, one sample per line.

use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// A text file whose errors name the line.
pub(super) struct ListFile {
    path: PathBuf,
    text: String,
}

impl ListFile {
    /// Reads a file.
    pub(super) fn read(path: PathBuf) -> Result<Self> {
        let bytes = std::fs::read(&path).map_err(Error::file("read", &path))?;
        // Old lists are not always UTF-8, but image paths are.
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Self { path, text })
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The non-empty lines after the first `skipped`, with their numbers, each split into exactly `N` fields;
    /// the last field takes the rest of the line.
    pub(super) fn fields<const N: usize>(&self, skipped: usize) -> impl Iterator<Item = Result<(usize, [&str; N])>> {
        let lines = self.text.lines().enumerate().skip(skipped).filter(|(_, line)| !line.trim().is_empty());
        lines.map(move |(index, line)| {
            let mut fields = [""; N];
            let mut rest = line.trim();
            for (i, field) in fields.iter_mut().enumerate() {
                let end = if i + 1 == N { rest.len() } else { rest.find(char::is_whitespace).unwrap_or(rest.len()) };
                *field = &rest[..end];
                rest = rest[end..].trim_start();
            }
            match fields.last() {
                Some(last) if !last.is_empty() => Ok((index + 1, fields)),
                _ => Err(self.problem(index + 1, format!("has fewer than {N} fields: `{}`", line.trim()))),
            }
        })
    }

    /// The first line.
    pub(super) fn first(&self) -> &str {
        self.text.lines().next().unwrap_or_default().trim()
    }

    /// Parses a positive integer.
    pub(super) fn number(&self, line: usize, text: &str) -> Result<usize> {
        let number = text.parse().ok().filter(|number| *number > 0);
        number.ok_or_else(|| self.problem(line, format!("`{text}` is not a positive integer")))
    }

    /// An error about a line.
    pub(super) fn problem(&self, line: usize, message: impl std::fmt::Display) -> Error {
        Error::format(&self.path, format!("line {line}: {message}"))
    }
}
