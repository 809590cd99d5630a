//! Files that are there completely or not at all.

use crate::{Error, Result};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes a file beside its place, then moves it there.
///
/// Not `tempfile`: its files are readable by their owner only, and a run folder is often shared.
pub(super) fn replace(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    let temporary = beside(path);
    let file = File::create(&temporary).map_err(Error::file("write", &temporary))?;
    let mut file = BufWriter::new(file);
    let written = write(&mut file).and_then(|()| {
        file.flush().and_then(|()| file.get_ref().sync_all()).map_err(Error::file("write", &temporary))?;
        std::fs::rename(&temporary, path).map_err(Error::file("write", path))
    });
    if written.is_err() {
        // The first error is the one to report; a left-over `.tmp` file does no harm.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

/// [`replace`] with content that is in memory already.
pub(super) fn replace_with(path: &Path, content: &[u8]) -> Result<()> {
    replace(path, |file| file.write_all(content).map_err(Error::file("write", path)))
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
    name.push(".tmp");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_content_and_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        replace_with(&path, b"old").unwrap();
        let result = replace(&path, |file| {
            file.write_all(b"half").unwrap();
            Err(Error::Failed("stopped".into()))
        });
        assert!(result.is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
