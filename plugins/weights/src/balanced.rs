//! `balanced_self_paced`: BSPML, self-paced weights that keep the classes balanced.
//!
//! After each θ-phase the weights minimise the objective of [`crate::problem`]: hard pairs raise it,
//! λ rewards every weight, and μ penalises differences between the average weights of classes, so
//! that no class is dropped because it is hard. With `mu = 0` this is SPMS. Each round starts from the
//! weights of the last one.

use crate::classes::Classes;
use crate::clean_share::{self, smallest_clean_share};
use crate::problem::WeightProblem;
use crate::schedule::{First, Lambda, Limit, TargetMaw};
use crate::solver::Solver;
use crate::target::lambda_for_maw;
use crate::xi::{Xi, XiConstants, embeddings, xi};
use curricle_sdk::LossInfo;
use curricle_sdk::prelude::*;

/// Balanced self-paced weights.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BalancedSelfPaced {
    /// Age λ: how hard a sample may be and still be used. Give `target_maw`, which fits λ_∞ to the
    /// data in every round, or `max`.
    pub lambda: Lambda,
    /// Weights of the first epoch.
    pub first: First,
    /// Strength μ of the balance between the classes' average weights; 0 is SPMS. Default: λ_∞.
    #[schemars(range(min = 0.0))]
    pub mu: Option<f64>,
    /// Sharpness α of the log-sum over positives in ξ⁺. Default: the loss's `alpha`, or 2.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub alpha: Option<f64>,
    /// Sharpness β of the log-sum over negatives in ξ⁻. Default: the loss's `beta`, or 50.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub beta: Option<f64>,
    /// Similarity ρ at which a pair starts to count as hard. Default: the loss's `rho`, or 0.5.
    pub rho: Option<f64>,
    /// Solver that computes the weights.
    pub solver: Solver,
}

impl WeightScheme for BalancedSelfPaced {
    fn update(&self, round: &Round) -> Result<WeightUpdate> {
        let classes = Classes::new(round.labels);
        let constants = XiConstants::choose(self.alpha, self.beta, self.rho, &round.loss);
        let embeddings = embeddings(round)?;
        let xi = xi(embeddings, &classes, &constants)?;
        let problem_at = |lambda: f64, max: f64| WeightProblem {
            classes: &classes,
            xi_pos: &xi.pos,
            xi_neg: &xi.neg,
            lambda,
            mu: self.mu.unwrap_or(max),
        };

        let fitted = |maw: f64| lambda_for_maw(|l| problem_at(l, l), maw, round.weights, round.seed, round.round);
        let (max, clean) = match (self.lambda.limit, round.age) {
            (Limit::Given { max, .. }, _) => (max, None),
            (Limit::Target(_), Some(age)) => (age, None),
            (Limit::Target(TargetMaw::Share(maw)), None) => (fitted(maw), None),
            (Limit::Target(TargetMaw::Estimated), None) => {
                let clean = smallest_clean_share(round, embeddings, &classes)?;
                (fitted(clean), Some(clean))
            }
        };
        let lambda = round.age.unwrap_or_else(|| self.lambda.in_round(round, self.first, max));
        let problem = problem_at(lambda, max);
        let solution = self.solver.solve(&problem, round.weights, round.seed, round.round);

        let weights = solution.weights;
        let (maw, sdaw) = classes.maw_sdaw(&weights);
        let mut scalars = vec![
            ("lambda".to_string(), lambda),
            ("lambda_max".to_string(), max),
            ("mu".to_string(), problem.mu),
            ("objective_before".to_string(), problem.objective(round.weights)),
            ("objective".to_string(), problem.objective(&weights)),
            ("maw".to_string(), maw),
            ("sdaw".to_string(), sdaw),
            ("projected_gradient".to_string(), problem.projected_gradient(&weights)),
            (self.solver.unit().to_string(), solution.sweeps as f64),
        ];
        scalars.extend(clean.map(|share| ("estimated_clean".to_string(), share)));
        scalars.extend(xi.means());
        let gradient = problem.gradient(&weights);
        let Xi { pos, neg } = xi;
        let columns = vec![("xi_pos".into(), pos), ("xi_neg".into(), neg), ("gradient".into(), gradient)];
        Ok(WeightUpdate { weights, scalars, columns })
    }

    fn tensors(&self, _shape: &Shape) -> Vec<TensorSpec> {
        let estimates = self.lambda.limit == Limit::Target(TargetMaw::Estimated);
        estimates.then(clean_share::memory).into_iter().collect()
    }

    fn before_training(&self) -> bool {
        self.first == First::Embeddings
    }

    fn check(&self) -> Result<()> {
        self.lambda.check()?;
        if self.mu.is_some_and(|mu| !(mu >= 0.0 && mu.is_finite())) {
            return Err(Error::setting("mu", "must be 0 or more"));
        }
        XiConstants::check(self.alpha, self.beta, self.rho)?;
        self.solver.check()
    }

