//! A tree as TOML text.

use crate::tree::{Entry, Node, Table, Value};
use std::fmt::Write;

/// The whole tree as TOML: settings of a table before its sub-tables, in the tree's order.
pub(crate) fn toml(tree: &Node) -> String {
    lines(tree).into_iter().map(|(line, _)| line + "\n").collect()
}

/// The same with the origin of every value in an aligned comment.
pub(crate) fn explained(tree: &Node) -> String {
    let lines = lines(tree);
    // One very long line must not push all comments off the screen.
    let width = lines.iter().filter(|(_, o)| o.is_some()).map(|(l, _)| l.chars().count()).filter(|&w| w <= 60).max();
    let width = width.unwrap_or(0);
    let mut text = String::new();
    for (line, origin) in lines {
        let _ = match origin {
            Some(origin) => writeln!(text, "{line:width$}  # {origin}"),
            None => writeln!(text, "{line}"),
        };
    }
    text
}

type TomlLine = (String, Option<String>);

fn lines(tree: &Node) -> Vec<TomlLine> {
    let mut lines = Vec::new();
    if let Value::Table(table) = &tree.value {
        table_lines(table, "", &mut lines);
    }
    lines
}

fn table_lines(table: &Table, path: &str, lines: &mut Vec<TomlLine>) {
    let (tables, settings): (Vec<_>, Vec<_>) = table.iter().partition(|e| matches!(e.node.value, Value::Table(_)));
    // A table that holds only tables needs no header; an empty one does.
    if !path.is_empty() && (!settings.is_empty() || tables.is_empty()) {
        if !lines.is_empty() {
            lines.push((String::new(), None));
        }
        lines.push((format!("[{path}]"), None));
    }
    for Entry { key: name, node, .. } in settings {
        lines.push((format!("{} = {}", key(name), value(node)), Some(node.origin.to_string())));
    }
    for Entry { key: name, node, .. } in tables {
        if let Value::Table(inner) = &node.value {
            let name = key(name);
            let path = if path.is_empty() { name } else { format!("{path}.{name}") };
            table_lines(inner, &path, lines);
        }
    }
}

fn key(name: &str) -> String {
    let bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if bare { name.to_string() } else { string(name) }
}

fn string(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn value(node: &Node) -> String {
    match &node.value {
        Value::String(text) => string(text),
        Value::Integer(i) => i.to_string(),
        Value::Float(f) => float(*f),
        Value::Boolean(b) => b.to_string(),
        Value::Datetime(date) => date.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(value).collect::<Vec<_>>().join(", ")),
        Value::Table(table) => {
            let entries: Vec<_> = table.iter().map(|e| format!("{} = {}", key(&e.key), value(&e.node))).collect();
            if entries.is_empty() { "{}".into() } else { format!("{{ {} }}", entries.join(", ")) }
        }
    }
}

/// The shortest text that reads back as the same number and as a float.
fn float(f: f64) -> String {
    format!("{f:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;
    use crate::source::{Origin, Source};
    use proptest::prelude::*;
    use serde_json::json;
    use std::sync::Arc;

    fn read(text: &str) -> Node {
        let source = Source { name: "t".into(), text: text.into(), folder: Default::default(), is_argument: false };
        Node { value: Value::Table(parse(&Arc::new(source)).unwrap()), origin: Origin::Default }
    }

    #[test]
    fn settings_come_before_sub_tables() {
        let json =
            json!({ "a": { "t": { "x": 1e-8 }, "b": [1, 2] }, "n": "a\"b", "e": {}, "odd key": true, "u": u64::MAX });
        let text = toml(&Node::from_default(&json).unwrap());
        assert_eq!(
            text,
            "n = 'a\"b'\n\"odd key\" = true\nu = 18446744073709551615\n\n[a]\nb = [1, 2]\n\n[a.t]\nx = 1e-8\n\n[e]\n"
        );
        assert_eq!(read(&text).to_json(), json);
    }

    #[test]
    fn comments_are_aligned() {
        let tree = read("a = 1\n[t]\nlonger = 'x'\n");
        assert_eq!(explained(&tree), "a = 1         # t:1\n\n[t]\nlonger = 'x'  # t:3\n".replace('\'', "\""));
    }

    proptest! {
        #[test]
        fn floats_and_strings_read_back_the_same(f in any::<f64>().prop_filter("finite", |f| f.is_finite()), s in any::<String>()) {
            let json = json!({ "f": f, "s": s });
            let text = toml(&Node::from_default(&json).unwrap());
            prop_assert_eq!(read(&text).to_json(), json);
        }
    }
}
