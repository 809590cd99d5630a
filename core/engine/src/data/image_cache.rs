//! The image cache: decoded images in one memory-mapped file.
//!
//! The file name is a hash of the contents of all image files and of `images.shrink`, so a stale cache
//! is never found. The file is written under a temporary name and renamed when it is complete, and a
//! lock lets one process fill it while others wait.

use super::files::HashedFile;
use super::images::{Pipeline, Pixels};
use crate::progress::{Bar, ProgressMode};
use crate::{Error, Result};
use memmap2::Mmap;
use rayon::prelude::*;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

const MAGIC: &[u8; 32] = b"curricle packed images 2\n\n\n\n\n\n\n\n";
/// Magic, number of images and hash of the rows.
const FRONT: usize = 72;
/// Hash, offset, width and height.
const ROW: usize = 48;
/// Incremented whenever the same file decodes to different pixels than before.
const DECODING: u32 = 2;
/// Images decoded in parallel before they are written.
const CHUNK: usize = 256;

/// A cache of decoded images.
#[derive(Debug)]
pub(super) struct ImageCache {
    map: Mmap,
    places: HashMap<blake3::Hash, (usize, usize, usize)>,
}

impl ImageCache {
    /// Opens the cache of these images in a folder, and fills it first if it does not exist.
    pub(super) fn open(
        folder: &Path,
        files: &[HashedFile],
        shrink: Option<usize>,
        progress: ProgressMode,
    ) -> Result<Self> {
        let mut files: Vec<&HashedFile> = files.iter().collect();
        files.sort_unstable_by_key(|place| *place.hash.as_bytes());
        files.dedup_by_key(|place| place.hash);
        let mut hasher = blake3::Hasher::new();
        hasher.update(MAGIC);
        hasher.update(format!("{} {DECODING} {shrink:?}", env!("CARGO_PKG_VERSION")).as_bytes());
        files.iter().for_each(|place| {
            hasher.update(place.hash.as_bytes());
        });
        let name = &hasher.finalize().to_hex()[..16];
        let path = folder.join(format!("{name}.images"));
        std::fs::create_dir_all(folder).map_err(Error::file("create", folder))?;

        let lock = folder.join(format!("{name}.lock"));
        let mut lock = fd_lock::RwLock::new(File::create(&lock).map_err(Error::file("create", &lock))?);
        if lock.try_write().is_err() {
            tracing::warn!("waiting for another process to fill the image cache `{}`", path.display());
        }
        let _guard = lock.write().map_err(Error::file("lock", folder))?;
        if !path.is_file() {
            tracing::info!("decoding {} images into the image cache `{}`", files.len(), path.display());
            let bar = Bar::new(progress, "decoding images", files.len() as u64);
            let unfinished = format!(".filling-{name}-");
            remove_unfinished(folder, &unfinished)?;
            fill(&path, folder, &unfinished, &files, shrink, &bar)?;
        }
        Self::map(&path)
    }

    fn map(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::file("read", path))?;
        // SAFETY: caches are never changed once they have their final name. Truncating one by hand
        // ends the program with a bus error, as with every mapped file.
        let map = unsafe { Mmap::map(&file) }.map_err(Error::file("map", path))?;
        let places = index(&map)
            .ok_or_else(|| Error::format(path, "is not an image cache, or damaged; delete it to have it rebuilt"))?;
        Ok(Self { map, places })
    }

    /// The image of a file with this hash.
    pub(super) fn get(&self, hash: &blake3::Hash) -> Option<Pixels<'_>> {
        let &(offset, width, height) = self.places.get(hash)?;
        Some(Pixels { width, height, rgb: &self.map[offset..][..3 * width * height] })
    }
}

/// The position of each image; `None` if the file is incomplete or its rows are damaged.
fn index(bytes: &[u8]) -> Option<HashMap<blake3::Hash, (usize, usize, usize)>> {
    if bytes.get(..32)? != MAGIC {
        return None;
    }
    let count = usize::try_from(u64::from_le_bytes(bytes.get(32..40)?.try_into().ok()?)).ok()?;
    let rows = bytes.get(FRONT..FRONT.checked_add(count.checked_mul(ROW)?)?)?;
    if blake3::Hash::from_slice(bytes.get(40..FRONT)?).ok()? != blake3::hash(rows) {
        return None;
    }
    let row = |row: &[u8]| {
        let offset = usize::try_from(u64::from_le_bytes(row[32..40].try_into().ok()?)).ok()?;
        let side = |at: usize| Some(u32::from_le_bytes(row[at..at + 4].try_into().ok()?) as usize);
        let (width, height) = (side(40)?, side(44)?);
        let length = width.checked_mul(height)?.checked_mul(3).filter(|length| *length > 0)?;
        bytes.get(offset..offset.checked_add(length)?)?;
        Some((blake3::Hash::from_slice(&row[..32]).ok()?, (offset, width, height)))
    };
    rows.chunks_exact(ROW).map(row).collect()
}

