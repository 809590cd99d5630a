//! Validation of a recipe against the schema, which also fills in the defaults.
//!
//! Validation does not stop at the first problem, so users see all of them at once. The result is
//! in canonical form: settings in the order of the schema, integers converted to floats where the
//! schema says number, and paths absolute.

mod scalar;
mod table;

use crate::form::{Form, types};
use crate::problems::Problem;
use crate::schema::Schema;
use crate::suggest;
use crate::tree::{Node, Value};
use serde_json::Value as Json;

/// The recipe with its defaults, and all its problems.
pub(crate) fn validate(root: Node, schema: &Schema) -> (Node, Vec<Problem>) {
    validate_table(root, schema, "")
}

/// Like [`validate`], for a single table of a recipe with its own schema.
pub(crate) fn validate_table(table: Node, schema: &Schema, path: &str) -> (Node, Vec<Problem>) {
    let mut walk = Walk { schema, problems: Vec::new() };
    let table = walk.node(table, schema.as_json(), path);
    (table, walk.problems)
}

struct Walk<'s> {
    schema: &'s Schema,
    problems: Vec<Problem>,
}

impl<'s> Walk<'s> {
    fn node(&mut self, node: Node, rule: &'s Json, path: &str) -> Node {
        match self.schema.form(rule) {
            Form::Tagged { key, variants } => self.tagged(node, key, &variants, path),
            Form::Choice(values) => self.choice(node, &values, path),
            Form::Any(alternatives) => self.any(node, rule, &alternatives, path),
            Form::Plain(rule) => self.plain(node, rule, path),
        }
    }

    fn plain(&mut self, node: Node, rule: &'s Json, path: &str) -> Node {
        let allowed = types(rule);
        let Node { value, origin } = node;
        let keep = |value| Node { value, origin: origin.clone() };
        if allowed.is_empty() {
            return self.unruled(keep(value), path);
        }
        match value {
            Value::Table(table) if allowed.contains(&"object") => {
                let table = self.table(table, &origin, rule, path, None);
                keep(Value::Table(table))
            }
            Value::Array(items) if allowed.contains(&"array") => {
                let items = self.array(items, &origin, rule, path);
                keep(Value::Array(items))
            }
            Value::String(text) if allowed.contains(&"string") => {
                let text = self.string(text, &origin, rule, path);
                keep(Value::String(text))
            }
            Value::Boolean(b) if allowed.contains(&"boolean") => keep(Value::Boolean(b)),
            Value::Integer(i) if allowed.contains(&"integer") => {
                self.integer(i, &origin, rule, path);
                keep(Value::Integer(i))
            }
            // `alpha = 2` and `alpha = 2.0` are the same recipe.
            Value::Integer(i) if allowed.contains(&"number") => {
                self.float(i as f64, &origin, rule, path);
                keep(Value::Float(i as f64))
            }
            Value::Float(f) if allowed.contains(&"number") || !f.is_finite() => {
                self.float(f, &origin, rule, path);
                keep(Value::Float(f))
            }
            value => {
                let node = keep(value);
                self.mismatch(&node, &self.schema.describe(rule), path);
                node
            }
        }
    }

    fn array(&mut self, items: Vec<Node>, origin: &super::Origin, rule: &'s Json, path: &str) -> Vec<Node> {
        let (least, most) = (rule["minItems"].as_u64(), rule["maxItems"].as_u64());
        let length = items.len() as u64;
        if least.is_some_and(|n| length < n) || most.is_some_and(|n| length > n) {
            let wanted = match (least, most) {
                (Some(a), Some(b)) if a == b => format!("{a}"),
                (Some(a), Some(b)) => format!("{a} to {b}"),
                (Some(a), None) => format!("at least {a}"),
                (_, b) => format!("at most {}", b.unwrap_or_default()),
            };
            let elements = if most.or(least) == Some(1) { "element" } else { "elements" };
            let message = format!("`{path}` must have {wanted} {elements}, not {length}");
            self.problems.push(Problem::new(origin, message).at(path).label(format!("has {length}")));
        }
        let rule_of = |index: usize| match &rule["items"] {
            Json::Array(each) => each.get(index).or_else(|| rule.get("additionalItems")),
            Json::Null => None,
            one => Some(one),
        };
        let walk_item = |(index, item)| {
            let path = format!("{path}[{index}]");
            match rule_of(index) {
                Some(rule) => self.node(item, rule, &path),
                None => self.unruled(item, &path),
            }
        };
        items.into_iter().enumerate().map(walk_item).collect()
    }

    /// Tries all alternatives and takes the one with the fewest problems.
    fn any(&mut self, node: Node, rule: &'s Json, alternatives: &[&'s Json], path: &str) -> Node {
        let mut best: Option<(Node, Vec<Problem>)> = None;
        for alternative in alternatives.iter().filter(|a| self.has_kind(&node, a)) {
            let mut attempt = Walk { schema: self.schema, problems: Vec::new() };
            let result = attempt.node(node.clone(), alternative, path);
            if best.as_ref().is_none_or(|(_, problems)| attempt.problems.len() < problems.len()) {
                best = Some((result, attempt.problems));
            }
        }
        match best {
            Some((result, problems)) => {
                self.problems.extend(problems);
                result
            }
            None => {
                self.mismatch(&node, &self.schema.describe(rule), path);
                node
            }
        }
    }

    fn has_kind(&self, node: &Node, rule: &Json) -> bool {
        let allowed = match self.schema.form(rule) {
            Form::Plain(rule) => types(rule),
            Form::Tagged { .. } => vec!["object"],
            Form::Choice(_) => vec!["string", "integer", "number", "boolean"],
            Form::Any(alternatives) => return alternatives.iter().any(|a| self.has_kind(node, a)),
        };
        allowed.is_empty()
            || allowed.iter().any(|&name| match node.value {
                Value::String(_) => name == "string",
                Value::Integer(_) => name == "integer" || name == "number",
                Value::Float(_) => name == "number",
                Value::Boolean(_) => name == "boolean",
                Value::Array(_) => name == "array",
                Value::Table(_) => name == "object",
                Value::Datetime(_) => false,
            })
    }

    fn choice(&mut self, node: Node, values: &[&Json], path: &str) -> Node {
        let json = node.to_json();
        if values.contains(&&json) {
            return node;
        }
        let names: Vec<_> = values.iter().filter_map(|v| v.as_str()).collect();
        let problem = match &node.value {
            Value::String(word) => {
                let problem = Problem::new(&node.origin, format!("`{path}` cannot be `{word}`")).label("not a choice");
                match suggest::help(word, &names, "the choices are:") {
                    Some(help) => problem.help(help),
                    None => problem,
                }
            }
            _ => {
                let choices = super::form::quoted_values(values);
                Problem::new(&node.origin, format!("`{path}` must be one of {choices}, not {}", node.kind()))
            }
        };
        self.problems.push(problem.at(path));
        node
    }
}

#[cfg(test)]
mod tests;
