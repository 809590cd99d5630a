//! Settings by dotted path, as used in grids, exclusions and searches.
//!
//! `noise.ratio = …`, `noise = { ratio = … }` and `"noise.ratio" = …` are equivalent.

use crate::source::Origin;
use crate::tree::{Entry, Node, Table, Value};

/// A setting and its value.
#[derive(Debug, Clone)]
pub(crate) struct PathSetting {
    /// The parts of its path, each with its origin.
    parts: Vec<(String, Origin)>,
    /// The value.
    pub node: Node,
}

impl PathSetting {
    /// The dotted path, e.g. `noise.ratio`.
    pub(crate) fn path(&self) -> String {
        let parts: Vec<_> = self.parts.iter().map(|(part, _)| part.as_str()).collect();
        parts.join(".")
    }

    /// Where the last part of the path was written.
    pub(crate) fn origin(&self) -> Origin {
        self.parts.last().map(|(_, origin)| origin.clone()).unwrap_or_default()
    }

    /// Sets the setting to this value in a table.
    pub(crate) fn put(&self, value: &Node, table: &mut Table) {
        put(&self.parts, value, table);
    }
}

fn put(parts: &[(String, Origin)], value: &Node, table: &mut Table) {
    let Some(((key, origin), below)) = parts.split_first() else { return };
    let entry = |node| Entry { key: key.clone(), key_origin: origin.clone(), node };
    if below.is_empty() {
        table.insert(entry(value.clone()));
        return;
    }
    if !matches!(table.get(key), Some(Entry { node: Node { value: Value::Table(_), .. }, .. })) {
        table.insert(entry(Node { value: Value::Table(Table::default()), origin: origin.clone() }));
    }
    if let Some(Entry { node: Node { value: Value::Table(inner), .. }, .. }) = table.get_mut(key) {
        put(below, value, inner);
    }
}

/// All settings in a table. `is_value` decides which nested tables are values.
pub(crate) fn named(table: Table, is_value: impl Fn(&Table) -> bool) -> Vec<PathSetting> {
    let mut found = Vec::new();
    walk(table, &[], &is_value, &mut found);
    found
}

fn walk(table: Table, above: &[(String, Origin)], is_value: &impl Fn(&Table) -> bool, found: &mut Vec<PathSetting>) {
    for Entry { key, key_origin, node } in table {
        let mut parts = above.to_vec();
        parts.extend(key.split('.').map(|part| (part.trim().to_string(), key_origin.clone())));
        match node {
            Node { value: Value::Table(inner), .. } if !is_value(&inner) => walk(inner, &parts, is_value, found),
            node => found.push(PathSetting { parts, node }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn three_ways_to_write_a_path_are_equivalent() {
        let json = json!({ "noise.ratio": [1], "noise": { "seed": [2] }, "a": { "b.c": [3] } });
        let Some(Node { value: Value::Table(table), .. }) = Node::from_default(&json) else { panic!("a table") };
        let found = named(table, |_| false);
        let paths: Vec<_> = found.iter().map(PathSetting::path).collect();
        assert_eq!(paths, ["noise.ratio", "noise.seed", "a.b.c"]);
        let mut recipe = Table::default();
        found.iter().for_each(|named| named.put(&named.node, &mut recipe));
        let recipe = Node { value: Value::Table(recipe), origin: Origin::Default };
        assert_eq!(recipe.to_json(), json!({ "noise": { "ratio": [1], "seed": [2] }, "a": { "b": { "c": [3] } } }));
    }
}
