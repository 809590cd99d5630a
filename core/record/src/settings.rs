//! Settings of a resolved recipe by their dotted names.

use serde_json::Value;

/// A setting by its dotted name; `None` if it is absent or not set.
pub fn setting<'a>(settings: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(settings, |table, key| table.get(key)).filter(|value| !value.is_null())
}

/// All values of nested settings by dotted name, in their order: `loss.alpha = 2`. Lists become
/// text; settings that are not set are skipped.
pub fn leaves(settings: &Value) -> Vec<(String, Value)> {
    let mut leaves = Vec::new();
    flatten("", settings, &mut leaves);
    leaves
}

fn flatten(path: &str, value: &Value, leaves: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(table) => {
            for (key, value) in table {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                flatten(&path, value, leaves);
            }
        }
        Value::Null => {}
        Value::Array(_) => leaves.push((path.into(), Value::String(value.to_string()))),
        _ => leaves.push((path.into(), value.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nested_settings_become_dotted_names() {
        let recipe = json!({ "noise": null, "eval": {"recall_at": [1, 2]}, "loss": {"name": "ms", "alpha": 2.0} });
        let expected = [("eval.recall_at", json!("[1,2]")), ("loss.name", json!("ms")), ("loss.alpha", json!(2.0))];
        assert_eq!(leaves(&recipe), expected.map(|(name, value)| (name.to_string(), value)));
        assert_eq!(setting(&recipe, "loss.alpha"), Some(&json!(2.0)));
        assert_eq!(setting(&recipe, "noise"), None);
    }
}
