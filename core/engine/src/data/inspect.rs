//! Checks every file: whether it exists, its hash, and whether it can be decoded.

use super::images::Pipeline;
use super::ledger::{Known, Ledger, Stamp};
use crate::{Error, Result};
use rayon::prelude::*;
use std::path::Path;

/// How thoroughly to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Read the file, unless it is in the cache.
    Contents,
    /// Also decode it, unless it is in the cache.
    Pixels,
    /// Read and decode it, ignoring the cache.
    Afresh,
}

/// The hash of a file's contents, or what is wrong with it.
pub type Finding = Result<blake3::Hash>;

/// Checks files below a folder, in parallel; `seen` is called after each.
pub fn inspect(root: &Path, paths: &[&str], look: Look, seen: &(dyn Fn() + Sync)) -> Vec<Finding> {
    let ledger = Ledger::open(root);
    let (findings, known): (Vec<Finding>, Vec<_>) = paths
        .par_iter()
        .map_init(Pipeline::default, |pipeline, name| {
            let path = root.join(name);
            let stamp = path.metadata().ok().as_ref().and_then(Stamp::of);
            let before = ledger.find(name, stamp).filter(|_| look != Look::Afresh);
            let known = match before {
                Some(known) if look == Look::Contents || known.decoded.is_some() => Ok(known.clone()),
                _ => examine(pipeline, &path, look),
            };
            seen();
            let finding = match &known {
                Ok(Known { decoded: Some(Err(problem)), .. }) if look != Look::Contents => {
                    Err(Error::format(path, problem.clone()))
                }
                Ok(known) => Ok(known.hash),
                Err(_) => return (known.map(|known| known.hash), None),
            };
            (finding, stamp.zip(known.ok()).map(|(stamp, known)| (name.to_string(), stamp, known)))
        })
        .unzip();
    ledger.save(known.into_iter().flatten());
    findings
}

/// Reads a file, and decodes it if asked to. A file that cannot be decoded is a result, not an error.
fn examine(pipeline: &mut Pipeline, path: &Path, look: Look) -> Result<Known> {
    if look == Look::Contents {
        refuse_special(path)?;
        let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
        return Ok(Known { hash: blake3::hash(&bytes), decoded: None });
    }
    let (hash, decoded) = pipeline.examine(path)?;
    Ok(Known { hash, decoded: Some(decoded) })
}

/// Refuses anything but regular files: opening a pipe blocks until something writes to it, and some devices
/// never end.
pub fn refuse_special(path: &Path) -> Result<()> {
    if path.metadata().map_err(Error::file("read", path))?.is_file() {
        return Ok(());
    }
    Err(Error::format(path, "is not a regular file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_folders_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a.png")).unwrap();
        for look in [Look::Contents, Look::Pixels, Look::Afresh] {
            for finding in inspect(folder.path(), &["/dev/null", "a.png"], look, &|| ()) {
                let message = finding.unwrap_err().to_string();
                assert!(message.ends_with("`: is not a regular file"), "{message}");
            }
        }
    }
}
