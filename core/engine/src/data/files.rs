//! Images in files, decoded on demand.

use super::image_cache::ImageCache;
use super::images::{Occurrence, Pipeline, View};
use crate::{Error, Result};
use curricle_recipe::ImagesRecipe;
use curricle_record as record;
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tch::{Kind, Tensor};

/// Images in files. Clones are cheap.
#[derive(Debug, Clone)]
pub struct Files {
    places: Arc<[HashedFile]>,
    settings: Arc<ImagesRecipe>,
    image_cache: Option<Arc<ImageCache>>,
}

/// A file and the hash of its contents.
#[derive(Debug, Clone)]
pub struct HashedFile {
    /// Its path.
    pub path: PathBuf,
    /// Hash of its bytes.
    pub hash: blake3::Hash,
}

impl Files {
    /// Images from these files.
    pub fn new(places: impl IntoIterator<Item = HashedFile>, settings: Arc<ImagesRecipe>) -> Self {
        Self { places: places.into_iter().collect(), settings, image_cache: None }
    }

    /// The same, read from a cache of decoded images.
    pub(super) fn with_cache(self, image_cache: Option<Arc<ImageCache>>) -> Self {
        Self { image_cache, ..self }
    }

    /// Number of images.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are no images.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether these are the same files in the same order. Both must be of one data set, whose transforms they share.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let (ours, theirs) = (self.places.iter().map(|file| &file.path), other.places.iter().map(|file| &file.path));
        Arc::ptr_eq(&self.settings, &other.settings) && ours.eq(theirs)
    }

    /// How images are transformed.
    pub fn settings(&self) -> &ImagesRecipe {
        &self.settings
    }

    /// The file of one sample.
    pub fn path(&self, sample: usize) -> &Path {
        &self.places[sample].path
    }

    /// Size in bytes of one image as the network sees it.
    pub fn bytes(&self) -> usize {
        3 * self.settings.size * self.settings.size
    }

    /// Fills `out` with the transformed image of one sample.
    pub(super) fn load(&self, pipeline: &mut Pipeline, view: View, visit: Occurrence, out: &mut [u8]) -> Result<()> {
        let HashedFile { path, hash } = &self.places[visit.sample];
        let cached = self.image_cache.as_ref().and_then(|image_cache| image_cache.get(hash));
        pipeline.load(path, cached, &self.settings, view, visit, out).map_err(|error| match error {
            Error::Record(record::Error::Format { path, message }) => Error::format(
                path,
                format!(
                    "{message}\nhelp: list all bad files with `curricle data check`, then repair or remove them, or skip \
                     them with `images.on_bad_image = \"skip\"`"
                ),
            ),
            other => other,
        })
    }

    /// A selection of the images, in the given order.
    pub fn select(&self, samples: &[usize]) -> Self {
        let places = samples.iter().map(|s| self.places[*s].clone());
        Self::new(places, self.settings.clone()).with_cache(self.image_cache.clone())
    }

    /// Hashes everything that affects the network's inputs: file contents and transforms.
    pub(super) fn hash_into(&self, hasher: &mut blake3::Hasher) {
        hasher.update(&(self.len() as u64).to_le_bytes());
        self.places.iter().for_each(|place| {
            hasher.update(place.hash.as_bytes());
        });
        // `on_bad_image` shows in the list of files itself.
        let ImagesRecipe { size, resize: _, shrink, crop, flip, jitter, interpolation, on_bad_image: _ } =
            &*self.settings;
        let settings = (size, self.settings.resize(), shrink, crop, flip, jitter, interpolation);
        hasher.update(format!("{settings:?}").as_bytes());
    }

    /// Central squares `[n, 3, side, side]`, u8.
    pub(crate) fn thumbnails(&self, samples: &[usize], side: i64) -> Result<Tensor> {
        let pixels = 3 * (side * side) as usize;
        let mut bytes = vec![0; samples.len() * pixels];
        bytes.par_chunks_mut(pixels).zip(samples).try_for_each_init(Pipeline::default, |pipeline, (out, sample)| {
            pipeline.thumbnail(self.path(*sample), side as usize, out)
        })?;
        let shape = [samples.len() as i64, 3, side, side];
        Tensor::f_from_data_size(&bytes, &shape, Kind::Uint8)
            .map_err(|e| Error::Torch { during: "making thumbnails", source: e.into() })
    }
}
