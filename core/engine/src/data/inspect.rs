//! Checks every file: whether it exists, its hash, and whether it can be decoded.

use super::hash_cache::{CachedFile, HashCache, Stamp};
use super::images::Pipeline;
use crate::{Error, Result};
use rayon::prelude::*;
use std::path::Path;

/// How thoroughly to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckLevel {
    /// Read the file, unless it is in the cache.
    Contents,
    /// Also decode it, unless it is in the cache.
    Pixels,
    /// Read and decode it, ignoring the cache.
    Uncached,
}

/// The hash of a file's contents, or what is wrong with it.
pub(super) type Inspection = Result<blake3::Hash>;

/// Checks files below a folder, in parallel; `seen` is called after each.
pub(crate) fn inspect(root: &Path, paths: &[&str], look: CheckLevel, seen: &(dyn Fn() + Sync)) -> Vec<Inspection> {
    let hash_cache = HashCache::open(root);
    let (findings, known): (Vec<Inspection>, Vec<_>) = paths
        .par_iter()
        .map_init(Pipeline::default, |pipeline, name| {
            let path = root.join(name);
            let stamp = path.metadata().ok().as_ref().and_then(Stamp::of);
            let before = hash_cache.find(name, stamp).filter(|_| look != CheckLevel::Uncached);
            let known = match before {
                Some(known) if look == CheckLevel::Contents || known.decoded.is_some() => Ok(known.clone()),
                _ => examine(pipeline, &path, look),
            };
            seen();
            let finding = match &known {
                Ok(CachedFile { decoded: Some(Err(problem)), .. }) if look != CheckLevel::Contents => {
                    Err(Error::format(path, problem.clone()))
                }
                Ok(known) => Ok(known.hash),
                Err(_) => return (known.map(|known| known.hash), None),
            };
            (finding, stamp.zip(known.ok()).map(|(stamp, known)| (name.to_string(), stamp, known)))
        })
        .unzip();
    hash_cache.save(known.into_iter().flatten());
    findings
}

/// Reads a file, and decodes it if asked to. A file that cannot be decoded is a result, not an error.
fn examine(pipeline: &mut Pipeline, path: &Path, look: CheckLevel) -> Result<CachedFile> {
    if look == CheckLevel::Contents {
        refuse_irregular(path)?;
        let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
        return Ok(CachedFile { hash: blake3::hash(&bytes), decoded: None });
    }
    let (hash, decoded) = pipeline.examine(path)?;
    Ok(CachedFile { hash, decoded: Some(decoded) })
}

/// Refuses anything but regular files: opening a pipe blocks until something writes to it, and some devices
/// never end.
pub(crate) fn refuse_irregular(path: &Path) -> Result<()> {
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
        for look in [CheckLevel::Contents, CheckLevel::Pixels, CheckLevel::Uncached] {
            for finding in inspect(folder.path(), &["/dev/null", "a.png"], look, &|| ()) {
                let message = finding.unwrap_err().to_string();
                assert!(message.ends_with("`: is not a regular file"), "{message}");
            }
        }
    }
}
