//! Comparison with an independent implementation in NumPy, `tests/golden/weights.py`.

use curricle_sdk::rng::stream;
use curricle_weights::classes::Classes;
use curricle_weights::exact;
use curricle_weights::problem::WeightProblem;
use curricle_weights::xi::{XiConstants, xi};
use std::collections::BTreeMap;
use tch::Tensor;

fn furthest(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(f, e)| (f - e).abs()).fold(0.0, f64::max)
}

#[test]
fn results_agree_with_numpy() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/weights.safetensors");
    let all: BTreeMap<String, Tensor> = Tensor::read_safetensors(path).unwrap().into_iter().collect();
    for case in [
        "even.0.0",
        "even.1.5",
        "uneven.0.0",
        "uneven.1.5",
        "one_class.0.0",
        "one_class.1.5",
        "singles.0.0",
        "singles.1.5",
    ] {
        let tensor = |name: &str| &all[&format!("{case}.{name}")];
        let values = |name: &str| Vec::<f64>::try_from(tensor(name)).unwrap();
        let classes = Classes::new(&Vec::<i64>::try_from(tensor("labels")).unwrap());
        let [alpha, beta, rho, lambda, mu] = values("settings")[..] else { panic!("five settings") };
        let weights = values("weights");

        let found = xi(tensor("embeddings"), &classes, &XiConstants { alpha, beta, rho }).unwrap();
        assert!(furthest(&found.pos, &values("xi_pos")) < 1e-12, "{case}");
        assert!(furthest(&found.neg, &values("xi_neg")) < 1e-12, "{case}");

        let problem = WeightProblem { classes: &classes, xi_pos: &found.pos, xi_neg: &found.neg, lambda, mu };
        assert!(furthest(&[problem.objective(&weights)], &values("objective")) < 1e-12, "{case}");
        assert!(furthest(&problem.gradient(&weights), &values("gradient")) < 1e-12, "{case}");
        let (maw, sdaw) = classes.maw_sdaw(&weights);
        assert!(furthest(&[maw, sdaw], &values("maw_sdaw")) < 1e-14, "{case}");

        // Coordinate descent in random order ends in some coordinate-wise minimum; the exact solver,
        // which updates the hardest first, must not end above their mean.
        let solution = exact::solve(&problem, &vec![1.0; weights.len()], 1000, 1e-10, stream(1, "test", 0, 0));
        let value = problem.objective(&solution.weights);
        let others = values("random_order");
        let mean = others.iter().sum::<f64>() / others.len() as f64;
        assert!(value <= mean + 1e-9, "{case}: {value}, in random order {others:?}");
        assert!(problem.projected_gradient(&solution.weights) < 1e-9, "{case}");
    }
}
