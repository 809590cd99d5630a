//! Validation of strings and numbers.

use super::Walk;
use crate::limits::{Limits, whole_numbers};
use crate::paths::tidy;
use crate::problems::Problem;
use crate::source::Origin;
use crate::syntax;
use crate::tree::{Node, Value};
use serde_json::Value as Json;
use std::path::Path;

impl Walk<'_> {
    /// Reports a value of the wrong type, with help for common mistakes.
    pub(super) fn mismatch(&mut self, node: &Node, wanted: &str, path: &str) {
        let problem = Problem::new(&node.origin, format!("`{path}` must be {wanted}, not {}", node.kind()))
            .at(path)
            .label(format!("this is {}", node.kind()));
        let help = match &node.value {
            Value::String(text) if wanted.contains("number") && text.parse::<f64>().is_ok() => {
                Some(format!("write the number without quotes: `{text}`"))
            }
            Value::String(text) if wanted.contains("`true`") && matches!(text.as_str(), "true" | "false") => {
                Some(format!("write it without quotes: `{text}`"))
            }
            Value::String(text) if wanted.contains("number") => syntax::number(text).map(|n| format!("write `{n}`")),
            // A longer number is out of range anyway.
            Value::Float(f) if wanted.contains("whole number") && f.fract() == 0.0 && f.abs() < 1e15 => {
                Some(format!("write `{f:.0}`"))
            }
            Value::Integer(i) if wanted.contains("`true`") && (0..=1).contains(i) => {
                Some(format!("write `{}`", *i == 1))
            }
            value if wanted.starts_with("a list") && !matches!(value, Value::Table(_)) => {
                Some("put it in brackets: `[…]`".to_string())
            }
            _ => None,
        };
        self.problems.push(match help {
            Some(help) => problem.help(help),
            None => problem,
        });
    }

    pub(super) fn integer(&mut self, value: i128, origin: &Origin, rule: &Json, path: &str) {
        let limits = Limits::of(rule);
        let (low, high) = whole_numbers(rule["format"].as_str());
        if !limits.allow(value as f64) {
            self.out_of_range(&value.to_string(), limits, origin, path);
        } else if !(low..=high).contains(&value) {
            let message = format!("`{path}` must be between {low} and {high}, not {value}");
            self.problems.push(Problem::new(origin, message).at(path).label("out of range"));
        }
    }

    pub(super) fn float(&mut self, value: f64, origin: &Origin, rule: &Json, path: &str) {
        let limits = Limits::of(rule);
        if !value.is_finite() {
            let message = format!("`{path}` must be a finite number");
            self.problems.push(Problem::new(origin, message).at(path).label("not finite, or too large"));
        } else if !limits.allow(value) {
            self.out_of_range(&value.to_string(), limits, origin, path);
        }
    }

    fn out_of_range(&mut self, value: &str, limits: Limits, origin: &Origin, path: &str) {
        let wanted = limits.describe().unwrap_or_default();
        let message = format!("`{path}` must be {wanted}, not {value}");
        self.problems.push(Problem::new(origin, message).at(path).label("out of range"));
    }

    /// Paths are relative to the recipe that names them. They are made absolute, so that the resolved
    /// recipe can be saved in the run's folder.
    pub(super) fn string(&mut self, text: String, origin: &Origin, rule: &Json, path: &str) -> String {
        let Some(place) = origin.place().filter(|_| rule["x-path"] == true) else { return text };
        if text.is_empty() {
            self.problems.push(Problem::new(origin, format!("`{path}` must name a file")).at(path).label("empty"));
            return text;
        }
        match absolute(&place.source.folder.join(&text)) {
            Some(absolute) => absolute,
            None => {
                let message = format!("`{path}` is in a folder whose name is not valid Unicode");
                self.problems.push(Problem::new(origin, message).at(path).help("move the data to another folder"));
                text
            }
        }
    }

    /// A value without a schema; JSON must still be able to represent it.
    pub(super) fn unruled(&mut self, node: Node, path: &str) -> Node {
        match &node.value {
            Value::Float(f) if !f.is_finite() => self.float(*f, &node.origin, &Json::Null, path),
            Value::Integer(i) => self.integer(*i, &node.origin, &Json::Null, path),
            Value::Datetime(_) => self.mismatch(&node, "a string, number, boolean, list or table", path),
            Value::Array(items) => items.iter().for_each(|item| {
                self.unruled(item.clone(), path);
            }),
            Value::Table(table) => table.iter().for_each(|entry| {
                self.unruled(entry.node.clone(), &format!("{path}.{}", entry.key));
            }),
            _ => {}
        }
        node
    }
}

/// The absolute form of a path, without `.` and `..`; symbolic links are not resolved.
fn absolute(path: &Path) -> Option<String> {
    tidy(&std::path::absolute(path).ok()?).into_os_string().into_string().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_contain_no_dots() {
        assert_eq!(absolute(Path::new("/a/b/../c/./d.safetensors")).unwrap(), "/a/c/d.safetensors");
        assert!(absolute(Path::new("x.csv")).unwrap().ends_with("/x.csv"));
    }
}
