//! The folder of one run.

use crate::{Error, Result};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Checking whether a folder is in use locks it for a moment, so opening is retried.
const ATTEMPTS: usize = 5;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(20);

/// Where a run keeps its files: `<out>/<name>/<hash>/seed-<seed>`.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    // Held until the run ends, however it ends: the operating system releases it with the process.
    _lock: File,
}

impl RunFolder {
    /// The path of the run with this name, recipe hash and seed.
    pub fn path_for(out: &Path, name: &str, hash: &str, seed: u64) -> PathBuf {
        let short = hash.get(..8).unwrap_or(hash);
        out.join(name).join(short).join(format!("seed-{seed}"))
    }

    /// Creates the folder if needed and locks it for this process.
    pub fn open(path: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&path).map_err(Error::file("create", &path))?;
        let lock_path = path.join(".lock");
        let lock = File::create(&lock_path).map_err(Error::file("create", &lock_path))?;
        for _ in 0..ATTEMPTS {
            match lock.try_lock() {
                Ok(()) => return Ok(Self { path, _lock: lock }),
                Err(TryLockError::WouldBlock) => std::thread::sleep(BETWEEN_ATTEMPTS),
                Err(TryLockError::Error(error)) => return Err(Error::file("lock", &lock_path)(error)),
            }
        }
        Err(Error::Busy(path))
    }

    /// Whether a process holds the lock of a folder. Does not modify the folder.
    pub fn is_taken(path: &Path) -> bool {
        File::open(path.join(".lock")).is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Removes the files of an earlier run.
    pub fn clear(&self) -> Result<()> {
        let entries = std::fs::read_dir(&self.path).map_err(Error::file("read", &self.path))?;
        for entry in entries.flatten().filter(|entry| entry.file_name() != ".lock") {
            let path = entry.path();
            let removed = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            removed.map_err(Error::file("remove", &path))?;
        }
        Ok(())
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_in_use_is_busy_for_a_second_process() {
        let base = tempfile::tempdir().unwrap();
        let path = RunFolder::path_for(base.path(), "ms", "0123456789", 3);
        assert!(path.ends_with("ms/01234567/seed-3"));
        let first = RunFolder::open(path.clone()).unwrap();
        assert!(matches!(RunFolder::open(path.clone()), Err(Error::Busy(_))));
        assert!(RunFolder::is_taken(&path));
        drop(first);
        assert!(!RunFolder::is_taken(&path));
        RunFolder::open(path).unwrap();
    }

    #[test]
    fn clearing_keeps_the_lock_file() {
        let base = tempfile::tempdir().unwrap();
        let folder = RunFolder::open(base.path().join("run")).unwrap();
        std::fs::create_dir(folder.file("checkpoints")).unwrap();
        std::fs::write(folder.file("metrics.jsonl"), "x").unwrap();
        folder.clear().unwrap();
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(left, [".lock"]);
    }
}
