//! The settings in which recipes differ.

use curricle_record::leaves as settings_of;
use serde::Serialize;
use serde_json::Value;

/// Settings that do not affect the computation, or that differ on purpose.
const LABELS: [&str; 6] = ["name", "description", "method", "case", "seed", "track"];

/// A setting that differs between recipes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its dotted name.
    pub setting: String,
    /// Its values in order of appearance, each with the names of the recipes that have it. Recipes
    /// without the setting are omitted.
    pub values: Vec<(String, Vec<String>)>,
}

/// The settings in which named recipes differ, in recipe order.
pub fn differences(recipes: &[(&str, &Value)]) -> Vec<Difference> {
    let flat: Vec<(&str, Vec<(String, String)>)> = recipes.iter().map(|(who, recipe)| (*who, leaves(recipe))).collect();
    let mut found: Vec<Difference> = Vec::new();
    for (who, leaves) in &flat {
        for (setting, value) in leaves {
            let index = found.iter().position(|d| d.setting == *setting).unwrap_or_else(|| {
                found.push(Difference { setting: setting.clone(), values: Vec::new() });
                found.len() - 1
            });
            let values = &mut found[index].values;
            match values.iter_mut().find(|(known, _)| known == value) {
                Some((_, holders)) => holders.push((*who).to_string()),
                None => values.push((value.clone(), vec![(*who).to_string()])),
            }
        }
    }
    let everyone = |d: &Difference| d.values.len() == 1 && d.values[0].1.len() == recipes.len();
    found.retain(|difference| !everyone(difference));
    // Settings of one table stay together even if the first recipe does not have them.
    let tables: Vec<String> = flat.iter().flat_map(|(_, leaves)| leaves).map(|(setting, _)| table(setting)).collect();
    found.sort_by_key(|d| tables.iter().position(|t| *t == table(&d.setting)));
    found
}

/// The settings that all recipes share.
pub fn shared(recipes: &[&Value]) -> Vec<(String, String)> {
    let Some((first, others)) = recipes.split_first() else { return Vec::new() };
    let others: Vec<_> = others.iter().map(|recipe| leaves(recipe)).collect();
    leaves(first).into_iter().filter(|leaf| others.iter().all(|leaves| leaves.contains(leaf))).collect()
}

/// The value of a setting as text.
pub(crate) fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

pub(super) fn leaves(recipe: &Value) -> Vec<(String, String)> {
    let leaves = settings_of(recipe).into_iter();
    let wanted = |setting: &str| !LABELS.contains(&table(setting).as_str());
    leaves.filter(|(setting, _)| wanted(setting)).map(|(setting, value)| (setting, shown(&value))).collect()
}

fn table(setting: &str) -> String {
    setting.split('.').next().unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn differing_settings_are_listed_with_the_recipes_that_have_them() {
        let base = |loss: Value| json!({ "name": "x", "seed": 1, "loss": loss, "train": { "epochs": 10 } });
        let (ms, bspml) = (base(json!({ "name": "ms", "alpha": 2.0 })), base(json!({ "name": "bspml", "alpha": 2.0 })));
        let (margin, long) = (base(json!({ "name": "margin" })), json!({ "name": "y", "train": { "epochs": 20 } }));
        let found = differences(&[("ms", &ms), ("bspml", &bspml), ("margin", &margin)]);
        let listed: Vec<_> = found.iter().map(|d| (d.setting.as_str(), d.values.len())).collect();
        assert_eq!(listed, [("loss.name", 3), ("loss.alpha", 1)]);
        assert_eq!(found[1].values[0], ("2.0".into(), vec!["ms".to_string(), "bspml".into()]));
        assert_eq!(shared(&[&ms, &bspml, &margin]), [("train.epochs".into(), "10".into())]);
        assert!(differences(&[("a", &ms), ("b", &ms)]).is_empty());
        assert_eq!(differences(&[("a", &ms), ("long", &long)]).last().unwrap().values[1].1, ["long"]);
    }
}
