//! `list`: labels from a CSV file of `path,label`, the format of published noisy label lists.
//!
//! If the first line names the columns `path` and `label`, it is a header, and the columns may be in any
//! order; without a header they are the first two. Every training sample must be listed exactly once,
//! and nothing else.

use super::NoisyLabels;
use super::paths::Finder;
use crate::data::{Split, columns};
use crate::{Error, Result};
use curricle_recipe::{ListLabels, UnknownLabels};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// A line of the list: its number in the file, its path and its label.
type NoiseLine = (u64, String, String);

/// Reads the list and assigns its labels to the samples of `split`.
pub(super) fn read(
    path: &Path,
    first_label: i64,
    labels: ListLabels,
    unknown: UnknownLabels,
    split: &Split,
) -> Result<NoisyLabels> {
    let text = std::fs::read(path).map_err(Error::file("read", path))?;
    let noisy = lines(&text).and_then(|lines| {
        let given = labels_of_samples(&lines, split)?;
        match labels {
            ListLabels::Numbers => by_number(&given, first_label, unknown, split),
            ListLabels::Names => by_name(&given, unknown, split),
            ListLabels::Majority => by_majority(&given, split),
        }
    });
    let noisy = noisy.map_err(|message| Error::format(path, message))?;
    if let Some(percent) = doubtful(labels, &noisy) {
        tracing::warn!(
            "{percent:.0} % of the labels in `{}` differ from the data set's; does the list number the classes \
             differently? `labels = \"majority\"` infers the class of each label",
            path.display()
        );
    }
    Ok(noisy)
}

/// The percentage of wrong labels, if it is more than 90. Noise is hardly ever that strong, but a list that
/// numbers the classes in a different order looks like this.
fn doubtful(labels: ListLabels, noisy: &NoisyLabels) -> Option<f64> {
    let flipped = noisy.flipped.iter().filter(|flipped| **flipped).count();
    let doubtful = labels != ListLabels::Majority && flipped * 10 > noisy.flipped.len() * 9;
    doubtful.then(|| 100.0 * flipped as f64 / noisy.flipped.len() as f64)
}

/// The lines of the file, without its header.
fn lines(text: &[u8]) -> Result<Vec<NoiseLine>, String> {
    let lines = columns::read(text, &["path", "label"], &[])?;
    let field = |field: Option<Option<String>>| field.flatten().unwrap_or_default();
    let lines = lines.into_iter().map(|(line, fields)| {
        let mut fields = fields.into_iter();
        (line, field(fields.next()), field(fields.next()))
    });
    Ok(lines.collect())
}

/// The line and label of each training sample, in sample order.
fn labels_of_samples<'a>(lines: &'a [NoiseLine], split: &Split) -> Result<Vec<(u64, &'a str)>, String> {
    let finder = Finder::new(&split.paths);
    let mut found: Vec<Option<(u64, &str)>> = vec![None; split.len()];
    for (line, path, label) in lines {
        let sample = finder.find(path).map_err(|problem| format!("line {line}: `{path}` {problem}"))?;
        if let Some((earlier, _)) = found[sample].replace((*line, label)) {
            return Err(format!("line {line}: `{path}` is already in line {earlier}"));
        }
    }
    let missing = found.iter().filter(|f| f.is_none()).count();
    if let Some(first) = found.iter().position(Option::is_none) {
        return Err(format!(
            "has no label for {missing} of {} training samples, first `{}`; list every sample (to train only on \
             correctly labelled samples, use the whole list with `remove_flipped = true`)",
            split.len(),
            split.paths[first]
        ));
    }
    Ok(found.into_iter().flatten().collect())
}

/// Labels that are class numbers.
fn by_number(given: &[(u64, &str)], first: i64, unknown: UnknownLabels, split: &Split) -> Result<NoisyLabels, String> {
    let classes = split.class_names.len() as i64;
    let range = format!("classes are numbered {first} to {}", first.saturating_add(classes - 1));
    let class_of = |line: u64, label: &str| {
        let number: i64 = label.parse().map_err(|_| {
            format!(
                "line {line}: label `{label}` is not an integer; set `labels = \"names\"` if the labels are class \
                 names (a header must name the columns `path` and `label`)"
            )
        })?;
        Ok(number.checked_sub(first).filter(|class| (0..classes).contains(class)))
    };
    with_unknown(given, class_of, &range, unknown, split)
}

