//! Merging of recipes.
//!
//! Tables are merged, everything else is replaced, and the later source wins. There is one exception:
//! a table that selects a different variant (`loss.name`, `data.source`, `solver.name`, …) replaces
//! the earlier table. No setting of the earlier variant is kept, even if both variants have an
//! `alpha` or `lr`: the value was meant for the other variant, and repeating a setting is better than
//! silently inheriting it from a base recipe. Selecting the same variant again changes nothing.

use crate::form::Form;
use crate::schema::Schema;
use crate::tree::{Entry, Replaced, Table, Value};
use serde_json::Value as Json;

/// Merges a later table into an earlier one; `rule` is the schema of both.
pub(crate) fn merge(base: &mut Table, later: Table, schema: &Schema, rule: &Json) {
    let mut rule = rule;
    if let Form::Tagged { key, variants } = schema.form(rule) {
        if let (Some(old), Some(new)) = (base.get(key), later.get(key))
            && let (Value::String(variant), Value::String(chosen)) = (&old.node.value, &new.node.value)
            && variant != chosen
        {
            let replaced = Replaced { variant: variant.clone(), origin: old.node.origin.clone() };
            *base = later;
            base.replaced = Some(replaced);
            return;
        }
        let chosen = later.get_str(key).or_else(|| base.get_str(key));
        rule = variants.iter().find(|(name, _)| Some(*name) == chosen).map_or(&Json::Null, |(_, rule)| *rule);
    } else if let Form::Plain(plain) = schema.form(rule) {
        rule = plain;
    }
    for Entry { key, key_origin, node } in later {
        match (base.get_mut(&key), node.value) {
            (Some(Entry { node: old, key_origin: old_key, .. }), Value::Table(new))
                if matches!(old.value, Value::Table(_)) =>
            {
                let Value::Table(table) = &mut old.value else { continue };
                let own = rule["properties"].get(&key).or_else(|| rule.get("additionalProperties"));
                merge(table, new, schema, own.unwrap_or(&Json::Null));
                // Problems with the merged table point to where it was last changed.
                old.origin = node.origin;
                *old_key = key_origin;
            }
            (_, value) => {
                base.insert(Entry { key, key_origin, node: crate::tree::Node { value, origin: node.origin } });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Node;
    use proptest::prelude::*;
    use serde_json::json;

    fn table(json: &Json) -> Table {
        match Node::from_default(json).unwrap().value {
            Value::Table(table) => table,
            _ => panic!("not a table"),
        }
    }

    fn merged(parts: &[Json], schema: &Schema) -> Json {
        let mut base = Table::default();
        for part in parts {
            merge(&mut base, table(part), schema, schema.as_json());
        }
        Node { value: Value::Table(base), origin: Default::default() }.to_json()
    }

    fn schema() -> Schema {
        let variant = |name: &str| json!({ "properties": { "name": { "const": name }, "alpha": {}, "inner": {} } });
        Schema::from(json!({ "properties": { "name": {}, "loss": { "oneOf": [variant("ms"), variant("snr")] } } }))
    }

    #[test]
    fn tables_are_merged_and_lists_replaced() {
        let parts = [json!({ "a": { "b": 1, "c": [1, 2] } }), json!({ "a": { "c": [3] }, "name": "x" })];
        assert_eq!(merged(&parts, &schema()), json!({ "a": { "b": 1, "c": [3] }, "name": "x" }));
    }

    #[test]
    fn a_different_variant_replaces_the_table_and_the_same_one_does_not() {
        let base = json!({ "name": "one", "loss": { "name": "ms", "alpha": 2 } });
        let other = json!({ "name": "two", "loss": { "name": "snr" } });
        let same = json!({ "name": "two", "loss": { "name": "ms", "inner": {} } });
        assert_eq!(merged(&[base.clone(), other.clone()], &schema()), other);
        let kept = json!({ "name": "two", "loss": { "name": "ms", "alpha": 2, "inner": {} } });
        assert_eq!(merged(&[base, same], &schema()), kept);
    }

    #[test]
    fn settings_may_precede_their_variant() {
        let parts = [json!({ "loss": { "alpha": 2 } }), json!({ "loss": { "name": "snr" } })];
        assert_eq!(merged(&parts, &schema()), json!({ "loss": { "alpha": 2, "name": "snr" } }));
    }

    fn trees() -> impl Strategy<Value = Json> {
        let leaf =
            prop_oneof![any::<i32>().prop_map(Json::from), prop::collection::vec(0..9, 0..3).prop_map(Json::from)];
        let tree = leaf.prop_recursive(3, 12, 3, |inner| {
            prop::collection::hash_map("[abc]", inner, 0..3).prop_map(|m| m.into_iter().collect::<Json>())
        });
        prop::collection::hash_map("[abc]", tree, 0..3).prop_map(|m| m.into_iter().collect())
    }

    proptest! {
        #[test]
        fn without_variants_grouping_does_not_matter(a in trees(), b in trees(), c in trees()) {
            // Holds for tables over tables, but not for a table over a number over a table.
            let none = Schema::from(json!({}));
            let left = merged(&[merged(&[a.clone(), b.clone()], &none), c.clone()], &none);
            let right = merged(&[a.clone(), merged(&[b.clone(), c.clone()], &none)], &none);
            prop_assume!(same_kinds(&a, &b) && same_kinds(&b, &c) && same_kinds(&a, &c));
            prop_assert_eq!(sorted(&left), sorted(&right));
        }

        #[test]
        fn merging_a_tree_with_itself_changes_nothing(a in trees()) {
            let none = Schema::from(json!({}));
            prop_assert_eq!(merged(&[a.clone(), a.clone()], &none), a);
        }
    }

    fn same_kinds(a: &Json, b: &Json) -> bool {
        match (a, b) {
            (Json::Object(a), Json::Object(b)) => a.iter().all(|(k, v)| b.get(k).is_none_or(|w| same_kinds(v, w))),
            (a, b) => !a.is_object() && !b.is_object(),
        }
    }

    fn sorted(json: &Json) -> String {
        crate::hash::canonical(json)
    }
}
