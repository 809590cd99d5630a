//! Data sets, splits and label noise.

mod features;
mod hash;
pub mod noise;
mod part;
mod split;
mod strokes;
pub mod validation;

pub use part::{Inputs, Layout, Part};

use crate::Result;
use crate::recipe::DataRecipe;

/// A data set, split into training and test classes.
#[derive(Debug)]
pub struct Dataset {
    /// The classes that train.
    pub train: Part,
    /// The classes that test.
    pub test: Part,
    /// Hash of inputs, labels and class names of both parts: runs with the same hash saw the same
    /// data. Paths do not count, so that data may lie in different places.
    pub hash: String,
}

/// Draws or reads the data set a recipe names, and splits it.
pub fn load(recipe: &DataRecipe) -> Result<Dataset> {
    let whole = match recipe {
        DataRecipe::Strokes(recipe) => strokes::draw(recipe)?,
        DataRecipe::Features(recipe) => features::read(&recipe.path)?,
    };
    let (train, test) = split::by_class(&whole)?;
    let hash = hash::of_parts(&[&train, &test])?;
    Ok(Dataset { train, test, hash })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::StrokesRecipe;

    #[test]
    fn a_data_set_is_split_in_halves_and_hashed() {
        let recipe = |seed| {
            DataRecipe::Strokes(StrokesRecipe { classes: 5, per_class: 2, size: 16, seed, ..StrokesRecipe::default() })
        };
        let data = load(&recipe(0)).unwrap();
        assert_eq!(data.train.class_names, ["character-0000", "character-0001"]);
        assert_eq!(data.test.class_sizes(), [2, 2, 2]);
        assert_eq!(data.test.inputs.tensor().size(), [6, 1, 16, 16]);
        assert_eq!(data.hash, load(&recipe(0)).unwrap().hash);
        // Drawings must not change from version to version, or results no longer compare. If they
        // have to, write the new hash here and say so in the change log.
        assert_eq!(data.hash, "f35e34951a28a38a45d4d2e62ff70f5896520022a14065c715561bd6ae488e45");
        assert_ne!(data.hash, load(&recipe(1)).unwrap().hash);
    }
}
