//! Everything that `--set` can begin with, from the schema, for completion in shells.

use crate::form::{Form, types};
use crate::schema::Schema;
use serde_json::Value as Json;

/// Deeper nesting means a mistake in a component's schema, or a cycle.
const MAX_DEPTH: usize = 5;

/// All settings as `path=`, or as `path=value` if only some values are allowed, each with its description; sorted.
pub fn assignments(schema: &Schema) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (path, rule) in schema.as_json()["properties"].as_object().into_iter().flatten() {
        // Which recipes are extended is decided before settings are.
        if path != "extends" {
            collect(schema, rule, path, description(rule), &mut found);
        }
    }
    found.sort();
    // Components may share the name of a setting.
    found.dedup_by(|a, b| a.0 == b.0);
    found
}

fn collect(schema: &Schema, rule: &Json, path: &str, summary: &str, found: &mut Vec<(String, String)>) {
    if path.matches('.').count() >= MAX_DEPTH {
        return;
    }
    let mut offer = |value: &str, summary: &str| found.push((format!("{path}={value}"), summary.replace('\n', " ")));
    match schema.form(rule) {
        Form::Choice(values) => {
            values.into_iter().filter_map(Json::as_str).for_each(|value| offer(value, summary));
        }
        Form::Tagged { key, variants } => {
            for (name, rule) in variants {
                found.push((format!("{path}.{key}={name}"), description(rule).replace('\n', " ")));
                below(schema, rule, path, Some(key), found);
            }
        }
        Form::Any(alternatives) => {
            offer("", summary);
            alternatives.into_iter().for_each(|rule| below(schema, rule, path, None, found));
        }
        Form::Plain(rule) => match types(rule).as_slice() {
            ["boolean"] => ["false", "true"].into_iter().for_each(|value| offer(value, summary)),
            ["object"] => below(schema, rule, path, None, found),
            _ => offer("", summary),
        },
    }
}

/// The settings of a table, except the one that selects its variant.
fn below(schema: &Schema, rule: &Json, path: &str, tag: Option<&str>, found: &mut Vec<(String, String)>) {
    let settings = rule["properties"].as_object().into_iter().flatten();
    for (key, rule) in settings.filter(|(key, _)| Some(key.as_str()) != tag) {
        collect(schema, rule, &format!("{path}.{key}"), description(rule), found);
    }
}

fn description(rule: &Json) -> &str {
    rule["description"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_all_tables_are_offered_with_their_values() {
        let all = assignments(&Schema::of_recipes(&[]));
        let starting = |start: &str| -> Vec<&str> {
            all.iter().map(|(text, _)| text.as_str()).filter(|text| text.starts_with(start)).collect()
        };
        assert_eq!(starting("train.ep"), ["train.epochs="]);
        assert_eq!(starting("eval.cluster"), ["eval.cluster=always", "eval.cluster=ends", "eval.cluster=never"]);
        assert_eq!(starting("train.tf32"), ["train.tf32=false", "train.tf32=true"]);
        assert_eq!(starting("schedule.name=c"), ["schedule.name=constant", "schedule.name=cosine"]);
        assert_eq!(starting("optimizer.lr"), ["optimizer.lr="]);
        assert_eq!(starting("images.crop.name=c"), ["images.crop.name=center"]);
        assert_eq!(starting("seed"), ["seed="]);
        assert_eq!(starting("extends"), Vec::<&str>::new());
        assert!(all.iter().any(|(text, summary)| text == "optimizer.lr=" && summary == "Learning rate."));
    }

    #[test]
    fn a_schema_that_contains_itself_ends() {
        let table =
            serde_json::json!({ "type": "object", "properties": { "inner": { "$ref": "#/definitions/Table" } } });
        let schema = Schema::from(serde_json::json!({
            "properties": { "outer": { "$ref": "#/definitions/Table" } },
            "definitions": { "Table": table },
        }));
        assert_eq!(assignments(&schema), Vec::new());
    }
}
