//! Resolution of valid recipes.

use super::{GOOD, load, write};
use curricle_engine::{Error, Registry, component_settings};
use curricle_recipe::{self as recipe, Catalogue, DataRecipe, Schema, listings};
use curricle_sdk::ComponentKind;
use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::json;
use std::path::Path;

/// The valid recipe with lines added at its end.
fn good(test: &str, more: &str) -> std::path::PathBuf {
    write(test, &[("recipe.toml", &format!("{GOOD}{more}"))])
}

fn hash(path: &Path, sets: &[&str]) -> String {
    load(path, sets).unwrap().hash()
}

#[test]
fn a_resolved_recipe_is_self_contained() {
    let files = [
        ("methods/m.toml", "extends = '../base.toml'\ndescription = 'a \"quoted\" one'\n[weights]\nname = 'paced'"),
        ("base.toml", GOOD),
    ];
    let path = write("alone", &files);
    let resolved = load(&path, &["loss.alpha=3", "noise={name='list', path='labels.csv'}"]).unwrap();
    let again = write("alone", &[("runs/recipe.toml", &resolved.to_toml())]);
    let again = load(&again, &[]).unwrap();
    assert_eq!(again.hash(), resolved.hash());
    assert_eq!(again.to_toml(), resolved.to_toml());
    assert_eq!(again.recipe.name, "m");
    let folder = std::env::current_dir().unwrap().display().to_string();
    assert_snapshot!(resolved.to_toml().replace(&folder, "FOLDER"));
}

#[test]
fn explain_names_the_origin_of_every_value() {
    let files = [("m.toml", "extends = 'base.toml'\n[loss]\nbins = 7"), ("base.toml", GOOD)];
    let resolved = load(&write("explain", &files), &["loss.alpha=3"]).unwrap();
    assert_snapshot!(resolved.explain());
}

#[test]
fn the_hash_covers_only_what_affects_the_computation() {
    let path = good("hash", "");
    let same = hash(&path, &[]);
    for set in ["seed=9", "name=x", "description=x", "loss.alpha=2", "loss.alpha=2.0", "loss.name=springs"] {
        assert_eq!(hash(&path, &[set]), same, "{set}");
    }
    for set in ["loss.alpha=2.5", "data.seed=1", "train.epochs=3", "weights.name=paced"] {
        assert_ne!(hash(&path, &[set]), same, "{set}");
    }
}

#[test]
fn the_order_of_arguments_matters_only_for_equal_keys() {
    let path = good("order", "");
    let adam = |sets: &[&str]| format!("{:?}", load(&path, sets).unwrap().recipe.optimizer);
    assert_eq!(adam(&["optimizer.lr=0.5", "optimizer.name=adam"]), adam(&["optimizer.name=adam", "optimizer.lr=0.5"]));
    assert_eq!(load(&path, &["seed=1", "seed=2"]).unwrap().recipe.seed, 2);
}

#[test]
fn paths_are_relative_to_the_recipe_that_names_them() {
    let base = GOOD.replace("source = \"strokes\"\nclasses = 20", "source = 'features'\npath = '../x.safetensors'");
    let base = base.replace("conv4", "linear");
    let path = write("paths", &[("m.toml", "extends = 'base/b.toml'"), ("base/b.toml", &base)]);
    let data = |sets: &[&str]| match load(&path, sets).unwrap().recipe.data {
        DataRecipe::Features(features) => features.path,
        _ => panic!("not features"),
    };
    let here = std::env::current_dir().unwrap();
    assert_eq!(data(&[]), here.join("paths/x.safetensors"));
    assert_eq!(data(&["data.path=y.safetensors"]), here.join("y.safetensors"));
}

#[test]
fn doubtful_settings_give_warnings() {
    let more = "[groups.proxies]\nlr_scale = 1\n[groups.backbone]\nlr_scale = 0\n";
    let path = good("doubtful", more);
    let sets = ["train.epochs=0", "optimizer.lr=0", "optimizer.nesterov=true", "loss.alpha=5000", "sampler.size=500"];
    let resolved = load(&path, &sets).unwrap();
    assert_snapshot!(recipe::render(&resolved.warnings, 100, false));
    assert!(load(&good("not_doubtful", ""), &[]).unwrap().warnings.is_empty());
}

