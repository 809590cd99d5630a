//! `cub200`: CUB-200-2011, 200 bird species.
//!
//! `images.txt` (image id, path), `image_class_labels.txt` (image id, class id) and `classes.txt`
//! (class id, name) are next to the folder `images`. Classes 1 to 100 are the training set, 101 to 200
//! the test set.

use super::counts::{self, Counts};
use super::lines::ListFile;
use crate::data::file_list::{FileEntry, FileList};
use crate::{Error, Result};
use curricle_recipe::PublishedRecipe;
use std::collections::{BTreeMap, HashMap};

/// The last class of the training set.
const LAST_TRAINING_CLASS: usize = 100;

/// Lists the images in the order of `images.txt`.
pub(super) fn list(recipe: &PublishedRecipe) -> Result<FileList> {
    let folder = super::folder_with(&recipe.path, &["", "CUB_200_2011"], "images.txt")?;
    let names = ListFile::read(folder.join("classes.txt"))?;
    let (mut class_names, mut lines_of) = (BTreeMap::new(), HashMap::new());
    for line in names.fields::<2>(0) {
        let (line, [class, name]) = line?;
        // Label lists refer to classes by name.
        if let Some(earlier) = lines_of.insert(name, line) {
            let message = format!("`{name}` is already in line {earlier}; class names must be unique");
            return Err(names.problem(line, message));
        }
        if class_names.insert(names.number(line, class)?, name.to_string()).is_some() {
            return Err(names.problem(line, format!("class {class} already has a name")));
        }
    }
    let labels = ListFile::read(folder.join("image_class_labels.txt"))?;
    let mut classes = BTreeMap::new();
    for line in labels.fields::<2>(0) {
        let (line, [image, class]) = line?;
        let class = labels.number(line, class)?;
        // Class ids start at 1 and may have gaps, so they are not indices.
        let index = class_names.keys().position(|known| *known == class);
        let index = index.ok_or_else(|| labels.problem(line, format!("class {class} is not in `classes.txt`")))?;
        if classes.insert(image, (class, index)).is_some() {
            return Err(labels.problem(line, format!("image {image} already has a class")));
        }
    }
    let images = ListFile::read(folder.join("images.txt"))?;
    let (mut train, mut test) = (Vec::new(), Vec::new());
    for line in images.fields::<2>(0) {
        let (line, [image, path]) = line?;
        let found = classes.remove(image);
        let (class, index) = found
            .ok_or_else(|| images.problem(line, format!("image {image} has no line in `image_class_labels.txt`")))?;
        let part = if class <= LAST_TRAINING_CLASS { &mut train } else { &mut test };
        part.push(FileEntry { path: path.to_string(), class: index, query: false });
    }
    if let Some(image) = classes.keys().next() {
        return Err(Error::format(
            images.path(),
            format!(
                "lacks {} of the images in `image_class_labels.txt`, first image {image}; is the file truncated?",
                classes.len()
            ),
        ));
    }
    let class_names = class_names.into_values().collect();
    let list = FileList { root: folder.join("images"), class_names, train, test };
    if recipe.check_counts {
        let train = Counts::all("training", 100, 5864);
        let test = Counts::all("test", 100, 5924);
        counts::check(&list, "CUB-200-2011", &train, &[test])?;
    }
    Ok(list)
}
