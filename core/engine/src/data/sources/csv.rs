//! `csv`: a CSV list of `path,label` or `path,label,split`.

use crate::data::columns;
use crate::data::file_list::{FileEntry, FileList};
use crate::{Error, Result};
use curricle_recipe::{CsvRecipe, SplitRecipe};
use std::collections::BTreeMap;
use std::path::Path;

/// Lists the images in the order of the file.
pub(super) fn list(recipe: &CsvRecipe) -> Result<FileList> {
    let text = std::fs::read(&recipe.path).map_err(Error::file("read", &recipe.path))?;
    let folder = recipe.path.parent().unwrap_or(Path::new("."));
    let root = recipe.root.as_deref().unwrap_or(folder);
    parse(&text, root, recipe.split).map_err(|message| Error::format(&recipe.path, message))
}

fn parse(text: &[u8], root: &Path, split: SplitRecipe) -> Result<FileList, String> {
    let lines = columns::read(text, &["path", "label"], &["split"])?;
    let mut samples = Vec::new();
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for (line, fields) in lines {
        let mut fields = fields.into_iter();
        let (Some(Some(path)), Some(Some(label))) = (fields.next(), fields.next()) else { continue };
        if path.is_empty() || label.is_empty() {
            return Err(format!("line {line}: path or label is empty"));
        }
        if let Some(earlier) = seen.insert(path.clone(), line) {
            return Err(format!("line {line}: `{path}` is already in line {earlier}"));
        }
        samples.push((line, path, label, fields.next().flatten().filter(|split| !split.is_empty())));
    }
    if let [(line, first, ..), (_, second, ..), ..] = &samples[..]
        && !has_extension(first)
        && has_extension(second)
    {
        return Err(format!(
            "line {line}: `{first}` is not the name of an image file; if this line is a header, name its columns \
             `path` and `label`"
        ));
    }
    let classes = columns::classes(samples.iter().map(|(_, _, label, _)| label.as_str()));
    let class_names: Vec<String> = classes.iter().map(ToString::to_string).collect();
    let numbers: BTreeMap<&str, usize> = classes.into_iter().zip(0..).collect();
    let entry = |path: &str, label: &str| FileEntry { path: path.to_string(), class: numbers[label], query: false };

    let with_split = samples.iter().filter(|(_, _, _, split)| split.is_some()).count();
    if split == SplitRecipe::None || with_split == 0 {
        let entries = samples.iter().map(|(_, path, label, _)| entry(path, label)).collect();
        return Ok(match split {
            SplitRecipe::Classes => FileList::halves(root.to_path_buf(), class_names, entries),
            SplitRecipe::None => FileList::unsplit(root.to_path_buf(), class_names, entries),
        });
    }
    let (mut train, mut test, mut plain) = (Vec::new(), Vec::new(), None);
    for (line, path, label, split) in &samples {
        let entry = entry(path, label);
        match split.as_deref().unwrap_or_default() {
            "train" => train.push(entry),
            "test" => {
                plain = plain.or(Some(*line));
                test.push(entry);
            }
            "query" => test.push(FileEntry { query: true, ..entry }),
            "gallery" => test.push(entry),
            "" => return Err(format!("line {line}: has no split, but other lines do ({with_split})")),
            other => {
                return Err(format!("line {line}: split `{other}` is not `train`, `test`, `query` or `gallery`"));
            }
        }
    }
    if let (Some(line), true) = (plain, test.iter().any(|entry| entry.query)) {
        return Err(format!("line {line}: `test` cannot be combined with `query`; use `gallery` instead"));
    }
    Ok(FileList { root: root.to_path_buf(), class_names, train, test })
}

fn has_extension(path: &str) -> bool {
    Path::new(path).extension().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, split: SplitRecipe) -> Result<FileList, String> {
        parse(text.as_bytes(), Path::new("images"), split)
    }

    fn paths(entries: &[FileEntry]) -> Vec<&str> {
        entries.iter().map(|entry| entry.path.as_str()).collect()
    }

    #[test]
    fn the_first_half_of_the_classes_trains_unless_the_file_has_splits() {
        let list = read("a.jpg,10\nb.jpg,9\nc.jpg,2\nd.jpg,1\n", SplitRecipe::Classes).unwrap();
        assert_eq!(list.class_names, ["1", "2", "9", "10"], "integers are sorted numerically");
        assert_eq!((paths(&list.train), paths(&list.test)), (vec!["c.jpg", "d.jpg"], vec!["a.jpg", "b.jpg"]));
        let text = "split,label,path\ntest,cat,a.jpg\ntrain,dog,b.jpg\ntest,cow,c.jpg\n";
        let list = read(text, SplitRecipe::Classes).unwrap();
        assert_eq!(list.class_names, ["cat", "cow", "dog"]);
        assert_eq!((paths(&list.train), paths(&list.test)), (vec!["b.jpg"], vec!["a.jpg", "c.jpg"]));
        let all = read(text, SplitRecipe::None).unwrap();
        assert_eq!((all.train.len(), all.train), (3, all.test));
    }

    #[test]
    fn query_and_gallery_samples_are_distinguished() {
        let list = read("a,x,query\nb,x,gallery\nc,y,train\n", SplitRecipe::Classes).unwrap();
        assert_eq!(list.test.iter().map(|entry| entry.query).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, expected) in [
            ("a,1\nb\n", "line 2: `path` or `label` is missing; fields found: 1"),
            ("a,1\na,2\n", "line 2: `a` is already in line 1"),
            ("a,1\nb,\n", "line 2: path or label is empty"),
            ("a,1,train\nb,2,\n", "line 2: has no split, but other lines do (1)"),
            ("file,class\na.jpg,1\n", "line 1: `file` is not the name of an image file; if this line is a header"),
            ("a;1\n", "line 1: `path` or `label` is missing; fields found: 1; separate fields by commas"),
            ("a,1,validate\n", "line 1: split `validate` is not"),
            ("a,1,query\nb,1,test\n", "line 2: `test` cannot be combined with `query`"),
        ] {
            let message = read(text, SplitRecipe::Classes).unwrap_err();
            assert!(message.starts_with(expected), "{message}");
        }
    }
}
