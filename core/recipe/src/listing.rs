//! Listings of components, data sources and their settings, from the schema.

use crate::form::{Form, types};
use crate::limits::Limits;
use crate::schema::Schema;
use serde::Serialize;
use serde_json::Value as Json;

/// One table of a recipe that has variants, such as `loss` or `optimizer`.
#[derive(Debug, Clone, Serialize)]
pub struct Listing {
    /// The table's name.
    pub kind: String,
    /// What it is for.
    pub summary: String,
    /// The key that selects a variant: `name`, or `source` for data.
    pub key: String,
    /// What can be chosen.
    pub choices: Vec<Choice>,
}

/// One component, data source, backbone and so on.
#[derive(Debug, Clone, Serialize)]
pub struct Choice {
    /// The name recipes use.
    pub name: String,
    /// One-line summary.
    pub summary: String,
    /// What can be set.
    pub settings: Vec<Setting>,
}

/// One setting.
#[derive(Debug, Clone, Serialize)]
pub struct Setting {
    /// Dotted path below the table, e.g. `solver.tolerance`.
    pub name: String,
    /// What it must be, in words, with its range.
    pub value: String,
    /// The default; `None` if the setting is required or has no default.
    pub default: Option<Json>,
    /// Whether a recipe must set it.
    pub required: bool,
    /// What it is for.
    pub description: String,
    /// The form of a nested table that has it: `solver.name = "exact"`, `lambda = { max, … }`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only_if: Option<String>,
}

/// All tables with variants, in recipe order.
pub fn listings(schema: &Schema) -> Vec<Listing> {
    let Some(tables) = schema.as_json()["properties"].as_object() else { return Vec::new() };
    let mut listings = Vec::new();
    for (kind, rule) in tables {
        if let Form::Tagged { key, variants } = schema.form(rule) {
            let choice = |(name, rule): &(&str, &Json)| {
                let mut settings = Vec::new();
                collect(schema, rule, "", key, None, &mut settings);
                Choice { name: (*name).to_string(), summary: text(rule), settings }
            };
            let choices = variants.iter().map(choice).collect();
            listings.push(Listing { kind: kind.clone(), summary: text(rule), key: key.to_string(), choices });
        }
    }
    listings
}

fn text(rule: &Json) -> String {
    rule["description"].as_str().unwrap_or_default().replace('\n', " ")
}

/// Deeper nesting means a mistake in a component's schema, or a cycle.
const MAX_DEPTH: usize = 4;

fn collect(schema: &Schema, rule: &Json, prefix: &str, tag: &str, only_if: Option<&str>, all: &mut Vec<Setting>) {
    let Some(properties) = rule["properties"].as_object() else { return };
    if prefix.matches('.').count() >= MAX_DEPTH {
        return;
    }
    let required = |key: &str| rule["required"].as_array().is_some_and(|all| all.iter().any(|name| name == key));
    for (key, rule) in properties.iter().filter(|(key, _)| *key != tag) {
        let name = format!("{prefix}{key}");
        let default = rule.get("default").filter(|default| !default.is_null()).cloned();
        all.push(Setting {
            value: value(schema, rule),
            required: required(key) && default.is_none(),
            default,
            description: text(rule),
            only_if: only_if.map(String::from),
            name: name.clone(),
        });
        let below = format!("{name}.");
        match schema.form(rule) {
            Form::Plain(inner) => collect(schema, inner, &below, "", only_if, all),
            Form::Tagged { key, variants } => {
                for (variant, inner) in variants {
                    let only_if = format!("{name}.{key} = \"{variant}\"");
                    collect(schema, inner, &below, key, Some(&only_if), all);
                }
            }
            Form::Any(alternatives) => {
                for inner in alternatives {
                    // A form without a tag is identified by its required settings.
                    let keys: Vec<_> =
                        inner["required"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
                    let form = (!keys.is_empty()).then(|| format!("{name} = {{ {}, … }}", keys.join(", ")));
                    collect(schema, inner, &below, "", form.as_deref().or(only_if), all);
                }
            }
            Form::Choice(_) => {}
        }
    }
}

/// Type and range in words.
fn value(schema: &Schema, rule: &Json) -> String {
    let described = match schema.form(rule) {
        Form::Tagged { key, variants } => {
            let names = variants.iter().map(|(name, _)| *name);
            format!("a table with `{key}` one of {}", crate::suggest::quoted(names))
        }
        _ => schema.describe(rule),
    };
    let Form::Plain(rule) = schema.form(rule) else { return described };
    let numeric = types(rule).iter().any(|t| matches!(*t, "integer" | "number"));
    match Limits::of(rule).describe().filter(|_| numeric) {
        Some(range) => format!("{described} {range}"),
        None => described,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_tables_are_listed_with_their_settings() {
        let all = listings(&Schema::of_recipes(&[]));
        let kinds: Vec<_> = all.iter().map(|l| l.kind.as_str()).collect();
        assert_eq!(kinds, ["data", "noise", "backbone", "sampler", "loss", "weights", "optimizer", "schedule"]);
        let sgd = &all[6].choices[0];
        assert_eq!(sgd.name, "sgd");
        let lr = sgd.settings.iter().find(|s| s.name == "lr").unwrap();
        assert!(lr.required && lr.default.is_none());
        assert_eq!(lr.value, "a number at least 0");
        let momentum = sgd.settings.iter().find(|s| s.name == "momentum").unwrap();
        assert_eq!((momentum.required, momentum.default.as_ref().unwrap().as_f64()), (false, Some(0.0)));
    }
}
