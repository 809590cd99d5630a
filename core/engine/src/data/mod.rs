//! Data sets, splits and label noise.

mod check;
mod class_split;
pub(crate) mod columns;
mod features;
mod feed;
mod file_list;
mod files;
mod hash;
mod hash_cache;
mod image_cache;
mod images;
mod inspect;
mod loose_images;
pub mod noise;
mod published;
mod sources;
pub(crate) mod split;
mod strokes;
mod survey;
pub mod validation;

pub use check::{DataReport, SplitReport, check};
use curricle_record::SkippedFile;
pub use feed::{Feed, Samples};
pub use files::Files;
pub(crate) use hash::{add_labels, add_texts};
pub use images::View;
pub use loose_images::LooseImages;
pub(crate) use loose_images::find_images;
pub use published::{FolderReport, PUBLISHED, PublishedSet};
pub use split::{Inputs, Layout, Split};
pub use survey::{ImageSurvey, Survey, survey};

use crate::Result;
use crate::progress::ProgressMode;
use curricle_recipe::{DataRecipe, ImagesRecipe};
use sources::Listed;
use std::path::Path;

/// A data set, split into training and test classes.
#[derive(Debug)]
pub struct Dataset {
    /// The training set.
    pub train: Split,
    /// The test set.
    pub test: Split,
    /// Which test samples are queries; all others are the gallery. `None`: every sample is a query against
    /// all others.
    pub query: Option<Vec<bool>>,
    /// Hash of the inputs, labels and class names of both splits: runs with the same hash used the same
    /// data. Paths do not count, so that the data may be in different folders.
    pub hash: String,
    /// Bad files that were skipped.
    pub skipped: Vec<SkippedFile>,
}

impl Dataset {
    fn new(train: Split, test: Split, query: Option<Vec<bool>>) -> Result<Self> {
        let hash = hash::of_splits(&[&train, &test], query.as_deref())?;
        Ok(Self { train, test, query, hash, skipped: Vec::new() })
    }

    /// The first half of the classes is the training set, the second half the test set.
    fn halves(whole: &Split) -> Result<Self> {
        let (train, test) = class_split::by_class(whole)?;
        Self::new(train, test, None)
    }
}

/// Loads the data set of a recipe, and splits it.
pub fn load(recipe: &DataRecipe, images: &ImagesRecipe) -> Result<Dataset> {
    load_cached(recipe, images, None, ProgressMode::Quiet)
}

/// The same with progress bars (checking many files for the first time takes minutes) and a cache folder for
/// decoded images. The first run fills the cache; it makes later runs faster and changes nothing else.
pub(crate) fn load_cached(
    recipe: &DataRecipe,
    images: &ImagesRecipe,
    cache: Option<&Path>,
    progress: ProgressMode,
) -> Result<Dataset> {
    match sources::list(recipe)? {
        Listed::Files(catalogue) => catalogue.open(images, cache, progress),
        Listed::Memory(whole) => Dataset::halves(&whole),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use curricle_recipe::StrokesRecipe;

    #[test]
    fn a_data_set_is_split_into_halves_and_hashed() {
        let load = |seed| {
            let recipe = StrokesRecipe { classes: 5, per_class: 2, size: 16, seed, ..StrokesRecipe::default() };
            load(&DataRecipe::Strokes(recipe), &ImagesRecipe::default()).unwrap()
        };
        let data = load(0);
        assert_eq!(data.train.class_names, ["character-0000", "character-0001"]);
        assert_eq!(data.test.class_sizes(), [2, 2, 2]);
        assert_eq!(data.test.inputs.tensor().unwrap().size(), [6, 1, 16, 16]);
        assert_eq!(data.hash, load(0).hash);
        // Drawings must not change between versions, or results are no longer comparable. If they
        // have to, put the new hash here and mention it in the changelog.
        assert_eq!(data.hash, "f35e34951a28a38a45d4d2e62ff70f5896520022a14065c715561bd6ae488e45");
        assert_ne!(data.hash, load(1).hash);
    }
}
