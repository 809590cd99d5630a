//! The fast path of each loss equals its `reference`, value and gradients, in f64.

use crate::checks::LABELS;
use crate::common::{Data, Outcome, difference};
use curricle_losses::*;
use curricle_sdk::{Batch, Loss};
use serde_json::json;
use tch::Tensor;

/// One test per line: `test: Type, {settings}, {other settings}, …;`
macro_rules! references {
    ($($test:ident: $type:ident $(, $settings:tt)*;)*) => {$(
        #[test]
        fn $test() {
            for settings in [$(json!($settings)),*] {
                let loss: $type = serde_json::from_value(settings.clone()).unwrap();
                for (what, data) in batches(&loss) {
                    compare(&format!("{settings}, {what}"), &data, &loss, |batch| loss.reference(batch));
                }
            }
        }
    )*};
}

references! {
    ms: MultiSimilarity, {}, {"rho": 1.0, "epsilon": 0.0}, {"alpha": 5.0, "beta": 10.0, "epsilon": 3.0};
    bspml: Bspml, {}, {"zero_weight": "keep"}, {"rho": 1.0, "epsilon": 0.5, "zero_weight": "drop"};
    bspml_normalised: Bspml, {"normalise": "weights"}, {"zero_weight": "drop", "normalise": "weights"},
        {"rho": 1.0, "epsilon": 0.0, "normalise": "weights"};
    circle: Circle, {}, {"margin": 0.25, "gamma": 10.0};
    norm_softmax: NormSoftmax, {}, {"temperature": 0.5};
    arcface: ArcFace, {}, {"margin": 60.0, "scale": 8.0}, {"margin": 120.0, "scale": 8.0, "sub_centers": 3};
    soft_triple: SoftTriple, {}, {"centers_per_class": 2, "lambda": 5.0, "gamma": 0.5, "margin": 0.2};
    contrastive: Contrastive, {}, {"distance": "euclidean"}, {"pos_margin": 0.8, "neg_margin": 0.3},
        {"distance": "euclidean", "pos_margin": 0.4, "neg_margin": 1.3};
    triplet: Triplet, {}, {"squared": true, "margin": 0.2}, {"smooth": false, "margin": 0.3},
        {"smooth": false, "margin": 0.3, "squared": true};
    triplet_hard: Triplet, {"mining": "hard"}, {"mining": "hard", "squared": true, "margin": 0.2},
        {"mining": "hard", "smooth": false, "margin": 0.3};
    triplet_semihard: Triplet, {"mining": "semihard"}, {"mining": "semihard", "squared": true},
        {"mining": "semihard", "smooth": false, "margin": 0.3};
    margin_all: Margin, {"sampling": "all"}, {"sampling": "all", "learn_beta": "global"},
        {"sampling": "all", "learn_beta": "class", "margin": 0.4};
    margin_distance_weighted: Margin, {}, {"learn_beta": "global"}, {"learn_beta": "class", "beta": 0.9};
    fastap: FastAp, {}, {"bins": 1}, {"bins": 25};
    rdml: Rdml, {}, {"eta": 4.0}, {"eta": 0.5, "margin": 0.1};
    proxy_anchor: ProxyAnchor, {}, {"alpha": 8.0, "delta": 0.3};
    snr: Snr, {}, {"regularizer": 0.5}, {"pos_margin": 0.2, "neg_margin": 1.5};
}

/// Random batches with classes of one, samples drawn twice, and without any pair; each with several weights.
fn batches(loss: &dyn Loss) -> Vec<(String, Data)> {
    let mut batches = Vec::new();
    for seed in 0..3 {
        let data = Data::random(loss, &LABELS, 8, seed);
        let twice: Vec<i64> = (0..data.size()).chain([0, 4, 8, 9]).collect();
        batches.push((format!("samples drawn twice, seed {seed}"), data.rows(&twice)));
        batches.push((format!("seed {seed}"), data));
    }
    let small: [&[i64]; 5] = [&[2], &[1, 1, 1, 1], &[0, 1, 2, 3, 4, 5], &[3, 3], &[0, 0, 1]];
    batches.extend(small.map(|labels| (format!("labels {labels:?}"), Data::random(loss, labels, 8, 3))));
    batches.push(("one sample three times".into(), Data::random(loss, &[1, 1, 1], 8, 4).rows(&[0, 0, 0])));
    batches.into_iter().flat_map(|(what, data)| with_several_weights(&what, &data)).collect()
}

fn with_several_weights(what: &str, data: &Data) -> [(String, Data); 4] {
    let all: Vec<i64> = (0..data.size()).collect();
    let random = data.rows(&all).with_random_weights(5);
    let weights = random.weights.as_ref().unwrap();
    // A weight belongs to a sample, so both copies have it.
    let of_samples = weights.index_select(0, &data.ids.remainder(data.size()));
    let weighted = |weights: Tensor| Data { weights: Some(weights), ..data.rows(&all) };
    [
        (format!("{what}, no weights"), data.rows(&all)),
        (format!("{what}, random weights"), weighted(of_samples.shallow_clone())),
        (format!("{what}, some weights 0"), weighted(&of_samples * of_samples.gt(0.4))),
        (format!("{what}, all weights 0"), weighted(of_samples.zeros_like())),
    ]
}

fn compare(what: &str, data: &Data, loss: &dyn Loss, reference: impl FnOnce(&Batch) -> Tensor) {
    let (fast, expected) = (data.evaluate(loss), data.differentiate(3, reference));
    assert!(difference(&fast.loss, &expected.loss) < 1e-10, "{what}: {} and {}", fast.value(), expected.value());
    let gradient = |outcome: &Outcome| by_sample(&outcome.grad, &data.ids);
    assert!(difference(&gradient(&fast), &gradient(&expected)) < 1e-10, "{what}: gradients differ");
    for ((name, fast), (_, expected)) in fast.tensor_grads.iter().zip(&expected.tensor_grads) {
        assert!(difference(fast, expected) < 1e-10, "{what}: gradients of `{name}` differ");
    }
}

/// The gradient of each sample, summed over its copies: mining may choose either of two equal ones.
fn by_sample(gradient: &Tensor, ids: &Tensor) -> Tensor {
    let samples = ids.max().int64_value(&[]) + 1;
    Tensor::zeros([samples, gradient.size()[1]], (gradient.kind(), gradient.device())).index_add(0, ids, gradient)
}
