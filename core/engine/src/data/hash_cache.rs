//! The file-hash cache, which lets later runs hash a large data set without reading it again.
//!
//! It is a CSV file in the user's cache folder, one per image folder. A file whose size and
//! timestamps are unchanged is assumed to have the same contents. Without a cache folder, or if the
//! cache cannot be read, all files are read again; nothing else changes.

use curricle_record::files;
use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Contains the version, because another version may decode differently.
const HEADER: &str = concat!("curricle ", env!("CARGO_PKG_VERSION"), " files 1");

/// The file-hash cache of one folder.
#[derive(Debug, Default)]
pub(super) struct HashCache {
    path: Option<PathBuf>,
    known: HashMap<String, (Stamp, CachedFile)>,
}

/// A file's size and timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    size: u64,
    modified: i128,
    changed: i128,
}

/// A cache entry: what is known about a file's contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CachedFile {
    /// Hash of its bytes.
    pub hash: blake3::Hash,
    /// Whether it has been decoded, and what was wrong with it.
    pub decoded: Option<Result<(), String>>,
}

impl Stamp {
    /// `None` for a file that changed so recently that another change might not alter its timestamps.
    pub(super) fn of(data: &Metadata) -> Option<Self> {
        let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        let changed = nanoseconds(data.ctime(), data.ctime_nsec());
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let settled = now.as_nanos() as i128 - changed > 2_000_000_000;
        settled.then_some(Self { size: data.len(), modified: nanoseconds(data.mtime(), data.mtime_nsec()), changed })
    }
}

impl HashCache {
    /// Opens the cache of a folder.
    pub(super) fn open(root: &Path) -> Self {
        let root = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
        let name = blake3::hash(root.as_os_str().as_encoded_bytes()).to_hex();
        let Some(path) = cache_folder().map(|folder| folder.join(format!("files-{}.csv", &name[..16]))) else {
            return Self::default();
        };
        let known = std::fs::read(&path).ok().and_then(|text| parse(&text)).unwrap_or_default();
        Self { path: Some(path), known }
    }

    /// The entry of a file, if its stamp is unchanged.
    pub(super) fn find(&self, path: &str, stamp: Option<Stamp>) -> Option<&CachedFile> {
        self.known.get(path).filter(|(known, _)| Some(*known) == stamp).map(|(_, known)| known)
    }

    /// Adds entries and writes the cache. If that fails, only speed is lost.
    pub(super) fn save(mut self, now: impl IntoIterator<Item = (String, Stamp, CachedFile)>) {
        let Some(path) = self.path.take() else { return };
        let mut changed = false;
        for (file, stamp, known) in now {
            changed |= self.known.insert(file, (stamp, known.clone())).is_none_or(|before| before != (stamp, known));
        }
        if !changed {
            return;
        }
        let written =
            path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(crate::Error::file("create", &path));
        if let Err(error) = written.and_then(|()| Ok(files::write(&path, &self.to_csv())?)) {
            tracing::debug!("the file-hash cache cannot be saved: {error}");
        }
    }

    fn to_csv(&self) -> Vec<u8> {
        let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
        let mut rows: Vec<_> = self.known.iter().collect();
        rows.sort_unstable_by_key(|(path, _)| *path);
        // Writing to memory does not fail.
        let _ = writer.write_record([HEADER]);
        for (path, (stamp, known)) in rows {
            let (decoded, problem) = match &known.decoded {
                None => ("no", ""),
                Some(Ok(())) => ("good", ""),
                Some(Err(problem)) => ("bad", problem.as_str()),
            };
            let Stamp { size, modified, changed } = stamp;
            let numbers = [size.to_string(), modified.to_string(), changed.to_string(), known.hash.to_string()];
            let row = [path.as_str()].into_iter().chain(numbers.iter().map(String::as_str)).chain([decoded, problem]);
            let _ = writer.write_record(row);
        }
        writer.into_inner().unwrap_or_default()
    }
}

fn parse(text: &[u8]) -> Option<HashMap<String, (Stamp, CachedFile)>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text);
    let mut records = reader.records();
    if records.next()?.ok()?.get(0)? != HEADER {
        return None;
    }
    let row = |record: csv::StringRecord| {
        let stamp = Stamp {
            size: record.get(1)?.parse().ok()?,
            modified: record.get(2)?.parse().ok()?,
            changed: record.get(3)?.parse().ok()?,
        };
        let decoded = match record.get(5)? {
            "good" => Some(Ok(())),
            "bad" => Some(Err(record.get(6)?.to_string())),
            _ => None,
        };
        let hash = blake3::Hash::from_hex(record.get(4)?).ok()?;
        Some((record.get(0)?.to_string(), (stamp, CachedFile { hash, decoded })))
    };
    records.map(|record| row(record.ok()?)).collect()
}

/// `$XDG_CACHE_HOME/curricle`, or `.cache/curricle` in the home folder.
fn cache_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("curricle"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_cache_is_read_back_and_one_of_another_version_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub/files.csv");
        let stamp = |size| Stamp { size, modified: -5, changed: 1 << 70 };
        let known = |decoded| CachedFile { hash: blake3::hash(b"x"), decoded };
        let rows = [
            ("a, \"b\".jpg".to_string(), stamp(1), known(None)),
            ("c.jpg".to_string(), stamp(2), known(Some(Ok(())))),
            ("d\n.jpg".to_string(), stamp(3), known(Some(Err("is truncated, sadly".into())))),
        ];
        HashCache { path: Some(path.clone()), known: HashMap::new() }.save(rows.clone());
        let text = std::fs::read(&path).unwrap();
        let hash_cache = HashCache { path: None, known: parse(&text).unwrap() };
        for (path, stamp, known) in &rows {
            assert_eq!(hash_cache.find(path, Some(*stamp)), Some(known));
            assert_eq!(hash_cache.find(path, Some(Stamp { size: 9, ..*stamp })), None);
            assert_eq!(hash_cache.find(path, None), None);
        }
        assert_eq!(parse(&String::from_utf8(text).unwrap().replace("files 1", "files 0").into_bytes()), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn a_file_that_has_just_changed_is_not_trusted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(Stamp::of(&file.path().metadata().unwrap()), None);
    }
}