/// Removes what processes left that were killed while filling this cache. Call it with the cache locked.
fn remove_unfinished(folder: &Path, prefix: &str) -> Result<()> {
    for entry in std::fs::read_dir(folder).map_err(Error::file("read", folder))?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            std::fs::remove_file(entry.path()).map_err(Error::file("remove", entry.path()))?;
        }
    }
    Ok(())
}

/// Decodes all images into a temporary file whose name begins with `prefix`, which then gets its final name.
fn fill(
    path: &Path,
    folder: &Path,
    prefix: &str,
    files: &[&HashedFile],
    shrink: Option<usize>,
    bar: &Bar,
) -> Result<()> {
    // Caches are shared; the umask still applies.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    let temporary = tempfile::Builder::new().prefix(prefix).permissions(mode).tempfile_in(folder);
    let mut temporary = temporary.map_err(Error::file("create", folder))?;
    let mut offset = (FRONT + ROW * files.len()) as u64;
    let mut rows = Vec::with_capacity(ROW * files.len());
    let (mut done, first) = (0, offset);
    let mut out = BufWriter::with_capacity(1 << 20, temporary.as_file_mut());
    let full = |done: usize, written: u64, error: io::Error| {
        if error.kind() != io::ErrorKind::StorageFull {
            return Error::file("write", path)(error);
        }
        let gigabytes = |bytes: f64| bytes / 1e9;
        let expected = written as f64 / done.max(1) as f64 * files.len() as f64;
        Error::Failed(format!(
            "no space left for the image cache `{}`: {done} of {} images take {:.1} GB, all would take about {:.1} GB; \
             choose another folder, shrink the images with `images.shrink`, or run without the cache",
            folder.display(),
            files.len(),
            gigabytes(written as f64),
            gigabytes(expected)
        ))
    };
    out.seek(SeekFrom::Start(offset)).map_err(|e| full(0, 0, e))?;
    for chunk in files.chunks(CHUNK) {
        let decode = |pipeline: &mut Pipeline, place: &&HashedFile| {
            let image = pipeline.whole_image(&place.path, shrink)?;
            Ok((place.hash, image.width, image.height, image.rgb.to_vec()))
        };
        let images = chunk.par_iter().map_init(Pipeline::default, decode).collect::<Result<Vec<_>>>()?;
        for (hash, width, height, rgb) in images {
            out.write_all(&rgb).map_err(|e| full(done, offset - first, e))?;
            rows.extend_from_slice(hash.as_bytes());
            rows.extend_from_slice(&offset.to_le_bytes());
            rows.extend_from_slice(&(width as u32).to_le_bytes());
            rows.extend_from_slice(&(height as u32).to_le_bytes());
            offset += rgb.len() as u64;
            done += 1;
            bar.advance();
        }
    }
    let mut finish = || {
        out.seek(SeekFrom::Start(0))?;
        out.write_all(MAGIC)?;
        out.write_all(&(files.len() as u64).to_le_bytes())?;
        out.write_all(blake3::hash(&rows).as_bytes())?;
        out.write_all(&rows)?;
        out.flush()
    };
    finish().map_err(|e| full(done, offset - first, e))?;
    drop(out);
    temporary.as_file().sync_all().map_err(|e| full(done, offset - first, e))?;
    temporary.persist(path).map_err(|e| Error::file("write", path)(e.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(folder: &Path, colours: &[u8]) -> Vec<HashedFile> {
        let place = |colour: &u8| {
            let path = folder.join(format!("{colour}.png"));
            let image = image::RgbImage::from_fn(50, 40, |x, y| image::Rgb([*colour, x as u8, y as u8]));
            image.save(&path).unwrap();
            HashedFile { hash: blake3::hash(&std::fs::read(&path).unwrap()), path }
        };
        colours.iter().map(place).collect()
    }

    #[test]
    fn cached_images_equal_the_decoded_and_shrunk_ones() {
        let (folder, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let files = places(folder.path(), &[1, 2, 3, 1]);
        for shrink in [None, Some(20)] {
            let image_cache = ImageCache::open(cache.path(), &files, shrink, ProgressMode::Quiet).unwrap();
            for place in &files {
                let mut pipeline = Pipeline::default();
                let (ours, theirs) =
                    (image_cache.get(&place.hash).unwrap(), pipeline.whole_image(&place.path, shrink).unwrap());
                assert_eq!((ours.width, ours.height), (theirs.width, theirs.height));
                assert_eq!(ours.rgb, theirs.rgb);
            }
            assert!(image_cache.get(&blake3::hash(b"another")).is_none());
        }
        // Opening again needs no files; different contents need a different cache.
        files.iter().for_each(|place| std::fs::remove_file(&place.path).unwrap_or_default());
        ImageCache::open(cache.path(), &files, None, ProgressMode::Quiet).unwrap();
        let other = HashedFile { hash: blake3::hash(b"changed"), ..files[0].clone() };
        assert!(
            ImageCache::open(cache.path(), &[other], None, ProgressMode::Quiet)
                .unwrap_err()
                .to_string()
                .contains("cannot read")
        );
    }

    #[test]
    fn what_a_killed_process_left_is_removed_when_the_cache_is_filled() {
        let (folder, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let files = places(folder.path(), &[1, 2]);
        let names = || {
            let mut names: Vec<_> = std::fs::read_dir(cache.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        ImageCache::open(cache.path(), &files, None, ProgressMode::Quiet).unwrap();
        let complete = names();
        let images = complete.iter().find(|name| name.ends_with(".images")).unwrap();
        std::fs::remove_file(cache.path().join(images)).unwrap();
        let (own, other) = (format!(".filling-{}-a1b2c3", &images[..16]), ".filling-0123456789abcdef-a1b2c3");
        [own.as_str(), other].into_iter().for_each(|name| std::fs::write(cache.path().join(name), b"half").unwrap());
        ImageCache::open(cache.path(), &files, None, ProgressMode::Quiet).unwrap();
        // Another process may be filling the other cache.
        assert_eq!(names(), [&[other.to_string()][..], &complete].concat());
    }

    #[test]
    fn a_damaged_cache_is_refused() {
        let (folder, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let files = places(folder.path(), &[1, 2]);
        ImageCache::open(cache.path(), &files, None, ProgressMode::Quiet).unwrap();
        let entries = std::fs::read_dir(cache.path()).unwrap().flatten().map(|entry| entry.path());
        let path = entries.into_iter().find(|path| path.extension().is_some_and(|e| e == "images")).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        for length in [0, 10, 39, 100, bytes.len() - 1] {
            std::fs::write(&path, &bytes[..length]).unwrap();
            let message = ImageCache::open(cache.path(), &files, None, ProgressMode::Quiet).unwrap_err().to_string();
            assert!(message.contains("delete it to have it rebuilt") || length == 0, "{message}");
        }
    }

    #[test]
    fn a_changed_index_is_refused() {
        let rgb = [7_u8; 3 * 4 * 2];
        let file = |width: u32, height: u32| {
            let offset = (FRONT + ROW) as u64;
            let hash = blake3::hash(b"file");
            let sizes = [width.to_le_bytes(), height.to_le_bytes()].concat();
            let row = [&hash.as_bytes()[..], &offset.to_le_bytes(), &sizes].concat();
            [&MAGIC[..], &1_u64.to_le_bytes(), blake3::hash(&row).as_bytes(), &row, &rgb].concat()
        };
        let good = file(4, 2);
        assert_eq!(index(&good).unwrap()[&blake3::hash(b"file")], (FRONT + ROW, 4, 2));
        // The last is so large that three bytes for each pixel make 2^64 + 1526.
        for (width, height) in [(0, 2), (4, 0), (4, 3), (2_480_740_511, 2_478_660_974)] {
            let large = [file(width, height), vec![0; 2000 * usize::from(width > 4)]].concat();
            assert!(index(&large).is_none(), "{width} x {height}");
        }
        // Within the file, but not what was written.
        let mut changed = good;
        changed[FRONT + 40] = 2;
        assert!(index(&changed).is_none());
    }

    #[test]
    fn two_threads_can_open_the_same_new_cache() {
        let (folder, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let files = places(folder.path(), &[1, 2, 3, 4, 5]);
        std::thread::scope(|scope| {
            let open = || ImageCache::open(cache.path(), &files, None, ProgressMode::Quiet).unwrap().places.len();
            let both = [scope.spawn(open), scope.spawn(open)];
            assert!(both.into_iter().all(|thread| thread.join().unwrap() == 5));
        });
    }
}
