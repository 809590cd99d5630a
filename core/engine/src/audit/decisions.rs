//! Decisions of a person, as the audit page exports them: `path,label,decision`.
//!
//! The file lists every sample with its label after the decisions, so that recipes can read it as it is. A label that
//! differs from the audited one was decided, a sample that is missing was dropped, and `keep` in the column
//! `decision` distinguishes a label that was confirmed from an undecided one.

use super::Audit;
use crate::data::columns;
use crate::{Error, Result};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// What a person decided about a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It has this label, whether changed or confirmed.
    Label(i64),
    /// It is excluded.
    Drop,
}

/// The decisions about the samples of an audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decisions {
    by_path: HashMap<String, Decision>,
}

impl Decisions {
    /// Reads a file of decisions, which must belong to the audited data.
    pub fn read(path: &Path, audit: &Audit) -> Result<Self> {
        let text = std::fs::read(path).map_err(Error::file("read", path))?;
        let given = audit.ranked.iter().map(|e| (e.path.as_str(), e.label)).collect();
        parse(&text, &given, &audit.class_names).map_err(|message| Error::format(path, message))
    }

    /// The decision about a sample, if there is one.
    pub fn about(&self, path: &str) -> Option<&Decision> {
        self.by_path.get(path)
    }
}

/// `given` has the audited label of every sample, by path.
fn parse(text: &[u8], given: &HashMap<&str, i64>, class_names: &[String]) -> Result<Decisions, String> {
    let classes: HashMap<&str, i64> = class_names.iter().map(String::as_str).zip(0..).collect();
    let mut by_path = HashMap::new();
    let mut listed = HashSet::new();
    for (line, fields) in columns::read(text, &["path", "label"], &["decision"])? {
        let field = |index: usize| fields.get(index).and_then(Option::as_deref).unwrap_or_default();
        let (path, label, decision) = (field(0), field(1), field(2));
        let Some(audited) = given.get(path) else {
            return Err(format!("line {line}: `{path}` is not a sample of this audit; is the file from another one?"));
        };
        let Some(&class) = classes.get(label) else {
            return Err(format!("line {line}: label `{label}` is not one of the audited classes"));
        };
        if !listed.insert(path.to_string()) {
            return Err(format!("line {line}: `{path}` is listed twice"));
        }
        if class != *audited || decision == "keep" {
            by_path.insert(path.to_string(), Decision::Label(class));
        }
    }
    let missing = given.keys().filter(|path| !listed.contains(**path));
    by_path.extend(missing.map(|path| (path.to_string(), Decision::Drop)));
    Ok(Decisions { by_path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_differ_are_decided_kept_ones_confirmed_and_missing_samples_dropped() {
        let given = HashMap::from([("a.jpg", 0), ("b.jpg", 0), ("c.jpg", 1), ("d.jpg", 1)]);
        let names = ["cat", "dog"].map(String::from);
        let text = "path,label,decision\na.jpg,dog,accept\nb.jpg,cat,keep\nc.jpg,dog,\n";
        let found = parse(text.as_bytes(), &given, &names).unwrap();
        let about = |path| found.about(path).copied();
        assert_eq!(about("a.jpg"), Some(Decision::Label(1)));
        assert_eq!(about("b.jpg"), Some(Decision::Label(0)));
        assert_eq!(about("c.jpg"), None);
        assert_eq!(about("d.jpg"), Some(Decision::Drop));
    }

    #[test]
    fn a_file_about_other_samples_or_classes_is_refused() {
        let given = HashMap::from([("a.jpg", 0)]);
        let names = ["cat"].map(String::from);
        for (text, message) in [
            ("path,label\nb.jpg,cat\n", "line 2: `b.jpg` is not a sample of this audit"),
            ("path,label\na.jpg,cow\n", "line 2: label `cow` is not one of the audited classes"),
            ("path,label\na.jpg,cat\na.jpg,cat\n", "line 3: `a.jpg` is listed twice"),
        ] {
            let found = parse(text.as_bytes(), &given, &names).unwrap_err();
            assert!(found.starts_with(message), "{found}");
        }
    }
}