/// Labels that are class names.
fn by_name(given: &[(u64, &str)], unknown: UnknownLabels, split: &Split) -> Result<NoisyLabels, String> {
    let numbers: HashMap<&str, i64> = split.class_names.iter().map(String::as_str).zip(0..).collect();
    let range = format!("the first class is `{}`", split.class_names.first().map_or("", String::as_str));
    with_unknown(given, |_, label| Ok(numbers.get(label).copied()), &range, unknown, split)
}

/// Finds the class of each label; labels that are not a training class are an error or become new classes.
fn with_unknown(
    given: &[(u64, &str)],
    class_of: impl Fn(u64, &str) -> Result<Option<i64>, String>,
    range: &str,
    unknown: UnknownLabels,
    split: &Split,
) -> Result<NoisyLabels, String> {
    let classes = given.iter().map(|(line, label)| class_of(*line, label)).collect::<Result<Vec<_>, _>>()?;
    let mut extra: BTreeMap<&str, i64> = BTreeMap::new();
    for ((line, label), class) in given.iter().zip(&classes) {
        if class.is_none() {
            if unknown == UnknownLabels::Error {
                return Err(format!(
                    "line {line}: label `{label}` is not a training class; {range}. Check `first_label`, or set \
                     `unknown_labels = \"class\"` to make every unknown label a class"
                ));
            }
            extra.insert(label, 0);
        }
    }
    let mut names = split.class_names.clone();
    for (label, class) in &mut extra {
        *class = names.len() as i64;
        names.push(format!("unknown label {label}"));
    }
    let labels: Vec<i64> =
        given.iter().zip(classes).map(|((_, label), class)| class.unwrap_or_else(|| extra[label])).collect();
    Ok(NoisyLabels::new(split, &labels, &names))
}

