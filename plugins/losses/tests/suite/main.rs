//! Runs every check on every loss and its variants. A new loss needs one line in [`suite!`].

mod checks;
mod common;
mod golden;
mod memory;
mod references;
mod settings;

/// One module of tests per line: `module: "loss" {settings};`
macro_rules! suite {
    ($($module:ident: $name:literal $settings:tt;)*) => {$(
        mod $module {
            use crate::{checks, keeps_zero_weights};

            fn loss() -> Box<dyn curricle_sdk::Loss> {
                crate::common::make($name, &serde_json::json!($settings))
            }

            #[test]
            fn derivatives_equal_finite_differences() {
                checks::derivatives_equal_finite_differences(&*loss());
            }
            #[test]
            fn batch_order_does_not_matter() {
                checks::batch_order_does_not_matter(&*loss());
            }
            #[test]
            fn class_numbering_does_not_matter() {
                checks::class_numbering_does_not_matter(&*loss());
            }
            #[test]
            fn weights_of_one_equal_no_weights() {
                checks::weights_of_one_equal_no_weights(&*loss());
            }
            #[test]
            fn weights_of_zero_give_zero() {
                checks::weights_of_zero_give_zero(&*loss());
            }
            #[test]
            fn samples_of_weight_zero_are_absent() {
                if !keeps_zero_weights($name, &serde_json::json!($settings)) {
                    checks::samples_of_weight_zero_are_absent(&*loss());
                }
            }
            #[test]
            fn small_batches_are_finite_and_connected() {
                checks::small_batches_are_finite_and_connected(&*loss());
            }
            #[test]
            fn equal_and_opposite_embeddings_are_finite() {
                checks::equal_and_opposite_embeddings_are_finite(&*loss());
            }
            #[test]
            fn long_embeddings_are_finite() {
                checks::long_embeddings_are_finite(&*loss());
            }
            #[test]
            fn a_repeated_sample_is_not_a_pair() {
                checks::a_repeated_sample_is_not_a_pair(&*loss());
            }
            #[test]
            fn precisions_agree() {
                checks::precisions_agree(&*loss());
            }
        }
    )*};
}

suite! {
    ms: "ms" {};
    ms_literal: "ms" {"rho": 1.0, "epsilon": 0.0};
    bspml: "bspml" {};
    bspml_keep: "bspml" {"zero_weight": "keep"};
    bspml_normalised: "bspml" {"normalise": "weights"};
    bspml_drop_normalised: "bspml" {"zero_weight": "drop", "normalise": "weights"};
    ms_memory: "ms" {"memory": {"size": 9}};
    circle: "circle" {};
    circle_reid: "circle" {"margin": 0.25, "gamma": 10.0, "memory": {"size": 40}};
    contrastive: "contrastive" {};
    contrastive_memory: "contrastive" {"memory": {"size": 9}};
    contrastive_euclidean: "contrastive" {"distance": "euclidean"};
    triplet: "triplet" {};
    triplet_squared: "triplet" {"squared": true, "margin": 0.2};
    triplet_hinge: "triplet" {"smooth": false, "margin": 0.3};
    triplet_hard: "triplet" {"mining": "hard"};
    triplet_semihard: "triplet" {"mining": "semihard", "smooth": false, "margin": 0.3};
    margin: "margin" {};
    margin_all: "margin" {"sampling": "all"};
    margin_global: "margin" {"sampling": "all", "learn_beta": "global"};
    margin_class: "margin" {"sampling": "all", "learn_beta": "class"};
    fastap: "fastap" {};
    rdml: "rdml" {};
    proxy_anchor: "proxy_anchor" {};
    norm_softmax: "norm_softmax" {};
    arcface: "arcface" {};
    arcface_sub_centers: "arcface" {"sub_centers": 3, "scale": 16.0};
    soft_triple: "soft_triple" {};
    snr: "snr" {};
    snr_regularized: "snr" {"regularizer": 0.5};
}

/// Whether samples of weight 0 stay in the batch, as `bspml` was published.
fn keeps_zero_weights(name: &str, settings: &serde_json::Value) -> bool {
    name == "bspml" && settings["zero_weight"] == "keep"
}

#[test]
fn every_registered_loss_is_in_the_suite() {
    let source = include_str!("main.rs");
    for component in curricle_sdk::registered() {
        assert!(source.contains(&format!(": \"{}\" {{", component.name)), "`{}` is missing", component.name);
    }
}
