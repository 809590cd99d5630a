//! What holds for every loss.

use crate::common::{CLASSES, Data, all_finite, difference};
use curricle_sdk::Loss;
use tch::{Kind, Tensor};

/// Classes of different sizes, one of them a single sample, one (3) absent.
pub(crate) const LABELS: [i64; 14] = [0, 1, 1, 2, 0, 2, 2, 1, 4, 2, 0, 5, 5, 1];

/// Whether the loss draws random numbers: another seed then gives another value.
fn draws(loss: &dyn Loss) -> bool {
    let data = Data::random(loss, &LABELS, 8, 1);
    data.evaluate_with_seed(loss, 1).value() != data.evaluate_with_seed(loss, 2).value()
}

/// Central differences in random directions, with and without weights.
pub(crate) fn derivatives_equal_finite_differences(loss: &dyn Loss) {
    if !loss.gradient_is_exact() {
        return;
    }
    let plain = Data::random(loss, &LABELS, 8, 2);
    let weighted = Data::random(loss, &LABELS, 8, 3).with_random_weights(3);
    for data in [plain, weighted] {
        let outcome = data.evaluate(loss);
        assert!(outcome.grad.abs().max().double_value(&[]) > 1e-6, "the test batch must have a gradient");
        let step = 1e-6;
        let value = |embeddings: &Tensor, tensors: Vec<(String, Tensor)>| {
            let mut moved = data.rows(&(0..data.size()).collect::<Vec<_>>());
            moved.embeddings = embeddings.shallow_clone();
            moved.tensors = tensors;
            moved.evaluate(loss).value()
        };
        let tensors = || {
            let copy = |t: &Tensor| t.detach().copy().set_requires_grad(t.requires_grad());
            data.tensors.iter().map(|(n, t)| (n.clone(), copy(t))).collect::<Vec<_>>()
        };
        for direction in 0..4 {
            let along = Data::random(loss, &LABELS, 8, 100 + direction).embeddings;
            let ahead = value(&(&data.embeddings + &along * step), tensors());
            let behind = value(&(&data.embeddings - &along * step), tensors());
            let expected = (ahead - behind) / (2.0 * step);
            let ours = (&outcome.grad * along).sum(Kind::Double).double_value(&[]);
            assert!((ours - expected).abs() < 1e-6 * expected.abs().max(1.0), "{ours}, expected {expected}");
        }
        for (name, gradient) in &outcome.tensor_grads {
            for element in 0..gradient.numel().min(20) as i64 {
                let shifted = |by: f64| {
                    let tensors = tensors();
                    let (_, tensor) = tensors.iter().find(|(n, _)| n == name).unwrap();
                    let _ = tensor.detach().view([-1]).get(element).g_add_scalar_(by);
                    value(&data.embeddings, tensors)
                };
                let expected = (shifted(step) - shifted(-step)) / (2.0 * step);
                let ours = gradient.view([-1]).double_value(&[element]);
                assert!(
                    (ours - expected).abs() < 1e-6 * expected.abs().max(1.0),
                    "`{name}` {element}: {ours}, expected {expected}"
                );
            }
        }
    }
}

/// Rows in another order: same loss, same gradients in that order.
pub(crate) fn batch_order_does_not_matter(loss: &dyn Loss) {
    if draws(loss) {
        return; // The random draws depend on a row's position.
    }
    let data = Data::random(loss, &LABELS, 8, 4).with_random_weights(4);
    let order: Vec<i64> = (0..data.size()).map(|i| (i * 5 + 3) % data.size()).collect();
    let before = data.evaluate(loss);
    let after = data.rows(&order).evaluate(loss);
    assert!(difference(&after.loss, &before.loss) < 1e-12);
    assert!(difference(&after.grad, &before.grad.index_select(0, &Tensor::from_slice(&order))) < 1e-12);
}

