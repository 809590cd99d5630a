//! Checks of settings and their schema.

use super::{NotPassed, Subject, batches, fail, sampler, weights};
use curricle_sdk::{ComponentKind, Error, guard};
use serde_json::{Map, Value, json};

fn properties(subject: &Subject) -> Map<String, Value> {
    match subject.component.factory.schema()["properties"].take() {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// The constructor accepts the schema's defaults, and omitted settings mean the same if nothing is
/// required.
pub(crate) fn defaults_are_accepted(subject: &Subject) -> Result<(), NotPassed> {
    let full = behaviour(subject)?;
    let schema = subject.component.factory.schema();
    let required = schema["required"].as_array().is_some_and(|names| !names.is_empty());
    let given: Map<String, Value> = properties(subject)
        .into_iter()
        .filter_map(|(name, rule)| {
            let value = subject.settings.get(&name)?;
            (rule.get("default") != Some(value)).then(|| (name, value.clone()))
        })
        .collect();
    if required {
        return Ok(());
    }
    let sparse = Subject { settings: Value::Object(given), ..*subject };
    match behaviour(&sparse) {
        Ok(found) if found == full => Ok(()),
        Ok(_) => fail("an omitted setting does not mean the schema's default"),
        Err(NotPassed::Failed(reason)) => fail(format!("settings with a default cannot be omitted: {reason}")),
        Err(skipped) => Err(skipped),
    }
}

/// The output of an instance on test data, for comparison.
fn behaviour(subject: &Subject) -> Result<Vec<u64>, NotPassed> {
    match subject.component.kind {
        ComponentKind::Loss => {
            let loss = batches::make(subject)?;
            let value = batches::Case::usual(loss.as_ref(), 0)?.value(loss.as_ref())?;
            Ok(vec![value.double_value(&[]).to_bits()])
        }
        ComponentKind::Sampler => {
            let (sampler, labels) = (sampler::make(subject)?, sampler::labels());
            let batches = sampler::batches(sampler.as_ref(), &labels, 0, 0)?;
            Ok(batches.concat().into_iter().map(|id| id as u64).collect())
        }
        ComponentKind::Weights => {
            let update = weights::WeightedData::usual().update(weights::make(subject)?.as_ref())?;
            Ok(update.weights.into_iter().map(f64::to_bits).collect())
        }
    }
}

/// Every setting has a description, and a default unless it is required.
pub(crate) fn schema_describes_every_setting(subject: &Subject) -> Result<(), NotPassed> {
    let schema = subject.component.factory.schema();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, rule) in properties(subject) {
        let described = rule["description"].as_str().is_some_and(|text| !text.trim().is_empty());
        if !described {
            return fail(format!("setting `{name}` has no description (in Rust, a doc comment)"));
        }
        if rule.get("default").is_none() && !required.contains(&json!(name)) {
            return fail(format!("setting `{name}` is optional but has no default in the schema"));
        }
        if name == "name" {
            return fail("a setting cannot be called `name`, which is reserved for the component's name");
        }
    }
    Ok(())
}

/// A value of the wrong type is an error, not a panic, and is not silently converted. The engine
/// checks values against the schema first, so this finds schemas that the constructor does not honour.
pub(crate) fn wrong_types_are_refused(subject: &Subject) -> Result<(), NotPassed> {
    for (name, rule) in properties(subject) {
        let wrong = match rule["type"].as_str() {
            Some("number" | "integer" | "boolean") => json!("text"),
            Some("string" | "array") => json!(1.5),
            _ => continue,
        };
        let mut settings = subject.settings.clone();
        settings[&name] = wrong;
        let factory = subject.component.factory;
        let made = guard(|| match subject.component.kind {
            ComponentKind::Loss => factory.loss(&settings).map(drop),
            ComponentKind::Sampler => factory.sampler(&settings).map(drop),
            ComponentKind::Weights => factory.weights(&settings).map(drop),
        });
        match made {
            Ok(()) => return fail(format!("setting `{name}` of the wrong type is accepted")),
            Err(Error::Panic(reason)) => {
                return fail(format!("setting `{name}` of the wrong type: panicked: {reason}"));
            }
            Err(_) => {}
        }
    }
    Ok(())
}
