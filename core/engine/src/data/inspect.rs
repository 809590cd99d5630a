//! A look at every file: does it exist, what is in it, can it be decoded?

use super::images::Pipeline;
use super::ledger::{Known, Ledger, Stamp};
use crate::{Error, Result};
use rayon::prelude::*;
use std::path::Path;

/// How closely to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Read the file, unless it is known from earlier.
    Contents,
    /// Also decode it, unless it is known from earlier.
    Pixels,
    /// Read and decode it, whatever is known.
    Afresh,
}

/// What was found: the hash of a file's contents, or what is wrong with it.
pub type Finding = Result<blake3::Hash>;

/// Looks at files below a folder, in parallel; `seen` is called after each.
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

/// Reads a file and decodes it if asked for. A file that can be read but not decoded is known to be
/// bad.
fn examine(pipeline: &mut Pipeline, path: &Path, look: Look) -> Result<Known> {
    if look == Look::Contents {
        refuse_special(path)?;
        let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
        return Ok(Known { hash: blake3::hash(&bytes), decoded: None });
    }
    let (hash, decoded) = pipeline.examine(path)?;
    Ok(Known { hash, decoded: Some(decoded) })
}

/// Refuses what is there but no regular file. Who opens a pipe waits for somebody to write, and some
/// devices never end.
pub fn refuse_special(path: &Path) -> Result<()> {
    if path.metadata().map_err(Error::file("read", path))?.is_file() {
        return Ok(());
    }
    Err(Error::format(path, "is no regular file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_folders_are_no_files() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a.png")).unwrap();
        for look in [Look::Contents, Look::Pixels, Look::Afresh] {
            for finding in inspect(folder.path(), &["/dev/null", "a.png"], look, &|| ()) {
                let message = finding.unwrap_err().to_string();
                assert!(message.ends_with("`: is no regular file"), "{message}");
            }
        }
    }
}
