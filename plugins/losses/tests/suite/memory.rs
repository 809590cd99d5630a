//! Cross-batch memory.

use crate::common::{Data, difference, make};
use curricle_losses::{Circle, Contrastive, MultiSimilarity};
use curricle_sdk::{Batch, Loss, StepInfo};
use serde_json::{Value, json};
use tch::{Kind, Tensor};

/// Losses that can have a memory; `memory` is added to their settings.
fn losses(memory: &Value) -> Vec<(Value, Box<dyn Loss>)> {
    [
        ("ms", json!({"epsilon": 0.3})),
        ("contrastive", json!({})),
        ("contrastive", json!({"distance": "euclidean"})),
        ("circle", json!({"gamma": 10.0})),
    ]
    .into_iter()
    .map(|(name, mut settings)| {
        settings["memory"] = memory.clone();
        let loss = make(name, &settings);
        (json!([name, settings]), loss)
    })
    .collect()
}

const LABELS: [i64; 6] = [0, 0, 1, 1, 2, 2];

/// Step `step` of a training run: six samples with their own ids.
fn step(loss: &dyn Loss, step: u64) -> Data {
    let mut data = Data::random(loss, &LABELS, 5, 50 + step).with_random_weights(50 + step);
    data.ids += 6 * step as i64;
    data.info = StepInfo { global_step: step, ..StepInfo::default() };
    data
}

/// The last of `steps` batches, with the state that the others have left.
fn last(loss: &dyn Loss, steps: u64, change: impl Fn(&mut Data)) -> Data {
    let mut state = Data::random(loss, &LABELS, 5, 0).tensors;
    for index in 0.. {
        let mut data = Data { tensors: state, ..step(loss, index) };
        change(&mut data);
        if index + 1 == steps {
            return data;
        }
        state = data.evaluate(loss).state;
    }
    unreachable!("the loop returns")
}

fn of<'a>(data: &'a Data, name: &str) -> &'a Tensor {
    &data.tensors.iter().find(|(n, _)| n == name).unwrap().1
}

#[test]
fn a_memory_of_size_zero_and_one_that_warms_up_change_nothing() {
    let sizes = [json!({"size": 0}), json!({"size": 20, "warm_up": 3})];
    for memory in sizes {
        for ((_, plain), (what, loss)) in losses(&json!({})).into_iter().zip(losses(&memory)) {
            let data = last(&*loss, 3, |_| ());
            let (expected, ours) = (last(&*plain, 3, |_| ()).evaluate(&*plain), data.evaluate(&*loss));
            assert_eq!(ours.loss, expected.loss, "{what}");
            assert_eq!(ours.grad, expected.grad, "{what}");
            if !data.tensors.is_empty() {
                assert_eq!(of(&data, "memory_weights").sum(Kind::Double).double_value(&[]), 0.0, "{what}");
            }
        }
    }
}

#[test]
fn an_empty_memory_changes_nothing() {
    for ((_, plain), (what, loss)) in losses(&json!({})).into_iter().zip(losses(&json!({"size": 20}))) {
        let (expected, ours) = (last(&*plain, 1, |_| ()).evaluate(&*plain), last(&*loss, 1, |_| ()).evaluate(&*loss));
        assert!(difference(&ours.loss, &expected.loss) < 1e-14, "{what}");
        assert!(difference(&ours.grad, &expected.grad) < 1e-14, "{what}");
    }
}

#[test]
fn the_memory_holds_the_last_rows_in_a_ring() {
    for (what, loss) in losses(&json!({"size": 8})) {
        let data = last(&*loss, 4, |_| ());
        // Steps 0, 1 and 2 wrote the ids 0 to 17; the last 8 stay, each at its number modulo 8.
        assert_eq!(Vec::<i64>::try_from(of(&data, "memory_ids")).unwrap(), [16, 17, 10, 11, 12, 13, 14, 15], "{what}");
        assert_eq!(of(&data, "memory_position").int64_value(&[0]), 2, "{what}");
        let row = of(&data, "memory_embeddings").get(1);
        assert_eq!(row, step(&*loss, 2).embeddings.get(5), "{what}");
        assert_eq!(of(&data, "memory_labels").int64_value(&[1]), 2, "{what}");
    }
    for (what, loss) in losses(&json!({"size": 4})) {
        // A batch of six leaves its last four.
        let data = last(&*loss, 2, |_| ());
        assert_eq!(Vec::<i64>::try_from(of(&data, "memory_ids")).unwrap(), [2, 3, 4, 5], "{what}");
    }
}

