//! Settings from the command line.

use crate::{Error, Result};
use serde_json::{Map, Value};

/// The settings in `key=value` arguments as a JSON object.
///
/// A value is TOML; what is not is a string, so that `mining=hard` needs no quotes. Dotted keys
/// are nested tables. A later argument wins.
pub fn parse_settings(arguments: &[String]) -> Result<Value> {
    let mut settings = Map::new();
    for argument in arguments {
        let (key, value) = argument
            .split_once('=')
            .ok_or_else(|| Error::Usage(format!("`--set {argument}`: there is no `=`; write `--set key=value`")))?;
        let parse = |value: &str| format!("{key} = {value}").parse::<toml::Table>();
        let bare = toml::Value::String(value.trim().to_string());
        let table = parse(value).or_else(|_| parse(&bare.to_string())).map_err(|_| {
            Error::Usage(format!("`--set {argument}`: `{key}` is not a setting's name; write `--set key=value`"))
        })?;
        let table = serde_json::to_value(table).map_err(|e| Error::Usage(format!("`--set {argument}`: {e}")))?;
        merge(&mut settings, table);
    }
    Ok(Value::Object(settings))
}

fn merge(into: &mut Map<String, Value>, from: Value) {
    let Value::Object(from) = from else { return };
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(inner)), value @ Value::Object(_)) => merge(inner, value),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(arguments: &[&str]) -> Result<Value> {
        parse_settings(&arguments.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn values_are_toml_and_bare_words_are_strings() {
        let settings = parse(&["alpha=3", "rho = 0.5", "smooth=false", "mining=hard", "text=\"a b\"", "name=a b"]);
        let expected = json!({"alpha": 3, "rho": 0.5, "smooth": false, "mining": "hard", "text": "a b", "name": "a b"});
        assert_eq!(settings.unwrap(), expected);
    }

    #[test]
    fn dotted_keys_nest_and_the_last_one_wins() {
        let settings = parse(&["solver.name=exact", "solver.sweeps=3", "mu=1", "mu=2"]).unwrap();
        assert_eq!(settings, json!({"solver": {"name": "exact", "sweeps": 3}, "mu": 2}));
    }

    #[test]
    fn what_is_no_setting_is_refused() {
        for argument in ["alpha", "=3", "a b=3"] {
            let error = parse(&[argument]).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains("write `--set key=value`"), "{error}");
        }
    }
}