/// Labels that number the classes in a different order: each stands for the class that most of its
/// samples belong to.
fn by_majority(given: &[(u64, &str)], split: &Split) -> Result<NoisyLabels, String> {
    let mut counts: BTreeMap<&str, BTreeMap<i64, usize>> = BTreeMap::new();
    for ((_, label), original) in given.iter().zip(&split.labels) {
        *counts.entry(label).or_default().entry(*original).or_default() += 1;
    }
    let mut label_of: BTreeMap<i64, &str> = BTreeMap::new();
    let mut class_of: HashMap<&str, i64> = HashMap::new();
    for (label, counts) in &counts {
        let most = counts.values().copied().max().unwrap_or(0);
        let classes: Vec<i64> = counts.iter().filter(|(_, count)| **count == most).map(|(class, _)| *class).collect();
        let name = |class: i64| &split.class_names[class as usize];
        if classes.len() > 1 {
            let (a, b) = (name(classes[0]), name(classes[1]));
            return Err(format!(
                "label `{label}` has as many samples of `{a}` as of `{b}`, so it has no majority class"
            ));
        }
        if let Some(other) = label_of.insert(classes[0], label) {
            let class = name(classes[0]);
            return Err(format!("labels `{other}` and `{label}` both have the majority class `{class}`"));
        }
        class_of.insert(label, classes[0]);
    }
    let labels: Vec<i64> = given.iter().map(|(_, label)| class_of[label]).collect();
    Ok(NoisyLabels::new(split, &labels, &split.class_names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::split::numbered;
    use ListLabels::{Majority, Names, Numbers};

    /// The labels a list gives to five samples `folder/0.jpg` … of classes 0, 0, 1, 1, 2.
    fn listed(text: &str, first_label: i64, labels: ListLabels, unknown: UnknownLabels) -> Result<NoisyLabels> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read(file.path(), first_label, labels, unknown, &numbered(&[0, 0, 1, 1, 2]))
    }

    fn list(labels: [&str; 5]) -> String {
        labels.iter().enumerate().map(|(s, label)| format!("folder/{s}.jpg,{label}\n")).collect()
    }

    fn problem(text: &str, labels: ListLabels) -> String {
        let message = listed(text, 1, labels, UnknownLabels::Error).unwrap_err().to_string();
        message.split_once("`: ").unwrap().1.to_string()
    }

    #[test]
    fn numbers_count_from_the_first_label() {
        let noisy = listed(&list(["1", "2", "2", "2", "3"]), 1, Numbers, UnknownLabels::Error).unwrap();
        assert_eq!(noisy.labels, [0, 1, 1, 1, 2]);
        assert_eq!(noisy.flipped, [false, true, false, false, false]);
    }

    #[test]
    fn header_quotes_and_order_of_lines_do_not_matter() {
        let text = "\u{feff}label,note,path\n\"class 2\",\"a, b\",\"/data/folder/4.jpg\"\nclass 1,,folder/3.jpg\n\
                    class 1,,2.jpg\nclass 0,,folder/1.jpg\nclass 2,,folder/0.jpg\n";
        let noisy = listed(text, 0, Names, UnknownLabels::Error).unwrap();
        assert_eq!(noisy.labels, [2, 0, 1, 1, 2]);
    }

    #[test]
    fn an_unknown_label_is_refused_or_becomes_a_class() {
        let text = list(["1", "101", "2", "2", "3"]);
        let message = problem(&text, Numbers);
        assert!(
            message.starts_with("line 2: label `101` is not a training class; classes are numbered 1 to 3."),
            "{message}"
        );
        let noisy = listed(&text, 1, Numbers, UnknownLabels::Class).unwrap();
        assert_eq!(noisy.labels, [0, 3, 1, 1, 2]);
        assert_eq!(noisy.class_names[3], "unknown label 101");
        assert!(noisy.flipped[1]);
    }

    #[test]
    fn a_class_that_the_list_does_not_use_is_dropped() {
        let noisy = listed(&list(["1", "1", "3", "3", "3"]), 1, Numbers, UnknownLabels::Error).unwrap();
        assert_eq!(noisy.labels, [0, 0, 1, 1, 1]);
        assert_eq!(noisy.class_names, ["class 0", "class 2"]);
        assert_eq!(noisy.flipped, [false, false, true, true, false]);
    }

    #[test]
    fn majority_infers_the_class_of_each_label() {
        let noisy = listed(&list(["7", "7", "x", "x", "7"]), 0, Majority, UnknownLabels::Error).unwrap();
        assert_eq!(noisy.labels, [0, 0, 1, 1, 0]);
        assert_eq!(noisy.flipped, [false, false, false, false, true]);
        let tie = problem(&list(["7", "8", "7", "9", "9"]), Majority);
        assert!(tie.starts_with("label `7` has as many samples of `class 0` as of `class 1`"), "{tie}");
        let both = problem(&list(["7", "8", "9", "9", "10"]), Majority);
        assert_eq!(both, "labels `7` and `8` both have the majority class `class 0`");
    }

    #[test]
    fn a_list_that_changes_almost_all_labels_is_doubtful() {
        let doubt = |given, labels| doubtful(labels, &listed(&list(given), 1, labels, UnknownLabels::Error).unwrap());
        assert_eq!(doubt(["2", "2", "3", "3", "1"], Numbers), Some(100.0));
        assert_eq!(doubt(["class 2", "class 2", "class 0", "class 0", "class 1"], Names), Some(100.0));
        assert_eq!(doubt(["2", "2", "3", "3", "1"], Majority), None);
        assert_eq!(doubt(["1", "2", "3", "3", "1"], Numbers), None);
    }

    #[test]
    fn errors_in_a_list_name_the_line() {
        let good = list(["1", "1", "2", "2", "3"]);
        for (text, expected) in [
            (good.replace("folder/3.jpg", "folder/9.jpg"), "line 4: `folder/9.jpg` is not a training sample"),
            (good.replace("folder/3.jpg", "folder/2.jpg"), "line 4: `folder/2.jpg` is already in line 3"),
            (good.replace("folder/3.jpg,2\n", ""), "has no label for 1 of 5 training samples, first `folder/3.jpg`"),
            (good.replace(",3", ",cat"), "line 5: label `cat` is not an integer"),
            (good.replace(",3", ""), "line 5: `path` or `label` is missing; fields found: 1"),
            (format!("image,class\n{good}"), "line 1: `image` is not a training sample"),
        ] {
            let message = problem(&text, Numbers);
            assert!(message.starts_with(expected), "{message}");
        }
        let name = problem(&good, Names);
        assert!(name.starts_with("line 1: label `1` is not a training class; the first class is `class 0`"), "{name}");
    }
}
