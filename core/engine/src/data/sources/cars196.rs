//! `cars196`: Cars-196, 196 car models.
//!
//! Two layouts are in circulation: the single `cars_annos.mat` with images in `car_ims`, and the
//! devkit's `cars_train_annos.mat` together with `cars_test_annos_withlabels.mat` (the devkit's own
//! `cars_test_annos.mat` has no labels) with images in `cars_train` and `cars_test`. Classes 1 to 98
//! are the training set, 99 to 196 the test set; the split of the original challenge is ignored.

use super::counts::{self, Counts};
use super::mat5::{self, Array};
use crate::data::file_list::{FileEntry, FileList};
use crate::{Error, Result};
use curricle_recipe::PublishedRecipe;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The last class of the training set.
const LAST_TRAINING_CLASS: usize = 98;

/// Lists the images in the order of the annotations.
pub(super) fn list(recipe: &PublishedRecipe) -> Result<FileList> {
    let root = &recipe.path;
    let mut all = Vec::new();
    let single = root.join("cars_annos.mat");
    let names = if single.is_file() {
        let file = File::read(single)?;
        file.samples("relative_im_path", "", &mut all)?;
        file.class_names()?
    } else {
        let train = find(root, "cars_train_annos.mat")?;
        let test = find(root, "cars_test_annos_withlabels.mat")?;
        File::read(train)?.samples("fname", "cars_train/", &mut all)?;
        File::read(test)?.samples("fname", "cars_test/", &mut all)?;
        File::read(find(root, "cars_meta.mat")?)?.class_names()?
    };
    if let Some((path, class)) = all.iter().find(|(_, class)| *class > names.len()) {
        return Err(Error::format(
            root,
            format!("`{path}` has class {class}, but there are names for only {} classes", names.len()),
        ));
    }
    let entries = all.into_iter().map(|(path, class)| FileEntry { path, class: class - 1, query: false });
    let (train, test) = entries.partition(|entry| entry.class < LAST_TRAINING_CLASS);
    let list = FileList { root: root.clone(), class_names: names, train, test };
    if recipe.check_counts {
        let train = Counts::all("training", 98, 8054);
        let test = Counts::all("test", 98, 8131);
        counts::check(&list, "Cars-196", &train, &[test])?;
    }
    Ok(list)
}

/// An annotation file, in the root folder or in `devkit`.
fn find(root: &Path, name: &str) -> Result<PathBuf> {
    super::folder_with(root, &["", "devkit", "car_devkit/devkit"], name).map(|folder| folder.join(name))
}

struct File {
    path: PathBuf,
    arrays: Vec<(String, Array)>,
}

impl File {
    fn read(path: PathBuf) -> Result<Self> {
        let bytes = std::fs::read(&path).map_err(Error::file("read", &path))?;
        match mat5::parse(&bytes) {
            Ok(arrays) => Ok(Self { path, arrays }),
            Err(message) => Err(Error::format(path, message)),
        }
    }

    fn problem(&self, message: impl Into<String>) -> Error {
        Error::format(&self.path, message.into())
    }

    fn array(&self, name: &str) -> Result<&Array> {
        let found = self.arrays.iter().find(|(other, _)| other == name).map(|(_, array)| array);
        found.ok_or_else(|| self.problem(format!("has no array `{name}`")))
    }

    /// Adds the path and class of each annotation; classes count from 1.
    fn samples(&self, field: &str, prefix: &str, all: &mut Vec<(String, usize)>) -> Result<()> {
        let Array::Records(records) = self.array("annotations")? else {
            return Err(self.problem("`annotations` is not a structure array"));
        };
        for (index, record) in records.iter().enumerate() {
            let value = |name: &str| record.iter().find(|(field, _)| field == name).map(|(_, value)| value);
            let path = value(field).and_then(Array::text);
            let class = value("class").and_then(Array::number).filter(|class| *class >= 1.0);
            match (path, class) {
                (Some(path), Some(class)) => all.push((format!("{prefix}{path}"), class as usize)),
                _ => {
                    let message = format!("annotation {} lacks the string `{field}` or the number `class`", index + 1);
                    return Err(self.problem(message));
                }
            }
        }
        Ok(())
    }

    fn class_names(&self) -> Result<Vec<String>> {
        let Array::Cells(cells) = self.array("class_names")? else {
            return Err(self.problem("`class_names` is not a cell array"));
        };
        let names: Option<Vec<&str>> = cells.iter().map(Array::text).collect();
        let names = names.ok_or_else(|| self.problem("`class_names` has cells that are not strings"))?;
        // Label lists refer to classes by name.
        let mut numbers = HashMap::new();
        for (name, number) in names.iter().copied().zip(1..) {
            if let Some(earlier) = numbers.insert(name, number) {
                return Err(self.problem(format!(
                    "classes {earlier} and {number} are both named `{name}`; class names must be unique"
                )));
            }
        }
        Ok(names.into_iter().map(str::to_string).collect())
    }
}
