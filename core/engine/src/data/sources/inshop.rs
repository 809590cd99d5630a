//! `inshop`: DeepFashion In-Shop Clothes Retrieval, with its official queries and gallery.
//!
//! `list_eval_partition.txt` has the number of images, a header, then on each line a path, an item and
//! one of `train`, `query` and `gallery`, padded with spaces. Queries search the gallery.

use super::counts::{self, Counts};
use super::lines::ListFile;
use crate::data::file_list::{FileEntry, FileList};
use crate::{Error, Result};
use curricle_recipe::PublishedRecipe;
use std::collections::BTreeMap;

/// Lists the images in the order of the file.
pub(super) fn list(recipe: &PublishedRecipe) -> Result<FileList> {
    const LIST: &str = "list_eval_partition.txt";
    let lines = ListFile::read(super::folder_with(&recipe.path, &["", "Eval", "Anno"], LIST)?.join(LIST))?;
    let mut items: BTreeMap<&str, usize> = BTreeMap::new();
    let mut samples = Vec::new();
    for line in lines.fields::<3>(2) {
        let (line, [path, item, status]) = line?;
        if !["train", "query", "gallery"].contains(&status) {
            return Err(lines.problem(line, format!("`{status}` is not `train`, `query` or `gallery`")));
        }
        items.insert(item, 0);
        samples.push((path, item, status));
    }
    let announced = lines.number(1, lines.first())?;
    if recipe.check_counts && announced != samples.len() {
        return Err(Error::format(
            lines.path(),
            format!(
                "announces {announced} images but lists {}; it is truncated or a subset (set \
                 `data.check_counts = false` to accept it)",
                samples.len()
            ),
        ));
    }
    items.values_mut().zip(0..).for_each(|(index, next)| *index = next);
    let (mut train, mut test) = (Vec::new(), Vec::new());
    for (path, item, status) in samples {
        let part = if status == "train" { &mut train } else { &mut test };
        part.push(FileEntry { path: path.to_string(), class: items[item], query: status == "query" });
    }
    // The images come in a separate archive, which is unpacked next to the list or in `Img`.
    let root = if recipe.path.join("Img/img").is_dir() { recipe.path.join("Img") } else { recipe.path.clone() };
    let class_names = items.keys().map(ToString::to_string).collect();
    let list = FileList { root, class_names, train, test };
    if recipe.check_counts {
        let train = Counts::all("training", 3_997, 25_882);
        let query = Counts { part: "query", classes: 3_985, images: 14_218, belongs: |entry| entry.query };
        let gallery = Counts { part: "gallery", classes: 3_985, images: 12_612, belongs: |entry| !entry.query };
        counts::check(&list, "In-Shop Clothes Retrieval", &train, &[query, gallery])?;
    }
    Ok(list)
}
