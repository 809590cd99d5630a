//! `sop`: Stanford Online Products, 22,634 products in 12 groups.
//!
//! `Ebay_train.txt` and `Ebay_test.txt` have a header, then image id, class id, super-class id and path
//! on each line.

use super::counts::{self, Counts};
use super::lines::ListFile;
use crate::Result;
use crate::data::file_list::{FileEntry, FileList};
use curricle_recipe::PublishedRecipe;
use std::collections::BTreeSet;

/// Lists the images in the order of the two files.
pub(super) fn list(recipe: &PublishedRecipe) -> Result<FileList> {
    let root = super::folder_with(&recipe.path, &["", "Stanford_Online_Products"], "Ebay_train.txt")?;
    let read = |name: &str| -> Result<Vec<(usize, String)>> {
        let lines = ListFile::read(root.join(name))?;
        let samples = lines.fields::<4>(1).map(|line| {
            let (line, [_, class, _, path]) = line?;
            Ok((lines.number(line, class)?, path.to_string()))
        });
        samples.collect()
    };
    let (train, test) = (read("Ebay_train.txt")?, read("Ebay_test.txt")?);
    let classes: BTreeSet<usize> = train.iter().chain(&test).map(|(class, _)| *class).collect();
    let classes: Vec<usize> = classes.into_iter().collect();
    let entries = |part: Vec<(usize, String)>| {
        let entry = |(class, path)| FileEntry { path, class: classes.partition_point(|c| *c < class), query: false };
        part.into_iter().map(entry).collect()
    };
    let (train, test) = (entries(train), entries(test));
    let list = FileList { root, class_names: classes.iter().map(usize::to_string).collect(), train, test };
    if recipe.check_counts {
        let train = Counts::all("training", 11_318, 59_551);
        let test = Counts::all("test", 11_316, 60_502);
        counts::check(&list, "Stanford Online Products", &train, &[test])?;
    }
    Ok(list)
}