#[test]
fn declared_learning_rate_scales_are_part_of_the_recipe() {
    let scale = |more: &str| {
        let resolved = load(&good("declared", more), &[]).unwrap();
        let path = write("declared_again", &[("m.toml", &resolved.to_toml())]);
        let again = load(&path, &[]).unwrap();
        assert_eq!(again.hash(), resolved.hash(), "a stored recipe is the same recipe");
        again.recipe.groups["proxies"].lr_scale
    };
    assert_eq!(scale(""), Some(100.0));
    assert_eq!(scale("[groups.proxies]\nlr_scale = 7\n"), Some(7.0));
    assert_eq!(scale("[groups.proxies]\nweight_decay = 0.0\n"), Some(100.0));
}

#[test]
fn feature_backbones_are_refused_for_images() {
    let message = load(&good("linear", ""), &["backbone.name=linear"]).unwrap_err().to_string();
    assert_eq!(message, "backbone `linear` needs features, but the data source has images");
}

#[test]
fn component_settings_are_validated_like_a_recipe() {
    let settings = |sets: &[&str]| {
        let sets: Vec<_> = sets.iter().map(ToString::to_string).collect();
        component_settings(ComponentKind::Loss, "springs", &sets, &Registry::built_in())
    };
    let expected = json!({ "alpha": 3.0, "low": 0.9, "high": 0.1, "mining": "all", "bins": 10 });
    assert_eq!(settings(&["alpha=3"]).unwrap(), expected);
    let message = settings(&["alpah=3"]).unwrap_err().to_string();
    assert_eq!(message, "unknown setting `alpah` in `[loss]`");
    let unknown = component_settings(ComponentKind::Loss, "spring", &[], &Registry::built_in()).unwrap_err();
    assert!(matches!(unknown, Error::Usage(_)) && unknown.to_string().contains("did you mean `springs`?"));
}

#[test]
fn components_are_listed_with_their_nested_settings() {
    let all = listings(&Schema::of_recipes(&Registry::built_in().components()));
    let weights = all.iter().find(|l| l.kind == "weights").unwrap();
    assert_snapshot!(serde_json::to_string_pretty(&weights.choices).unwrap());
}

#[test]
fn every_schema_reference_resolves() {
    let schema = Schema::of_recipes(&Registry::built_in().components());
    let text = schema.as_json().to_string();
    let targets = text.split("\"$ref\":\"#/definitions/").skip(1).map(|rest| rest.split('"').next().unwrap());
    let mut count = 0;
    for target in targets {
        assert!(schema.as_json()["definitions"].get(target).is_some(), "{target}");
        count += 1;
    }
    assert!(count > 10, "the schema has references");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn settings_survive_a_toml_round_trip(
        alpha in 0.0..1e300f64, lr in 1e-300..1.0f64, bins in 2..100u64, seed in any::<u64>(),
        description in any::<String>(), maw in 0.0..1.0f64, ks in prop::collection::vec(1..1000u64, 1..5),
    ) {
        let description = toml::Value::from(description).to_string();
        let text = GOOD.replace("seed = 3", &format!("seed = {seed}\ndescription = {description}"))
            .replace("lr = 0.1", &format!("lr = {lr:?}"))
            .replace("\"springs\"", &format!("\"springs\"\nalpha = {alpha:?}\nbins = {bins}"))
            + &format!("[eval]\nrecall_at = {ks:?}\n[weights]\nname = 'paced'\nlambda.target_maw = {maw:?}\n");
        let first = load(&write("proptest", &[("first.toml", &text)]), &[]).unwrap();
        let second = load(&write("proptest", &[("second.toml", &first.to_toml())]), &[]).unwrap();
        prop_assert_eq!(first.hash(), second.hash());
        prop_assert_eq!(first.to_toml(), second.to_toml());
        prop_assert_eq!(first.recipe.seed, second.recipe.seed);
    }
}
