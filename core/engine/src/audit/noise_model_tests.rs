use super::*;
use crate::audit::discriminant::Discriminant;
use crate::audit::nearest::Nearest;
use crate::data::split::numbered;
use proptest::prelude::*;
use serde_json::Value;

fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(all) => all.iter().flat_map(numbers).collect(),
        number => vec![number.as_f64().unwrap()],
    }
}

fn close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{a} instead of {b}");
    }
}

/// Where the numbers come from is documented in `tests/golden/audit.py`.
#[test]
fn scores_and_kinds_are_those_of_fitting_again_without_each_sample() {
    let golden: Value = serde_json::from_str(include_str!("../../../../tests/golden/audit.json")).unwrap();
    let labels: Vec<i64> = numbers(&golden["labels"]).iter().map(|label| *label as i64).collect();
    let features = Tensor::from_slice(&numbers(&golden["features"])).view([labels.len() as i64, -1]);
    let classes = golden["classes"].as_u64().unwrap() as usize;
    let fitted = Discriminant::fit(&features, &labels, classes).unwrap();
    let all = Tensor::arange(labels.len() as i64, (Kind::Int64, Device::Cpu));
    let given = Tensor::from_slice(&labels).unsqueeze(1);
    for case in golden["cases"].as_array().unwrap() {
        let scores = fitted.scores(&all, case["shrinkage"].as_f64().unwrap()).unwrap();
        close(&Vec::<f64>::try_from(scores.view(-1)).unwrap(), &numbers(&case["scores"]), 1e-4);
        let exact = Tensor::from_slice(&numbers(&case["scores"])).view([labels.len() as i64, -1]);
        let kinds = kinds(&exact, &given, case["temperature"].as_f64().unwrap()).unwrap();
        close(&kinds.concat(), &numbers(&case["kinds"]), 1e-7);
        close(&[Shares::fit(&kinds).likelihood], &[case["likelihood"].as_f64().unwrap()], 1e-5);
    }
}

/// `each` samples around each of `classes` centres, and the label of every `every`-th one of each class flipped.
fn clusters(classes: i64, each: i64, spread: f64, every: i64, seed: i64) -> (Tensor, Vec<i64>, Vec<bool>) {
    curricle_torch::seed(seed).unwrap();
    let normal = |rows: i64| Tensor::randn([rows, 24], (Kind::Float, Device::Cpu));
    let x = normal(classes).repeat([each, 1]) + spread * normal(classes * each);
    let flipped = |i: i64| every > 0 && (i / classes - i % classes) % every == 0;
    let flipped: Vec<bool> = (0..classes * each).map(flipped).collect();
    let labels =
        flipped.iter().zip(0..).map(
            |(flip, i): (&bool, i64)| {
                if *flip { (i + 1 + i / classes % (classes - 1)) % classes } else { i % classes }
            },
        );
    (x, labels.collect(), flipped)
}

fn judged(x: &Tensor, labels: &[i64], classes: usize) -> (NoiseEstimate, Vec<Judgement>) {
    let sizes = (0..classes as i64).map(|c| labels.iter().filter(|label| **label == c).count()).collect::<Vec<_>>();
    let (discriminant, nearest) = (Discriminant::fit(x, labels, classes).unwrap(), Nearest::search(x, None).unwrap());
    judge(&ClassScores { discriminant: &discriminant, nearest: &nearest, labels, sizes: &sizes }).unwrap()
}

#[test]
fn the_number_of_wrong_labels_is_estimated_and_they_come_first() {
    for (every, wrong) in [(0, 0.0), (20, 30.0), (5, 120.0)] {
        let (x, labels, flipped) = clusters(10, 60, 0.7, every, 1);
        let (estimate, judgements) = judged(&x, &labels, 10);
        assert!((estimate.wrong - wrong).abs() < 6.0 + 0.1 * wrong, "{estimate:?} for {wrong}");
        let mut order: Vec<usize> = (0..labels.len()).collect();
        order.sort_by(|&a, &b| judgements[b].log_odds.total_cmp(&judgements[a].log_odds));
        let found = order[..wrong as usize].iter().filter(|&&i| flipped[i]).count() as f64;
        assert!(found >= 0.9 * wrong, "{found} of {wrong}");
    }
}

#[test]
fn classes_of_several_groups_are_judged_by_their_nearest_samples() {
    // Each of 4 classes is 4 groups, so that the mean of a class is nowhere near its samples.
    let (x, groups, _) = clusters(16, 30, 0.4, 0, 3);
    let wrong = |i: usize| i.is_multiple_of(11);
    let labels: Vec<i64> = (0..).zip(&groups).map(|(i, group)| (group + i64::from(wrong(i))) % 4).collect();
    let (estimate, judgements) = judged(&x, &labels, 4);
    let all = (0..labels.len()).filter(|&i| wrong(i)).count();
    assert!(estimate.density > 0.0 && (estimate.wrong - all as f64).abs() < 10.0, "{estimate:?} for {all}");
    let found = (0..labels.len()).filter(|&i| wrong(i) && judgements[i].wrong > 0.5).count();
    assert!(found * 10 >= all * 9, "{found} of {all}");
}

#[test]
fn the_only_sample_of_a_class_is_not_judged() {
    let (x, mut labels, _) = clusters(3, 20, 0.5, 0, 2);
    labels[5] = 3;
    let (estimate, judgements) = judged(&x, &labels, 5);
    assert_eq!(estimate.judged, 59);
    assert!(judgements[5].wrong == 0.0 && judgements[5].others.is_empty());
    assert!(judgements.iter().all(|j| j.wrong.is_finite() && j.distance.is_finite()));
}

#[test]
fn two_identical_classes_and_identical_samples_give_finite_numbers() {
    let split = numbered(&[0, 0, 1, 1]);
    let (_, judgements) = judged(&Tensor::ones([4, 3], (Kind::Float, Device::Cpu)), &split.labels, 2);
    assert!(judgements.iter().all(|j| (0.0..=1.0).contains(&j.wrong) && !j.log_odds.is_nan()), "{judgements:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Neither the order of samples nor the numbering of classes matters, and probabilities are probabilities.
    #[test]
    fn order_and_class_numbers_do_not_matter(seed in 0i64..1000, shift in 1i64..4) {
        let (x, labels, _) = clusters(4, 12, 1.0, 6, seed);
        let (estimate, judgements) = judged(&x, &labels, 4);
        let renamed: Vec<i64> = labels.iter().rev().map(|label| (label + shift) % 4).collect();
        let (again, reversed) = judged(&x.flip([0i64].as_slice()), &renamed, 4);
        prop_assert!((estimate.wrong - again.wrong).abs() < 0.05, "{estimate:?} {again:?}");
        for (a, b) in judgements.iter().zip(reversed.iter().rev()) {
            prop_assert!((a.wrong - b.wrong).abs() < 1e-2, "{a:?} {b:?}");
            let others: f64 = a.others.iter().map(|other| other.1).sum();
            // All three other classes are listed.
            prop_assert!((others - a.wrong).abs() < 1e-6, "{a:?}");
        }
    }
}
