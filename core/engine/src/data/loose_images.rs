//! Images to embed: from any folder or list, without training on them.

use super::file_list::{FileEntry, open_unsplit};
use super::sources::folder;
use super::{Inputs, Split, columns};
use crate::{Error, Result};
use curricle_recipe::ImagesRecipe;
use std::collections::HashMap;
use std::path::Path;

/// Images with their paths and, if known, their classes.
#[derive(Debug)]
pub struct LooseImages {
    /// The images.
    pub inputs: Inputs,
    /// The path of each image, as listed.
    pub paths: Vec<String>,
    /// The class of each image, if classes are known.
    pub labels: Option<Vec<i64>>,
    /// The name of each class.
    pub class_names: Vec<String>,
}

/// Finds the images of a folder or of a list.
///
/// The subfolders of a folder are classes, unless there are images next to them. A list is a CSV file of
/// `path,label`, or of paths only; they are relative to the file.
pub(crate) fn find_images(path: &Path, images: &ImagesRecipe) -> Result<LooseImages> {
    let list = if path.is_dir() { in_folder(path)? } else { in_list(path)? };
    if list.entries.is_empty() {
        return Err(Error::format(path, "contains no images"));
    }
    let root = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
    let Split { inputs, labels, class_names, paths } = open_unsplit(root, &list.entries, &list.class_names, images)?;
    Ok(LooseImages { inputs, paths, labels: list.labelled.then_some(labels), class_names })
}

struct List {
    entries: Vec<FileEntry>,
    class_names: Vec<String>,
    labelled: bool,
}

fn in_folder(root: &Path) -> Result<List> {
    let mut list = List { entries: Vec::new(), class_names: Vec::new(), labelled: true };
    for name in folder::names(root)? {
        let below = root.join(&name);
        if below.is_dir() {
            let before = list.entries.len();
            folder::collect(&below, &name, list.class_names.len(), &mut list.entries)?;
            if list.entries.len() > before {
                list.class_names.push(name);
            }
        } else if folder::is_image(&name) {
            list.labelled = false;
            list.entries.push(FileEntry { path: name, class: 0, query: false });
        }
    }
    if !list.labelled {
        list.class_names = vec![String::new()];
        list.entries.iter_mut().for_each(|entry| entry.class = 0);
    }
    Ok(list)
}

fn in_list(path: &Path) -> Result<List> {
    let text = std::fs::read(path).map_err(Error::file("read", path))?;
    let wrong = |message: String| Error::format(path, message);
    if folder::is_image(&path.to_string_lossy()) {
        let message = "is an image; pass a folder of images, or a CSV file that lists them".into();
        return Err(wrong(message));
    }
    let lines = columns::read(&text, &["path"], &["label"]).map_err(wrong)?;
    let samples: Vec<(String, Option<String>)> = lines
        .into_iter()
        .filter_map(|(_, fields)| {
            let mut fields = fields.into_iter();
            Some((fields.next()??, fields.next().flatten().filter(|label| !label.is_empty())))
        })
        .filter(|(path, _)| !path.is_empty())
        .collect();
    let classes = columns::classes(samples.iter().filter_map(|(_, label)| label.as_deref()));
    let labelled = !classes.is_empty();
    if labelled && let Some((path, _)) = samples.iter().find(|(_, label)| label.is_none()) {
        return Err(wrong(format!("has labels, but no label for `{path}`")));
    }
    let numbers: HashMap<&str, usize> = classes.iter().copied().zip(0..).collect();
    let entry = |(path, label): &(String, Option<String>)| {
        let class = label.as_deref().map_or(0, |label| numbers[label]);
        FileEntry { path: path.clone(), class, query: false }
    };
    let entries = samples.iter().map(entry).collect();
    let class_names = if labelled { classes.iter().map(ToString::to_string).collect() } else { vec![String::new()] };
    Ok(List { entries, class_names, labelled })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(folder: &Path, name: &str) -> LooseImages {
        find_images(&folder.join(name), &ImagesRecipe::default()).unwrap()
    }

    #[test]
    fn subfolders_are_classes_unless_there_are_images_next_to_them() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["a/x/1.png", "b/2.jpg", "a/0.png", "b/readme.txt"] {
            let path = folder.path().join("all").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, b"").unwrap();
        }
        std::os::unix::fs::symlink("..", folder.path().join("all/a/x/circle")).unwrap();
        let images = found(folder.path(), "all");
        assert_eq!(images.paths, ["a/0.png", "a/x/1.png", "b/2.jpg"]);
        assert_eq!((images.labels, images.class_names), (Some(vec![0, 0, 1]), vec!["a".into(), "b".into()]));
        std::fs::write(folder.path().join("all/c.png"), b"").unwrap();
        let images = found(folder.path(), "all");
        assert_eq!((images.paths.len(), images.labels), (4, None));
    }

    #[test]
    fn lists_may_have_labels() {
        let folder = tempfile::tempdir().unwrap();
        ["1.png", "2.png"].iter().for_each(|name| std::fs::write(folder.path().join(name), b"").unwrap());
        let list = |text: &str| {
            std::fs::write(folder.path().join("list.csv"), text).unwrap();
            find_images(&folder.path().join("list.csv"), &ImagesRecipe::default())
        };
        assert_eq!(list("1.png\n2.png\n").unwrap().labels, None);
        let labelled = list("path,label\n2.png,10\n1.png,9\n").unwrap();
        assert_eq!((labelled.labels, labelled.class_names), (Some(vec![1, 0]), vec!["9".into(), "10".into()]));
        assert!(list("1.png,3\n2.png\n").unwrap_err().to_string().contains("but no label for `2.png`"));
        assert!(list("no.png\n").unwrap_err().to_string().contains("no.png"));
        assert!(list("\n").unwrap_err().to_string().contains("contains no images"));
    }
}
