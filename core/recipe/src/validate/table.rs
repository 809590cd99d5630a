//! Validation of tables: unknown and missing settings, defaults, and variants.

use super::Walk;
use crate::form::Form;
use crate::problems::Problem;
use crate::source::Origin;
use crate::suggest::{self, quoted};
use crate::tree::{Entry, Node, Table, Value};
use serde_json::Value as Json;

/// The variant of a tagged table, for messages.
pub(super) struct Variant<'a> {
    key: &'a str,
    name: &'a str,
    all: &'a [(&'a str, &'a Json)],
}

impl<'s> Walk<'s> {
    /// A table whose settings depend on the value of one key, such as `name`.
    pub(super) fn tagged(&mut self, node: Node, key: &str, variants: &[(&'s str, &'s Json)], path: &str) -> Node {
        let names: Vec<_> = variants.iter().map(|(name, _)| *name).collect();
        let Node { value: Value::Table(table), origin } = node else {
            self.not_a_tagged_table(&node, key, &names, path);
            return node;
        };
        let chosen = table.get_str(key).and_then(|name| variants.iter().find(|(variant, _)| *variant == name));
        if let Some((name, rule)) = chosen {
            let table = self.table(table, &origin, rule, path, Some(&Variant { key, name, all: variants }));
            return Node { value: Value::Table(table), origin };
        }
        let available = "available:";
        let last = path.rsplit('.').next().unwrap_or(path);
        let what = if key == "name" { last.to_string() } else { format!("{last} {key}") };
        let problem = match table.get(key) {
            None => Problem::new(&origin, format!("`{path}.{key}` is missing"))
                .label(format!("needs `{key} = \"…\"`"))
                .help(format!("{available} {}", quoted(names))),
            Some(entry) => match &entry.node.value {
                Value::String(word) => {
                    let help = suggest::help(word, &names, available);
                    Problem::new(&entry.node.origin, format!("there is no {what} `{word}`"))
                        .label(format!("unknown {what}"))
                        .help(help.unwrap_or_else(|| format!("no {what} is registered")))
                }
                _ => Problem::new(
                    &entry.node.origin,
                    format!("`{path}.{key}` must be a string, not {}", entry.node.kind()),
                )
                .help(format!("{available} {}", quoted(names))),
            },
        };
        let path = if table.get(key).is_some() { format!("{path}.{key}") } else { path.to_string() };
        self.problems.push(problem.at(path));
        Node { value: Value::Table(table), origin }
    }

    fn not_a_tagged_table(&mut self, node: &Node, key: &str, names: &[&str], path: &str) {
        let problem = Problem::new(&node.origin, format!("`{path}` must be a table, not {}", node.kind())).at(path);
        self.problems.push(match &node.value {
            Value::String(word) if names.contains(&word.as_str()) => {
                problem.help(format!("write `{path} = {{ {key} = \"{word}\" }}` or `{path}.{key} = \"{word}\"`"))
            }
            _ => problem
                .help(format!("write `{path} = {{ {key} = \"…\" }}` with one of {}", quoted(names.iter().copied()))),
        });
    }

    pub(super) fn table(
        &mut self,
        mut table: Table,
        origin: &Origin,
        rule: &'s Json,
        path: &str,
        variant: Option<&Variant>,
    ) -> Table {
        let below = |key: &str| if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
        let mut result = Table::default();
        result.replaced = table.replaced.take();
        let properties: Vec<_> = rule["properties"].as_object().into_iter().flatten().collect();
        let names: Vec<_> = properties.iter().map(|(key, _)| key.as_str()).collect();
        let required = |key: &str| rule["required"].as_array().is_some_and(|all| all.iter().any(|name| name == key));
        // A misspelt setting is reported once, as unknown, and not also as missing.
        let unknown = table.iter().map(|e| e.key.as_str()).filter(|key| !names.contains(key));
        let misspelt: Vec<_> = unknown.filter_map(|key| suggest::nearest(key, names.iter().copied())).collect();
        for (key, rule) in properties {
            if let Some(Entry { key, key_origin, node }) = table.remove(key) {
                let node = self.node(node, rule, &below(&key));
                result.insert(Entry { key, key_origin, node });
            } else if let Some(node) = rule.get("default").and_then(Node::from_default) {
                let node = self.node(node, rule, &below(key));
                result.insert(Entry { key: key.clone(), key_origin: Origin::Default, node });
            } else if required(key) && !misspelt.contains(&key.as_str()) {
                self.missing(&result, origin, key, rule, &below(key), path);
            }
        }
        let mut others: Vec<_> = table.into_iter().collect();
        let open = rule.get("additionalProperties").filter(|rule| **rule != false);
        if open.is_some() {
            // Map keys are sorted, so that equal recipes have the same form.
            others.sort_by(|a, b| a.key.cmp(&b.key));
        }
        for Entry { key, key_origin, node } in others {
            let node = match open {
                Some(Json::Bool(_)) => self.unruled(node, &below(&key)),
                Some(rule) => self.node(node, rule, &below(&key)),
                None => {
                    self.unknown(&key, &key_origin, &names, path, variant);
                    node
                }
            };
            result.insert(Entry { key, key_origin, node });
        }
        result
    }

