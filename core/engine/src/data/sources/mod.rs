//! Data sources: one reader per layout.

mod cars196;
mod counts;
mod csv;
mod cub200;
pub(super) mod folder;
mod inshop;
mod lines;
mod mat5;
mod sop;

use super::file_list::FileList;
use super::{Split, features, strokes};
use crate::{Error, Result};
use curricle_recipe::DataRecipe;
pub(super) use folder::ignored as ignored_in_folder;
use std::path::{Path, PathBuf};

/// The samples of a source.
#[derive(Debug)]
pub(super) enum Listed {
    /// Images in files, not opened yet.
    Files(FileList),
    /// Samples in memory.
    Memory(Split),
}

/// Lists the samples of a source.
pub(super) fn list(recipe: &DataRecipe) -> Result<Listed> {
    let files = match recipe {
        DataRecipe::Strokes(recipe) => return strokes::draw(recipe).map(Listed::Memory),
        DataRecipe::Features(recipe) => return features::read(&recipe.path).map(Listed::Memory),
        DataRecipe::Folder(recipe) => folder::list(recipe),
        DataRecipe::Csv(recipe) => csv::list(recipe),
        DataRecipe::Cub200(recipe) => cub200::list(recipe),
        DataRecipe::Cars196(recipe) => cars196::list(recipe),
        DataRecipe::Sop(recipe) => sop::list(recipe),
        DataRecipe::Inshop(recipe) => inshop::list(recipe),
    };
    let files = files?;
    files.refuse_repeats()?;
    Ok(Listed::Files(files))
}

/// The first of some folders below `root` that contains a file.
fn folder_with(root: &Path, folders: &[&str], file: &str) -> Result<PathBuf> {
    let found = folders.iter().map(|folder| root.join(folder)).find(|folder| folder.join(file).is_file());
    found.ok_or_else(|| {
        Error::format(
            root,
            if root.is_dir() {
                let places: Vec<_> =
                    folders.iter().map(|f| format!("`{}`", Path::new(f).join(file).display())).collect();
                format!("has no {}", places.join(" or "))
            } else {
                "is not a folder; `data.path` is relative to the recipe".into()
            },
        )
    })
}

#[cfg(test)]
mod tests;