/// Classes renumbered, their tensors moved along: same loss.
pub(crate) fn class_numbering_does_not_matter(loss: &dyn Loss) {
    let data = Data::random(loss, &LABELS, 8, 5);
    let mut renamed = data.rows(&(0..data.size()).collect::<Vec<_>>());
    renamed.labels = (CLASSES - 1) - &data.labels;
    for (_, tensor) in &mut renamed.tensors {
        if tensor.size()[0] == CLASSES {
            *tensor = tensor.detach().flip([0]).set_requires_grad(tensor.requires_grad());
        }
    }
    let (before, after) = (data.evaluate(loss), renamed.evaluate(loss));
    assert!(difference(&after.loss, &before.loss) < 1e-12);
    assert!(difference(&after.grad, &before.grad) < 1e-12);
}

/// All weights 1: exactly the loss without weights, up to rounding.
pub(crate) fn weights_of_one_equal_no_weights(loss: &dyn Loss) {
    let data = Data::random(loss, &LABELS, 8, 6);
    let mut ones = data.rows(&(0..data.size()).collect::<Vec<_>>());
    ones.weights = Some(Tensor::ones([data.size()], (Kind::Double, tch::Device::Cpu)));
    let (without, with) = (data.evaluate(loss), ones.evaluate(loss));
    assert!(difference(&with.loss, &without.loss) < 1e-14);
    assert!(difference(&with.grad, &without.grad) < 1e-14);
}

/// All weights 0: loss 0, gradient 0.
pub(crate) fn weights_of_zero_give_zero(loss: &dyn Loss) {
    let mut data = Data::random(loss, &LABELS, 8, 7);
    data.weights = Some(Tensor::zeros([data.size()], (Kind::Double, tch::Device::Cpu)));
    let outcome = data.evaluate(loss);
    assert_eq!(outcome.value(), 0.0);
    assert_eq!(outcome.grad.abs().max().double_value(&[]), 0.0);
}

/// Some weights 0: the values and gradients of the batch without those samples.
pub(crate) fn samples_of_weight_zero_are_absent(loss: &dyn Loss) {
    // Each time other samples, the last time a whole class and all but one of another.
    let absent: [&[i64]; 4] = [&[3], &[0, 7, 8], &[1, 5, 9, 11], &[0, 4, 10, 3, 5, 6]];
    for (seed, absent) in absent.into_iter().enumerate() {
        let mut data = Data::random(loss, &LABELS, 8, 20 + seed as u64).with_random_weights(20 + seed as u64);
        let present: Vec<i64> = (0..data.size()).filter(|row| !absent.contains(row)).collect();
        let (rows, gone) = (Tensor::from_slice(&present), Tensor::from_slice(absent));
        let _ = data.weights.as_mut().unwrap().index_fill_(0, &gone, 0.0);
        let with = data.evaluate(loss);
        let without = if draws(loss) {
            // The random draws depend on the size of the batch, so the absent samples are moved elsewhere instead.
            let mut moved = data.rows(&(0..data.size()).collect::<Vec<_>>());
            let elsewhere = Data::random(loss, &LABELS, 8, 40 + seed as u64).embeddings;
            moved.embeddings = data.embeddings.index_copy(0, &gone, &elsewhere.index_select(0, &gone));
            let mut outcome = moved.evaluate(loss);
            outcome.grad = outcome.grad.index_select(0, &rows);
            outcome
        } else {
            data.rows(&present).evaluate(loss)
        };
        assert!(difference(&with.loss, &without.loss) < 1e-12, "{absent:?}: {} {}", with.value(), without.value());
        assert!(difference(&with.grad.index_select(0, &rows), &without.grad) < 1e-12, "{absent:?}");
        assert_eq!(with.grad.index_select(0, &gone).abs().max().double_value(&[]), 0.0, "{absent:?}");
        for ((name, with), (_, without)) in with.tensor_grads.iter().zip(&without.tensor_grads) {
            assert!(difference(with, without) < 1e-12, "{absent:?}: gradients of `{name}` differ");
        }
    }
}

/// One sample, one class, classes of one, one pair: finite, with a gradient.
pub(crate) fn small_batches_are_finite_and_connected(loss: &dyn Loss) {
    let batches: [&[i64]; 5] = [&[2], &[1, 1, 1, 1], &[0, 1, 2, 3, 4, 5], &[3, 3], &[0, 0, 1]];
    for labels in batches {
        for weighted in [false, true] {
            let mut data = Data::random(loss, labels, 8, 8);
            if weighted {
                data = data.with_random_weights(8);
            }
            let outcome = data.evaluate(loss);
            assert!(all_finite(&outcome.loss) && all_finite(&outcome.grad), "{labels:?}");
            assert_eq!(outcome.grad.size(), data.embeddings.size(), "{labels:?}");
        }
    }
}

