//! A recipe as a tree, with the origin of every key and value.

use crate::source::Origin;
use indexmap::IndexMap;
use serde_json::Value as Json;

/// A value and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Where it comes from.
    pub origin: Origin,
}

/// A TOML value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Text.
    String(String),
    /// A whole number; wider than any setting, so that validation can report numbers too large.
    Integer(i128),
    /// Any other number.
    Float(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// A date or time, which TOML has but no setting uses.
    Datetime(String),
    /// A list.
    Array(Vec<Node>),
    /// A table.
    Table(Table),
}

/// One setting of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its name.
    pub key: String,
    /// Where the name was written.
    pub key_origin: Origin,
    /// Its value.
    pub node: Node,
}

/// The earlier variant of a table, dropped when a later source selected another one.
#[derive(Debug, Clone, PartialEq)]
pub struct Replaced {
    /// The earlier variant, e.g. `sgd`.
    pub variant: String,
    /// Where it was selected.
    pub origin: Origin,
}

/// Settings in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// By name.
    entries: IndexMap<String, Entry>,
    /// Set when merging, for better messages about settings that are missing as a result.
    pub replaced: Option<Replaced>,
}

impl Table {
    /// The setting with this name.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// Like [`Self::get`], mutable.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Entry> {
        self.entries.get_mut(key)
    }

    /// The setting with this name, if it is a string.
    pub(crate) fn get_str(&self, key: &str) -> Option<&str> {
        match &self.get(key)?.node.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Adds a setting, or replaces the one with the same name.
    pub fn insert(&mut self, entry: Entry) {
        self.entries.insert(entry.key.clone(), entry);
    }

    /// The sub-table with this name, created if missing; `None` if the setting is not a table.
    pub fn below(&mut self, key: &str) -> Option<&mut Table> {
        if self.get(key).is_none() {
            let node = Node { value: Value::Table(Table::default()), origin: Origin::Default };
            self.insert(Entry { key: key.into(), key_origin: Origin::Default, node });
        }
        match &mut self.get_mut(key)?.node.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// Removes a setting.
    pub fn remove(&mut self, key: &str) -> Option<Entry> {
        self.entries.shift_remove(key)
    }

    /// Whether it has no settings.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All settings in order.
    pub fn iter(&self) -> indexmap::map::Values<'_, String, Entry> {
        self.entries.values()
    }
}

impl IntoIterator for Table {
    type Item = Entry;
    type IntoIter = indexmap::map::IntoValues<String, Entry>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_values()
    }
}

impl Node {
    /// Where a setting was written; for a default, where the innermost table around it selects its variant.
    pub fn origin_of(&self, path: &str) -> Origin {
        let mut path = path;
        loop {
            match self.find(path) {
                Some(entry) if entry.node.origin.place().is_some() && entry.node.as_table().is_none() => {
                    return entry.node.origin.clone();
                }
                Some(Entry { node, .. }) => {
                    let name = node.as_table().and_then(|t| t.get("name").or_else(|| t.get("source")));
                    if let Some(name) = name.filter(|entry| entry.node.origin.place().is_some()) {
                        return name.node.origin.clone();
                    }
                }
                None => {}
            }
            match path.rsplit_once('.') {
                Some((parent, _)) => path = parent,
                None => return Origin::Default,
            }
        }
    }

    /// A default from a schema; `None` for null, which TOML does not have.
    pub(crate) fn from_default(json: &Json) -> Option<Self> {
        let value = match json {
            Json::Null => return None,
            Json::Bool(b) => Value::Boolean(*b),
            Json::String(s) => Value::String(s.clone()),
            Json::Number(n) => match n.as_i128() {
                Some(i) => Value::Integer(i),
                None => Value::Float(n.as_f64()?),
            },
            Json::Array(items) => Value::Array(items.iter().filter_map(Self::from_default).collect()),
            Json::Object(map) => {
                let mut table = Table::default();
                for (key, value) in map {
                    if let Some(node) = Self::from_default(value) {
                        table.insert(Entry { key: key.clone(), key_origin: Origin::Default, node });
                    }
                }
                Value::Table(table)
            }
        };
        Some(Self { value, origin: Origin::Default })
    }

    /// The value as JSON. Numbers that JSON cannot represent become null; validation refuses them.
    pub fn to_json(&self) -> Json {
        match &self.value {
            Value::String(s) | Value::Datetime(s) => Json::from(s.as_str()),
            Value::Integer(i) => serde_json::Number::from_i128(*i).map_or(Json::Null, Json::Number),
            Value::Float(f) => Json::from(*f),
            Value::Boolean(b) => Json::from(*b),
            Value::Array(items) => items.iter().map(Self::to_json).collect(),
            Value::Table(table) => table.iter().map(|e| (e.key.clone(), e.node.to_json())).collect(),
        }
    }

    /// The table, if it is one.
    pub fn as_table(&self) -> Option<&Table> {
        match &self.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The setting at a dotted path such as `loss.lambda.start`.
    pub fn find(&self, path: &str) -> Option<&Entry> {
        let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
        let entry = self.as_table()?.get(first)?;
        rest.map_or(Some(entry), |rest| entry.node.find(rest))
    }

    /// Sets a value at a dotted path of existing tables.
    pub fn set(&mut self, path: &str, node: Node) {
        let Value::Table(table) = &mut self.value else { return };
        match path.split_once('.') {
            Some((first, rest)) => {
                if let Some(entry) = table.get_mut(first) {
                    entry.node.set(rest, node);
                }
            }
            None => table.insert(Entry { key: path.into(), key_origin: node.origin.clone(), node }),
        }
    }

    /// What kind of value it is, in words.
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::String(_) => "a string",
            Value::Integer(_) => "a whole number",
            Value::Float(_) => "a decimal number",
            Value::Boolean(_) => "a boolean",
            Value::Datetime(_) => "a date",
            Value::Array(_) => "a list",
            Value::Table(_) => "a table",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_round_trips_without_nulls() {
        let json = json!({ "a": { "b": [1, 2.5, "x"], "c": true }, "seed": u64::MAX, "none": null });
        let node = Node::from_default(&json).unwrap();
        let mut expected = json;
        expected.as_object_mut().unwrap().remove("none");
        assert_eq!(node.to_json(), expected);
    }

    #[test]
    fn a_dotted_path_finds_its_setting() {
        let node = Node::from_default(&json!({ "a": { "b": { "c": 3 } } })).unwrap();
        assert_eq!(node.find("a.b.c").unwrap().node.value, Value::Integer(3));
        assert!(node.find("a.x").is_none());
        assert!(node.find("a.b.c.d").is_none());
    }
}
