//! `folder`: one folder per class, with images anywhere below it.

use crate::data::file_list::{FileEntry, FileList};
use crate::{Error, Result};
use curricle_recipe::{FolderRecipe, SplitRecipe};
use curricle_record::SkippedFile;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// File extensions of images.
const ENDINGS: [&str; 10] = ["jpg", "jpeg", "png", "webp", "bmp", "gif", "tif", "tiff", "ppm", "pgm"];

/// Lists the images class by class, both sorted by name.
pub(crate) fn list(recipe: &FolderRecipe) -> Result<FileList> {
    let root = &recipe.path;
    let mut class_names = Vec::new();
    let mut entries = Vec::new();
    for name in names(root)? {
        let folder = root.join(&name);
        if !folder.is_dir() {
            continue;
        }
        let before = entries.len();
        collect(&folder, &name, class_names.len(), &mut entries)?;
        if entries.len() > before {
            class_names.push(name);
        }
    }
    if class_names.len() < 2 {
        return Err(Error::format(
            root,
            format!(
                "needs at least 2 class folders, but has {}; a class folder contains files that end in {}",
                class_names.len(),
                ENDINGS.map(|e| format!("`.{e}`")).join(", ")
            ),
        ));
    }
    Ok(match recipe.split {
        SplitRecipe::Classes => FileList::halves(root.clone(), class_names, entries),
        SplitRecipe::None => FileList::unsplit(root.clone(), class_names, entries),
    })
}

/// The images below a class folder. Two classes may link to the same folder; within a class, each folder
/// counts once.
pub(in crate::data) fn collect(folder: &Path, prefix: &str, class: usize, entries: &mut Vec<FileEntry>) -> Result<()> {
    // A link to the root folder would put all classes into this one.
    let above = folder.parent().and_then(|above| above.canonicalize().ok());
    walk(folder, prefix, class, &mut above.into_iter().collect(), entries)
}

fn walk(
    folder: &Path,
    prefix: &str,
    class: usize,
    seen: &mut HashSet<PathBuf>,
    entries: &mut Vec<FileEntry>,
) -> Result<()> {
    // Links may form cycles.
    let real = folder.canonicalize().map_err(Error::file("read", folder))?;
    if !seen.insert(real) {
        return Ok(());
    }
    for name in names(folder)? {
        let path = format!("{prefix}/{name}");
        if folder.join(&name).is_dir() {
            walk(&folder.join(&name), &path, class, seen, entries)?;
        } else if is_image(&name) {
            entries.push(FileEntry { path, class, query: false });
        }
    }
    Ok(())
}

/// What [`list`] ignores: files without the extension of an image, files beside the class folders, and
/// folders without an image.
pub(crate) fn ignored(root: &Path) -> Result<Vec<SkippedFile>> {
    let mut ignored = Vec::new();
    let mut add = |path: String, problem: &str| ignored.push(SkippedFile { path, problem: problem.into() });
    for name in names(root)? {
        if !root.join(&name).is_dir() {
            add(name, "is not in a class folder");
            continue;
        }
        let mut entries = Vec::new();
        collect(&root.join(&name), &name, 0, &mut entries)?;
        if entries.is_empty() {
            add(name.clone(), "is a class folder without images");
        }
        let mut folders = vec![(root.join(&name), name)];
        let mut seen = HashSet::new();
        while let Some((folder, prefix)) = folders.pop() {
            if !seen.insert(folder.canonicalize().map_err(Error::file("read", &folder))?) {
                continue;
            }
            for name in names(&folder)? {
                let (path, shown) = (folder.join(&name), format!("{prefix}/{name}"));
                if path.is_dir() {
                    folders.push((path, shown));
                } else if !is_image(&name) {
                    add(shown, "does not have the extension of an image");
                }
            }
        }
    }
    Ok(ignored)
}

pub(in crate::data) fn is_image(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, ending)| ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known)))
}

/// The names in a folder, sorted, without hidden ones.
pub(in crate::data) fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Error::file("read", folder))? {
        let name = entry.map_err(Error::file("read", folder))?.file_name();
        let name = name.into_string().map_err(|name| {
            Error::format(folder, format!("has a file whose name is not UTF-8: {}; rename it", name.to_string_lossy()))
        })?;
        if !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}