#[test]
fn stored_samples_of_weight_zero_are_absent() {
    for (what, loss) in losses(&json!({"size": 12})) {
        let weights = Tensor::from_slice(&[1.0, 0.0, 0.5, 1.0, 0.0, 0.7]);
        let with = last(&*loss, 3, |data| data.weights = Some(weights.shallow_clone())).evaluate(&*loss);
        let present = Tensor::from_slice(&[0i64, 2, 3, 5]);
        let without = last(&*loss, 3, |data| {
            let mut fewer = data.rows(&[0, 2, 3, 5]);
            fewer.weights = Some(weights.index_select(0, &present));
            *data = fewer;
        });
        let without = without.evaluate(&*loss);
        assert!(difference(&with.loss, &without.loss) < 1e-12, "{what}");
        assert!(difference(&with.grad.index_select(0, &present), &without.grad) < 1e-12, "{what}");
    }
}

#[test]
fn a_stored_copy_of_a_sample_is_not_a_pair_with_it() {
    for (what, loss) in losses(&json!({"size": 12})) {
        // The same six samples again, the stored copies elsewhere on the sphere.
        let again = |other: bool| {
            let mut data = last(&*loss, 2, |data| data.ids = data.ids.remainder(6));
            let kept = of(&data, "memory_ids").ne(3).to_kind(Kind::Double).unsqueeze(1);
            let moved = of(&data, "memory_embeddings") * &kept + (1.0 - kept) * if other { 0.3 } else { -0.3 };
            data.tensors.iter_mut().find(|(name, _)| name == "memory_embeddings").unwrap().1 = moved;
            // Only sample 3 is an anchor, so its own copy is the only one that moves.
            data.rows(&[3])
        };
        let (one, other) = (again(false).evaluate(&*loss), again(true).evaluate(&*loss));
        assert!(one.value() > 0.0, "{what}");
        assert_eq!(one.loss, other.loss, "{what}");
    }
}

/// Compares `forward` and `reference` with a memory that holds samples of weight 0, and is full or not.
fn equals_the_reference(loss: &dyn Loss, reference: impl Fn(&Batch) -> Tensor) {
    for steps in [2, 5] {
        let data = last(loss, steps, |data| {
            data.weights = data.weights.as_ref().map(|weights| weights * weights.gt(0.3));
        });
        let (fast, expected) = (data.evaluate(loss), data.differentiate(3, &reference));
        assert!(expected.value() > 0.0);
        assert!(difference(&fast.loss, &expected.loss) < 1e-10, "{} {}", fast.value(), expected.value());
        assert!(difference(&fast.grad, &expected.grad) < 1e-10);
    }
}

#[test]
fn losses_with_memory_equal_their_references() {
    let settings = |more: Value| {
        let mut settings = json!({"memory": {"size": 16}});
        more.as_object().unwrap().iter().for_each(|(key, value)| settings[key] = value.clone());
        settings
    };
    let ms: MultiSimilarity = serde_json::from_value(settings(json!({}))).unwrap();
    equals_the_reference(&ms, |batch| ms.reference(batch));
    let circle: Circle = serde_json::from_value(settings(json!({"gamma": 10.0}))).unwrap();
    equals_the_reference(&circle, |batch| circle.reference(batch));
    for distance in ["cosine", "euclidean"] {
        let contrastive: Contrastive = serde_json::from_value(settings(json!({"distance": distance}))).unwrap();
        equals_the_reference(&contrastive, |batch| contrastive.reference(batch));
    }
}