    fn advice(&self, data: &DataFacts, loss: &LossInfo) -> Vec<Advice> {
        let mut advice: Vec<_> =
            XiConstants::choose(self.alpha, self.beta, self.rho, loss).advice().into_iter().collect();
        let singles = data.class_sizes.iter().filter(|&&size| size == 1).count();
        if singles > 0 {
            let classes = if singles == 1 { "1 class has".into() } else { format!("{singles} classes have") };
            let message = format!("{classes} a single sample, so no positive pair shows whether its label is right");
            advice.push(Advice::new("", message));
        }
        advice
    }
}

register_weights!(
    "balanced_self_paced",
    BalancedSelfPaced,
    "easy samples first, classes balanced (BSPML; `mu = 0` is SPMS)"
);

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use curricle_sdk::rng::stream;
    use rand::RngExt;
    use serde_json::{Value, json};

    /// A round with a loss without settings and `age` unset.
    pub(crate) fn round<'a>(
        embeddings: Option<&'a Tensor>,
        labels: &'a [i64],
        weights: &'a [f64],
        tensors: &'a Tensors,
    ) -> Round<'a> {
        static NOTHING: Value = Value::Null;
        let loss = LossInfo { name: "none", settings: &NOTHING };
        Round { rounds: 10, seed: 1, embeddings, ..Round::new(labels, weights, tensors, loss) }
    }

    /// Ten clusters of thirty samples on the sphere, every fifth sample mislabelled.
    pub(crate) fn noisy_clusters() -> (Tensor, Vec<i64>, Vec<bool>) {
        let (clusters, each, size) = (10i64, 30i64, 16);
        let mut rng = stream(5, "test", 0, 0);
        let mut normal = || (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
        let centres: Vec<f64> = (0..clusters * size).map(|_| normal()).collect();
        let mut values = Vec::new();
        let (mut labels, mut flipped) = (Vec::new(), Vec::new());
        for i in 0..clusters * each {
            let cluster = i % clusters;
            values.extend((0..size).map(|d| centres[(cluster * size + d) as usize] + 0.5 * normal()));
            flipped.push((i / clusters) % 5 == 0);
            labels.push(if flipped[i as usize] { (cluster + 1 + i % 7) % clusters } else { cluster });
        }
        let rows = Tensor::from_slice(&values).view([clusters * each, size]);
        let rows = &rows / rows.norm_scalaropt_dim(2.0, [1i64].as_slice(), true);
        (rows.to_kind(Kind::Float), labels, flipped)
    }

    fn scalar(update: &WeightUpdate, name: &str) -> f64 {
        update.scalars.iter().find(|(n, _)| n == name).unwrap().1
    }

    #[test]
    fn flipped_samples_get_low_weights() {
        let (embeddings, labels, flipped) = noisy_clusters();
        let tensors = crate::clean_share::fresh();
        let weights = vec![1.0; labels.len()];
        for solver in [json!({ "name": "exact" }), json!({ "name": "doubly_stochastic" })] {
            let scheme: BalancedSelfPaced = serde_json::from_value(json!({ "solver": solver })).unwrap();
            let mut r = round(Some(&embeddings), &labels, &weights, &tensors);
            r.round = 9;
            let update = scheme.update(&r).unwrap();
            let mut wins = 0.0;
            let (mut clean, mut noisy) = (0, 0);
            for (a, &wrong) in flipped.iter().enumerate() {
                if wrong {
                    noisy += 1;
                } else {
                    clean += 1;
                }
                for (b, _) in flipped.iter().enumerate().filter(|(_, other)| wrong && !**other) {
                    let (low, high) = (update.weights[a], update.weights[b]);
                    wins += if low < high {
                        1.0
                    } else if low == high {
                        0.5
                    } else {
                        0.0
                    };
                }
            }
            let auroc = wins / f64::from(clean * noisy);
            assert!(auroc > 0.9, "{auroc} with {:?}", scheme.solver);
            assert!(scalar(&update, "objective") < scalar(&update, "objective_before"));
        }
    }

    #[test]
    fn the_final_lambda_meets_the_target_and_the_first_stays_below() {
        let (embeddings, labels, _) = noisy_clusters();
        let tensors = crate::clean_share::fresh();
        let weights = vec![1.0; labels.len()];
        let mut r = round(Some(&embeddings), &labels, &weights, &tensors);
        let lambda = Lambda { limit: Limit::Target(TargetMaw::Share(0.8)), ..Lambda::default() };
        let scheme = BalancedSelfPaced { lambda, ..BalancedSelfPaced::default() };
        let first = scheme.update(&r).unwrap();
        r.round = 9;
        let last = scheme.update(&r).unwrap();
        assert!((scalar(&last, "maw") - 0.8).abs() < 0.01, "{}", scalar(&last, "maw"));
        assert!((scalar(&last, "lambda") - scalar(&last, "lambda_max")).abs() < 1e-12);
        assert_eq!(scalar(&last, "mu"), scalar(&last, "lambda_max"));
        assert!(scalar(&first, "maw") < 0.6, "{}", scalar(&first, "maw"));
        assert!(scalar(&last, "projected_gradient") < 1e-8);
    }

    #[test]
    fn the_estimated_target_is_logged_and_met_and_the_first_weights_may_come_before_training() {
        let (embeddings, labels, flipped) = noisy_clusters();
        let tensors = crate::clean_share::fresh();
        let weights = vec![1.0; labels.len()];
        let table = json!({ "lambda": { "target_maw": "estimated", "reached": 0.0 }, "first": "embeddings" });
        let scheme: BalancedSelfPaced = serde_json::from_value(table).unwrap();
        assert!(scheme.before_training() && !BalancedSelfPaced::default().before_training());
        let mut r = round(Some(&embeddings), &labels, &weights, &tensors);
        r.round = 0;
        let update = scheme.update(&r).unwrap();
        let truth = flipped.iter().filter(|f| !**f).count() as f64 / flipped.len() as f64;
        let estimate = scalar(&update, "estimated_clean");
        assert!((estimate - truth).abs() < 0.05, "{estimate} for {truth}");
        assert!((scalar(&update, "maw") - estimate).abs() < 0.01, "{}", scalar(&update, "maw"));
    }

    #[test]
    fn degenerate_training_sets_give_finite_weights() {
        let tensors = crate::clean_share::fresh();
        for labels in [vec![0], vec![0, 1, 2], vec![4, 4, 4], vec![0, 0, 0, 1]] {
            for start in [0.0, 1.0] {
                for mu in [json!(null), json!(0.0), json!(1e-300), json!(1e6)] {
                    for solver in [json!({ "name": "exact" }), json!({ "name": "doubly_stochastic" })] {
                        let embeddings = Tensor::eye(8, (Kind::Float, Device::Cpu)).narrow(0, 0, labels.len() as i64);
                        let weights = vec![start; labels.len()];
                        let scheme: BalancedSelfPaced =
                            serde_json::from_value(json!({ "mu": mu, "solver": solver })).unwrap();
                        let update = scheme.update(&round(Some(&embeddings), &labels, &weights, &tensors)).unwrap();
                        assert!(update.weights.iter().all(|w| (0.0..=1.0).contains(w)), "{update:?}");
                        assert!(update.scalars.iter().all(|(_, v)| v.is_finite()), "{update:?}");
                        assert!(update.columns.iter().all(|(_, c)| c.iter().all(|v| v.is_finite())), "{update:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_given_age_overrides_the_schedule() {
        let (embeddings, labels, _) = noisy_clusters();
        let tensors = crate::clean_share::fresh();
        let weights = vec![1.0; labels.len()];
        let mut r = round(Some(&embeddings), &labels, &weights, &tensors);
        r.age = Some(1.25);
        let update = BalancedSelfPaced { mu: Some(0.5), ..Default::default() }.update(&r).unwrap();
        assert_eq!((scalar(&update, "lambda"), scalar(&update, "mu")), (1.25, 0.5));
    }

    #[test]
    fn constants_come_from_a_loss_that_has_all_three() {
        let settings = json!({ "alpha": 3.0, "beta": 40.0, "rho": 0.7 });
        let chosen = XiConstants::choose(None, Some(30.0), None, &LossInfo { name: "ms", settings: &settings });
        assert_eq!(chosen, XiConstants { alpha: 3.0, beta: 30.0, rho: 0.7 });
        // Another loss's `alpha` and `beta` mean other things.
        let settings = json!({ "alpha": 32.0, "delta": 0.1 });
        let chosen = XiConstants::choose(None, None, None, &LossInfo { name: "proxy_anchor", settings: &settings });
        assert_eq!(chosen, XiConstants { alpha: 2.0, beta: 50.0, rho: 0.5 });
    }

    #[test]
    fn embeddings_that_are_not_finite_are_refused_with_the_sample() {
        let embeddings = Tensor::from_slice(&[1.0f32, 0.0, f32::NAN, 0.0, 0.0, 1.0]).view([3, 2]);
        let tensors = crate::clean_share::fresh();
        let error = BalancedSelfPaced::default().update(&round(Some(&embeddings), &[0, 0, 1], &[1.0; 3], &tensors));
        assert!(error.unwrap_err().to_string().contains("embedding of sample 1"));
    }

    #[test]
    fn the_schema_names_solvers_and_fills_in_defaults() {
        let component = curricle_sdk::registered().into_iter().find(|c| c.name == "balanced_self_paced").unwrap();
        let schema = component.factory.schema();
        let properties = &schema["properties"];
        assert_eq!(properties["lambda"]["default"], json!({ "target_maw": "estimated", "reached": 0.5 }));
        assert_eq!(properties["solver"]["default"]["name"], "exact");
        assert_eq!(properties["solver"]["oneOf"][1]["properties"]["name"]["const"], "doubly_stochastic");
        assert!(component.factory.weights(&json!({})).is_ok());
        let refused = component.factory.weights(&json!({ "mu": -1.0 })).err().unwrap().to_string();
        assert!(refused.contains("`mu`"), "{refused}");
    }
}