    fn missing(&mut self, table: &Table, origin: &Origin, key: &str, rule: &Json, full: &str, path: &str) {
        let what = rule["description"].as_str().map(|text| text.replace('\n', " ")).unwrap_or_default();
        let is_table = self.schema.describe(rule) == "a table";
        let problem = if is_table && path.is_empty() {
            Problem::new(origin, format!("`[{key}]` is missing")).label(format!("needs a table `[{key}]`"))
        } else {
            Problem::new(origin, format!("`{full}` is missing")).label(format!("needs `{key}`"))
        };
        let choices = match self.schema.form(rule) {
            Form::Tagged { key, variants } => {
                format!(" (`{key}` is one of {})", quoted(variants.iter().map(|(name, _)| *name)))
            }
            _ => format!(" ({})", self.schema.describe(rule)),
        };
        let mut help = format!("{}{choices}", fragment(&what));
        if let Some(old) = &table.replaced {
            // The setting may be in the base recipe, so explain why it was dropped.
            help.push_str(&format!("; settings of `{}` ({}) do not carry over", old.variant, old.origin));
        }
        self.problems.push(problem.at(full).help(help.trim_start().to_string()));
    }

    fn unknown(&mut self, key: &str, origin: &Origin, known: &[&str], path: &str, variant: Option<&Variant>) {
        let owner = match variant {
            Some(variant) => format!("`{}`", variant.name),
            None if path.is_empty() => "a recipe".to_string(),
            None => format!("`[{path}]`"),
        };
        let known: Vec<_> = known.iter().copied().filter(|name| variant.is_none_or(|v| v.key != *name)).collect();
        let place = if path.is_empty() { "the recipe".to_string() } else { format!("`[{path}]`") };
        let full = if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
        let help = match suggest::nearest(key, known.iter().copied()) {
            Some(_) => suggest::help(key, &known, &format!("{owner} has:")),
            None => self.elsewhere(key, variant).or_else(|| suggest::help(key, &known, &format!("{owner} has:"))),
        };
        let problem = Problem::new(origin, format!("unknown setting `{key}` in {place}"))
            .at(full)
            .label(if variant.is_some() { format!("{owner} has no such setting") } else { "no such setting".into() });
        self.problems.push(problem.help(help.unwrap_or_else(|| format!("{owner} has no settings"))));
    }

    /// Where a setting belongs that exists in another variant or table.
    fn elsewhere(&self, key: &str, variant: Option<&Variant>) -> Option<String> {
        let has = |rule: &Json| rule["properties"].get(key).is_some();
        let owners = |all: &[(&str, &Json)]| {
            let owners: Vec<_> = all.iter().filter(|(_, rule)| has(rule)).map(|(name, _)| *name).collect();
            (!owners.is_empty()).then(|| quoted(owners))
        };
        if let Some(owners) = variant.and_then(|v| owners(v.all)) {
            return Some(format!("`{key}` is a setting of {owners}"));
        }
        let tables = self.schema.as_json()["properties"].as_object()?;
        let found = tables.iter().find(|(_, rule)| match self.schema.form(rule) {
            Form::Plain(rule) => has(rule),
            Form::Tagged { variants, .. } => owners(&variants).is_some(),
            _ => false,
        });
        found.map(|(table, _)| format!("did you mean `{table}.{key}`?"))
    }
}

/// A sentence of a doc comment as a fragment: no final full stop, no capital.
fn fragment(sentence: &str) -> String {
    let sentence = sentence.trim_end_matches('.');
    let mut letters = sentence.chars();
    match (letters.next(), letters.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() => first.to_lowercase().chain(letters).collect(),
        _ => sentence.to_string(),
    }
}
