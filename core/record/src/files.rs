//! Atomic file writes, and JSON files.

use crate::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;

/// Writes a file atomically: a reader, also after a crash, sees all of it or nothing.
pub fn write(path: &Path, contents: &[u8]) -> Result<()> {
    write_with(path, |file| file.write_all(contents).map_err(Error::file("write", path)))
}

/// As [`write()`], for contents that are written in pieces.
pub(crate) fn write_with<E: From<Error>>(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<&mut File>) -> Result<(), E>,
) -> Result<(), E> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed = || Error::file("write", path);
    let mut temporary = builder().tempfile_in(folder).map_err(|e| failed()(without_path(e)))?;
    let mut file = BufWriter::new(temporary.as_file_mut());
    fill(&mut file)?;
    file.flush().map_err(failed())?;
    drop(file);
    temporary.as_file().sync_all().map_err(failed())?;
    temporary.persist(path).map_err(|e| failed()(e.error))?;
    Ok(())
}

/// The error without the path of the temporary file, which tells users nothing.
fn without_path(error: std::io::Error) -> std::io::Error {
    match error.kind() {
        kind @ (ErrorKind::PermissionDenied
        | ErrorKind::NotFound
        | ErrorKind::StorageFull
        | ErrorKind::ReadOnlyFilesystem
        | ErrorKind::NotADirectory) => kind.into(),
        _ => error,
    }
}

/// How the names of temporary files begin.
const PREFIX: &str = ".writing-";

/// Whether a file is, by its name, one that is being written, or that a killed process left unfinished.
pub fn is_temporary(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PREFIX))
}

/// Temporary files are private to their owner by default, but run folders are shared; the umask still
/// applies.
fn builder<'a>() -> tempfile::Builder<'a, 'a> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).suffix(".tmp");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder
}

/// Writes a value as readable JSON.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(value).map_err(|e| Error::file("write", path)(e.into()))?;
    text.push(b'\n');
    write(path, &text)
}

/// Reads a JSON file; `None` if it does not exist.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file("read", path)(error)),
    };
    serde_json::from_slice(&text).map(Some).map_err(|e| Error::format(path, format!("cannot be parsed: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_keeps_the_old_file_and_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.json");
        write(&path, b"old").unwrap();
        let failed = write_with(&path, |file| {
            file.write_all(b"half").map_err(Error::file("write", &path))?;
            Err(Error::file("write", &path)(std::io::Error::other("disk full")))
        });
        let message = failed.unwrap_err().to_string();
        assert!(message.contains("cannot write") && message.contains("disk full"), "{message}");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_error_names_the_file_but_not_the_temporary_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing/result.json");
        let message = write(&path, b"text").unwrap_err().to_string();
        assert!(message.contains("missing/result.json") && !message.contains(".writing-"), "{message}");
    }

    #[test]
    fn a_missing_json_file_is_none_and_a_broken_one_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        assert_eq!(read_json::<Vec<i32>>(&path).unwrap(), None);
        write_json(&path, &[1, 2]).unwrap();
        assert_eq!(read_json::<Vec<i32>>(&path).unwrap(), Some(vec![1, 2]));
        std::fs::write(&path, "[1,").unwrap();
        assert!(read_json::<Vec<i32>>(&path).unwrap_err().to_string().contains("x.json"));
    }
}
