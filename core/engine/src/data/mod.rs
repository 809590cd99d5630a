//! Data sets, splits and label noise.

mod catalogue;
mod check;
mod columns;
mod features;
mod feed;
mod files;
mod hash;
mod images;
mod inspect;
mod ledger;
pub mod noise;
mod packed;
pub(crate) mod part;
mod pictures;
mod sources;
mod split;
mod strokes;
pub mod validation;

pub use check::{DataReport, PartReport, check};
use curricle_record::SkippedFile;
pub use feed::{Feed, Samples};
pub use files::Files;
pub use images::View;
pub use part::{Inputs, Layout, Part};
pub use pictures::{Pictures, pictures};

use crate::Result;
use crate::progress::ProgressMode;
use curricle_recipe::{DataRecipe, ImagesRecipe};
use sources::Listed;
use std::path::Path;

/// A data set, split into training and test classes.
#[derive(Debug)]
pub struct Dataset {
    /// The classes that train.
    pub train: Part,
    /// The classes that test.
    pub test: Part,
    /// The test samples that search, all others being searched. `None`: each searches all others.
    pub query: Option<Vec<bool>>,
    /// Hash of inputs, labels and class names of both parts: runs with the same hash saw the same
    /// data. Paths do not count, so that data may lie in different places.
    pub hash: String,
    /// Bad files that were left out.
    pub skipped: Vec<SkippedFile>,
}

impl Dataset {
    fn new(train: Part, test: Part, query: Option<Vec<bool>>) -> Result<Self> {
        let hash = hash::of_parts(&[&train, &test], query.as_deref())?;
        Ok(Self { train, test, query, hash, skipped: Vec::new() })
    }

    /// The first half of the classes trains, the second half tests.
    fn halves(whole: &Part) -> Result<Self> {
        let (train, test) = split::by_class(whole)?;
        Self::new(train, test, None)
    }
}

/// Draws or reads the data set a recipe names, and splits it.
pub fn load(recipe: &DataRecipe, images: &ImagesRecipe) -> Result<Dataset> {
    load_watched(recipe, images, None, ProgressMode::Quiet)
}

/// The same with a folder for decoded pictures (whoever comes first fills it, and nothing but the time of
/// later runs changes), for somebody who waits: many files take minutes to look at for the first time.
pub fn load_watched(
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
    fn a_data_set_is_split_in_halves_and_hashed() {
        let load = |seed| {
            let recipe = StrokesRecipe { classes: 5, per_class: 2, size: 16, seed, ..StrokesRecipe::default() };
            load(&DataRecipe::Strokes(recipe), &ImagesRecipe::default()).unwrap()
        };
        let data = load(0);
        assert_eq!(data.train.class_names, ["character-0000", "character-0001"]);
        assert_eq!(data.test.class_sizes(), [2, 2, 2]);
        assert_eq!(data.test.inputs.tensor().unwrap().size(), [6, 1, 16, 16]);
        assert_eq!(data.hash, load(0).hash);
        // Drawings must not change from version to version, or results no longer compare. If they
        // have to, write the new hash here and say so in the change log.
        assert_eq!(data.hash, "f35e34951a28a38a45d4d2e62ff70f5896520022a14065c715561bd6ae488e45");
        assert_ne!(data.hash, load(1).hash);
    }
}