/// S = ±1 within and across classes, in both precisions.
pub(crate) fn equal_and_opposite_embeddings_are_finite(loss: &dyn Loss) {
    for kind in [Kind::Float, Kind::Double] {
        let mut data = Data::random(loss, &[0, 0, 0, 1, 1, 1, 2, 2], 8, 9).to_kind(kind);
        let one = data.embeddings.get(0);
        let opposite = -&one;
        let rows = [&one, &one, &opposite, &one, &opposite, &one, &opposite, &opposite];
        data.embeddings = Tensor::stack(&rows, 0);
        let outcome = data.evaluate(loss);
        assert!(all_finite(&outcome.loss) && all_finite(&outcome.grad), "{kind:?}");
        outcome.tensor_grads.iter().for_each(|(name, grad)| assert!(all_finite(grad), "{name} {kind:?}"));
    }
}

/// The engine passes unit vectors, but `curricle probe loss` takes any.
pub(crate) fn long_embeddings_are_finite(loss: &dyn Loss) {
    for (kind, length) in [(Kind::Float, 30.0), (Kind::Double, 30.0), (Kind::Double, 0.01)] {
        let mut data = Data::random(loss, &[0, 0, 0, 1, 1, 1, 2, 2], 8, 11).to_kind(kind);
        data.embeddings *= length;
        let outcome = data.evaluate(loss);
        assert!(all_finite(&outcome.loss) && all_finite(&outcome.grad), "{kind:?} {length}");
        outcome.tensor_grads.iter().for_each(|(name, grad)| assert!(all_finite(grad), "{name} {kind:?} {length}"));
    }
}

/// A batch of one sample drawn several times has no pairs.
pub(crate) fn a_repeated_sample_is_not_a_pair(loss: &dyn Loss) {
    let data = Data::random(loss, &[1, 1, 1], 8, 10);
    let mut repeated = data.rows(&[0, 0, 0]);
    let together = repeated.evaluate(loss);
    assert!(all_finite(&together.loss) && all_finite(&together.grad));
    if data.tensors.iter().any(|(name, _)| name == "proxies") {
        return;
    }
    // Without proxies, only pairs have a loss, and there are none.
    let alone = data.rows(&[0]).evaluate(loss);
    assert!(difference(&together.loss, &alone.loss) < 1e-12);
    // As different samples they are positives of each other, also if opposite.
    repeated.ids = data.ids.shallow_clone();
    repeated.embeddings = Tensor::stack(&[data.embeddings.get(0), -data.embeddings.get(0), data.embeddings.get(1)], 0);
    assert!(all_finite(&repeated.evaluate(loss).grad));
}

/// f32 close to f64; f16 and bf16 exactly f32 on the same rounded numbers.
pub(crate) fn precisions_agree(loss: &dyn Loss) {
    let data = Data::random(loss, &LABELS, 8, 11).with_random_weights(11);
    let double = data.evaluate(loss);
    let single = data.to_kind(Kind::Float);
    let outcome = single.evaluate(loss);
    assert_eq!(outcome.loss.kind(), Kind::Float);
    assert!(difference(&outcome.loss, &double.loss) < 1e-4);
    assert!(difference(&outcome.grad, &double.grad) < 1e-3);
    for half in [Kind::Half, Kind::BFloat16] {
        let mut rounded = single.rows(&(0..data.size()).collect::<Vec<_>>());
        rounded.embeddings = single.embeddings.to_kind(half);
        let ours = rounded.evaluate(loss);
        assert_eq!((ours.loss.kind(), ours.grad.kind()), (Kind::Float, half));
        rounded.embeddings = rounded.embeddings.to_kind(Kind::Float);
        let reference = rounded.evaluate(loss);
        assert!(difference(&ours.loss, &reference.loss) < 1e-6);
        assert!(difference(&ours.grad, &reference.grad) < 1e-2);
    }
}
