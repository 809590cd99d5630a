//! Tests of reading `[tune]` and of drawing values.

use super::*;
use serde_json::{Value as Json, json};

fn read(json: &Json) -> Result<Tune, Vec<Problem>> {
    let node = Node::from_default(json).unwrap();
    let mut problems = Vec::new();
    let entry = Entry { key: "tune".into(), key_origin: Origin::Default, node };
    Tune::read(entry, &Table::default(), &mut problems).ok_or(problems)
}

fn values(json: &Json, probed: &Json, path: &str) -> Vec<Json> {
    let points = read(json).unwrap().candidates(&Node::from_default(probed).unwrap()).unwrap();
    let value = |point: &GridPoint| point.settings.iter().find(|(name, _)| name == path).unwrap().1.to_json();
    points.iter().map(value).collect()
}

#[test]
fn random_values_stay_in_their_range_and_depend_on_the_seed_alone() {
    let tune = |seed| json!({ "random": { "a.b": { "min": 1, "max": 5 } }, "trials": 50, "seed": seed });
    let first = values(&tune(0), &json!({ "a": { "b": 1.0 } }), "a.b");
    assert_eq!(first.len(), 50);
    assert!(first.iter().all(|value| (1.0..=5.0).contains(&value.as_f64().unwrap())));
    assert_eq!(first, values(&tune(0), &json!({ "a": { "b": 1.0 } }), "a.b"));
    assert_ne!(first, values(&tune(1), &json!({ "a": { "b": 1.0 } }), "a.b"));
    let with_another = json!({ "random": { "a": { "b": { "min": 1, "max": 5 } }, "c": [1, 2] }, "trials": 50 });
    assert_eq!(first, values(&with_another, &json!({ "a": { "b": 1.0 }, "c": 1 }), "a.b"), "another setting");
}

#[test]
fn integer_settings_get_equally_likely_integers() {
    let tune = json!({ "random": { "n": { "min": 1, "max": 3 }, "x": { "min": 0, "max": 1 } }, "trials": 3000 });
    let drawn = values(&tune, &json!({ "n": 1, "x": 0.0 }), "n");
    for n in 1..=3 {
        let share = drawn.iter().filter(|value| **value == n).count() as f64 / drawn.len() as f64;
        assert!((share - 1.0 / 3.0).abs() < 0.05, "{n}: {share}");
    }
}

#[test]
fn a_range_without_a_whole_number_is_refused_for_an_integer_setting() {
    let tune = read(&json!({ "random": { "n": { "min": 1.2, "max": 1.8 } }, "trials": 3 })).unwrap();
    let candidates = |n: Json| tune.candidates(&Node::from_default(&json!({ "n": n })).unwrap());
    assert_eq!(candidates(json!(2.0)).unwrap().len(), 3);
    let message = candidates(json!(2)).unwrap_err().to_string();
    assert_eq!(message, "`tune.random.n` contains no whole number, but `n` must be one");
}

#[test]
fn a_logarithmic_range_is_sampled_log_uniformly() {
    let tune = json!({ "random": { "lr": { "min": 1e-4, "max": 1e-2, "log": true } }, "trials": 1000 });
    let drawn = values(&tune, &json!({ "lr": 1.0 }), "lr");
    let small = drawn.iter().filter(|value| value.as_f64().unwrap() < 1e-3).count() as f64 / drawn.len() as f64;
    assert!((small - 0.5).abs() < 0.07, "{small}");
}

#[test]
fn choices_that_differ_after_many_characters_are_different_trials() {
    let paths = ["a", "b"].map(|name| format!("/data/weights/pretrained/vision_transformers/{name}.pth"));
    let tune = json!({ "random": { "weights": paths }, "trials": 20 });
    let points = read(&tune).unwrap().candidates(&Node::from_default(&json!({ "weights": "" })).unwrap()).unwrap();
    let mut labels: Vec<_> = points.into_iter().map(|point| point.label).collect();
    labels.sort();
    assert_eq!(labels, paths.map(|path| format!("weights={path}")));
}

#[test]
fn malformed_tables_are_refused() {
    for (wrong, message) in [
        (json!({}), "neither `grid` nor"),
        (json!({ "grid": { "a": [1] }, "random": { "a": [1] } }), "both"),
        (json!({ "random": { "a": [1] } }), "needs `trials`"),
        (json!({ "random": { "a": { "min": 2, "max": 1 } }, "trials": 1 }), "`min` below `max`"),
        (json!({ "random": { "a": { "min": 0, "max": 1, "log": true } }, "trials": 1 }), "above 0"),
        (json!({ "random": { "a": { "min": 0 } }, "trials": 1 }), "numbers for `min` and `max`"),
        (json!({ "grid": { "a": [1] }, "trials": 1 }), "is for `random`"),
        (json!({ "grid": { "a": [1] }, "metrik": "nmi" }), "no setting `metrik`"),
        (json!({ "grid": { "a": [1] }, "seeds": "some" }), "cannot be `some`"),
        (json!({ "grid": { "seed": [1] } }), "cannot be varied"),
    ] {
        let problems = read(&wrong).unwrap_err();
        assert!(problems.iter().any(|p| p.message.contains(message)), "{wrong}: {problems:?}");
    }
}
