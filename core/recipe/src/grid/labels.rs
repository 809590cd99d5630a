//! Labels of the points of a grid: `ratio=0.2, size=64`.

use crate::tree::{Entry, Node, Value};

/// Longer values are truncated where that leaves them distinct.
const MAX_LENGTH: usize = 40;

/// A short name for each dotted path: its last part, or the whole path if the last part is not
/// unique. The last part of `loss.name` says nothing, so its short name is `loss`.
pub(crate) fn short_names(paths: &[String]) -> Vec<String> {
    let short: Vec<&str> = paths.iter().map(|path| last_part(path)).collect();
    let unique = |name: &str| short.iter().filter(|other| **other == name).count() == 1;
    paths.iter().zip(&short).map(|(path, name)| if unique(name) { name } else { path.as_str() }.to_string()).collect()
}

fn last_part(path: &str) -> &str {
    let path = path.strip_suffix(".name").or_else(|| path.strip_suffix(".source")).unwrap_or(path);
    path.rsplit('.').next().unwrap_or(path)
}

/// A value as text, without quotes.
pub(crate) fn value_text(node: &Node) -> String {
    let text = whole_text(node);
    match text.char_indices().nth(MAX_LENGTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// A value in a label: truncated, unless another of `all` values would look the same.
pub(crate) fn distinct_text(value: &Node, all: &[Node]) -> String {
    let short = value_text(value);
    let alike = all.iter().filter(|other| value_text(other) == short).count();
    if alike > 1 { whole_text(value) } else { short }
}

/// A value as text, however long.
fn whole_text(node: &Node) -> String {
    match &node.value {
        Value::String(text) | Value::Datetime(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(flag) => flag.to_string(),
        Value::Array(items) => format!("[{}]", items.iter().map(whole_text).collect::<Vec<_>>().join(", ")),
        Value::Table(table) => {
            let setting = |entry: &Entry| match entry.key.as_str() {
                "name" | "source" => whole_text(&entry.node),
                key => format!("{key}={}", whole_text(&entry.node)),
            };
            table.iter().map(setting).collect::<Vec<_>>().join(" ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(paths: &[&str]) -> Vec<String> {
        short_names(&paths.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn names_are_short_unless_they_collide() {
        assert_eq!(names(&["noise.ratio", "embedding.size"]), ["ratio", "size"]);
        assert_eq!(names(&["data.size", "embedding.size", "seed"]), ["data.size", "embedding.size", "seed"]);
        assert_eq!(names(&["loss.name", "optimizer.name", "data.source"]), ["loss", "optimizer", "data"]);
    }

    #[test]
    fn values_are_written_without_quotes() {
        let text = |json| value_text(&Node::from_default(&json).unwrap());
        assert_eq!(text(json!(0.2)), "0.2");
        assert_eq!(text(json!({ "max": 1.0, "growth": 2 })), "max=1 growth=2");
        assert_eq!(text(json!({ "name": "uniform", "ratio": 0.5 })), "uniform ratio=0.5");
        assert_eq!(text(json!([1, "a"])), "[1, a]");
        assert_eq!(text(json!("ä".repeat(50))), format!("{}…", "ä".repeat(40)));
    }
}
