//! Settings: defaults, validation, advice, declared tensors and weights of 0.

use crate::common::{Data, make};
use curricle_sdk::{ComponentKind, DataFacts, Init, Shape, registered};
use serde_json::{Value, json};

fn error(name: &str, settings: &Value) -> String {
    let component = registered().into_iter().find(|c| c.kind == ComponentKind::Loss && c.name == name).unwrap();
    component.factory.loss(settings).err().map(|e| e.to_string()).unwrap_or_default()
}

fn advice(name: &str, settings: &Value) -> Vec<String> {
    let facts = DataFacts { class_sizes: &[10, 10], embedding_size: 64, batch_size: 8 };
    make(name, settings).advice(&facts).into_iter().map(|a| a.path).collect()
}

#[test]
fn invalid_settings_are_rejected_by_name() {
    for (name, settings, path) in [
        ("ms", json!({"alpha": 0}), "alpha"),
        ("ms", json!({"epsilon": -0.1}), "epsilon"),
        ("bspml", json!({"beta": -1}), "beta"),
        ("triplet", json!({"margin": 1000}), "margin"),
        ("margin", json!({"margin": -0.2}), "margin"),
        ("fastap", json!({"bins": 0}), "bins"),
        ("rdml", json!({"eta": 0}), "eta"),
        ("proxy_anchor", json!({"alpha": 0}), "alpha"),
        ("snr", json!({"regularizer": -1}), "regularizer"),
        ("circle", json!({"margin": 1.5}), "margin"),
        ("circle", json!({"memory": {"size": -1}}), "memory.size"),
        ("arcface", json!({"sub_centers": 0}), "sub_centers"),
        ("arcface", json!({"margin": 200}), "margin"),
        ("soft_triple", json!({"centers_per_class": 0}), "centers_per_class"),
        ("norm_softmax", json!({"temperature": 0}), "temperature"),
    ] {
        let message = error(name, &settings);
        assert!(message.starts_with(&format!("setting `{path}`: must ")), "{name} {settings}: {message}");
    }
    assert!(error("ms", &json!({"aplha": 1})).contains("unknown field `aplha`"));
}

#[test]
fn degenerate_settings_draw_advice_and_defaults_do_not() {
    for component in registered() {
        assert_eq!(advice(component.name, &json!({})), [""; 0], "{}", component.name);
    }
    for (name, settings, path) in [
        ("ms", json!({"rho": 1.0}), "rho"),
        ("bspml", json!({"rho": 1.0}), "rho"),
        ("ms", json!({"epsilon": 3.0}), "epsilon"),
        ("contrastive", json!({"distance": "euclidean", "pos_margin": 1.0, "neg_margin": 0.0}), "neg_margin"),
        ("contrastive", json!({"neg_margin": 1.0}), "neg_margin"),
        ("triplet", json!({"mining": "semihard", "smooth": false}), "margin"),
        ("margin", json!({"beta": -0.5}), "beta"),
        ("margin", json!({"beta": 3.0, "learn_beta": "class"}), "beta"),
        ("fastap", json!({"bins": 1}), "bins"),
        ("rdml", json!({"eta": 20.0}), "eta"),
        ("proxy_anchor", json!({"delta": -2.0}), "delta"),
        ("arcface", json!({"margin": 0.5}), "margin"),
        ("norm_softmax", json!({"temperature": 1000.0}), "temperature"),
        ("snr", json!({"pos_margin": 1.0, "neg_margin": 0.0}), "neg_margin"),
    ] {
        assert_eq!(advice(name, &settings), [path], "{name} {settings}");
    }
}

#[test]
fn proxies_and_boundaries_are_declared() {
    let shape = Shape { classes: 8, samples: 100, embedding: 5 };
    let proxies = &make("proxy_anchor", &json!({})).tensors(&shape)[0];
    assert_eq!((&*proxies.name, &*proxies.group, proxies.lr_scale), ("proxies", "proxies", 100.0));
    assert_eq!((&proxies.shape[..], proxies.init), (&[8, 5][..], Init::Normal { std: 0.5 }));
    let proxies = &make("soft_triple", &json!({"centers_per_class": 2})).tensors(&shape)[0];
    assert_eq!((&*proxies.group, proxies.lr_scale, &proxies.shape[..]), ("proxies", 100.0, &[8, 2, 5][..]));
    assert_eq!(proxies.init, Init::Uniform { low: -0.25, high: 0.25 });
    let proxies = &make("arcface", &json!({"sub_centers": 3})).tensors(&shape)[0];
    assert_eq!((&*proxies.group, proxies.lr_scale, &proxies.shape[..]), ("proxies", 1.0, &[8, 3, 5][..]));
    let proxies = &make("norm_softmax", &json!({})).tensors(&shape)[0];
    assert_eq!((&*proxies.group, proxies.lr_scale, &proxies.shape[..]), ("proxies", 1.0, &[8, 5][..]));
    let beta = |learn: &str| make("margin", &json!({"learn_beta": learn, "beta": 1.1})).tensors(&shape);
    assert!(beta("none").is_empty());
    assert_eq!((&beta("global")[0].shape[..], beta("global")[0].init), (&[1][..], Init::Constant(1.1)));
    assert_eq!((&beta("class")[0].shape[..], &*beta("class")[0].group), (&[8][..], "beta"));
}

#[test]
fn contrastive_margins_follow_the_distance() {
    let loss = make("contrastive", &json!({"distance": "euclidean"}));
    let data = Data::random(&*loss, &[0, 0, 1, 1], 6, 1);
    let explicit = make("contrastive", &json!({"distance": "euclidean", "pos_margin": 0.0, "neg_margin": 1.0}));
    assert_eq!(data.evaluate(&*loss).value(), data.evaluate(&*explicit).value());
}

#[test]
fn bspml_drops_samples_of_weight_zero_unless_they_are_kept() {
    let drop = make("bspml", &json!({"epsilon": 2.0}));
    let keep = make("bspml", &json!({"epsilon": 2.0, "zero_weight": "keep"}));
    let mut data = Data::random(&*keep, &[0, 0, 0, 1, 1, 1], 6, 2);
    data.weights = Some(tch::Tensor::from_slice(&[1.0, 1.0, 0.0, 1.0, 1.0, 1.0]));
    assert!((data.evaluate(&*drop).value() - data.evaluate(&*keep).value()).abs() > 1e-3);
}

#[test]
fn normalised_bspml_does_not_depend_on_the_scale_of_the_weights() {
    for zero_weight in ["keep", "drop"] {
        let published = make("bspml", &json!({"zero_weight": zero_weight}));
        let normalised = make("bspml", &json!({"zero_weight": zero_weight, "normalise": "weights"}));
        // The class of one has no informative pairs.
        let data = Data::random(&*published, &[0, 0, 0, 1, 1, 1, 2], 6, 2);
        let mut weighted = data.rows(&[0, 1, 2, 3, 4, 5, 6]).with_random_weights(1);
        let of_ms = data.evaluate(&*make("ms", &json!({}))).value();
        let (large, large_normalised) =
            (weighted.evaluate(&*published).value(), weighted.evaluate(&*normalised).value());
        weighted.weights = weighted.weights.map(|w| w * 0.1);
        assert!((weighted.evaluate(&*published).value() - 0.01 * large).abs() < 1e-14);
        assert!((weighted.evaluate(&*normalised).value() - large_normalised).abs() < 1e-14);
        weighted.weights = weighted.weights.map(|w| w.full_like(0.3));
        assert!((weighted.evaluate(&*normalised).value() - of_ms).abs() < 1e-14);
    }
}
