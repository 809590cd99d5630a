//! `self_paced`: drops every sample that is harder than λ.
//!
//! Classic self-paced learning (Kumar, Packer and Koller, 2010) with the difficulty of each sample
//! `ℓ_a = ξ⁺_a + ξ⁻_a` over the whole training set: minimise `Σ_a w_a (ℓ_a - λ)`, so `w_a = 1` if
//! `ℓ_a < λ`, else 0. Nothing couples the samples: a hard class may lose all of its samples.
//!
//! Difficulties are close together and far from 0: half of a good λ usually keeps no samples. With
//! `target_maw`, therefore, the average weight grows, from half the target, and λ follows from it.

use crate::classes::Classes;
use crate::clean_share::{self, smallest_clean_share};
use crate::schedule::{First, Lambda, Limit, TargetMaw};
use crate::xi::{Xi, XiConstants, embeddings, xi};
use curricle_sdk::LossInfo;
use curricle_sdk::prelude::*;

/// Hard self-paced weights.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SelfPaced {
    /// Age λ: samples harder than this are dropped. In units of ξ⁺+ξ⁻.
    pub lambda: Lambda,
    /// Weights of the first epoch.
    pub first: First,
    /// Sharpness α of the log-sum over positives in ξ⁺. Default: the loss's `alpha`, or 2.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub alpha: Option<f64>,
    /// Sharpness β of the log-sum over negatives in ξ⁻. Default: the loss's `beta`, or 50.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub beta: Option<f64>,
    /// Similarity ρ at which a pair starts to count as hard. Default: the loss's `rho`, or 0.5.
    pub rho: Option<f64>,
}

impl WeightScheme for SelfPaced {
    fn update(&self, round: &Round) -> Result<WeightUpdate> {
        let classes = Classes::new(round.labels);
        let constants = XiConstants::choose(self.alpha, self.beta, self.rho, &round.loss);
        let embeddings = embeddings(round)?;
        let xi = xi(embeddings, &classes, &constants)?;
        let difficulty: Vec<f64> = xi.pos.iter().zip(&xi.neg).map(|(p, n)| p + n).collect();

        let in_round = |max: f64| self.lambda.in_round(round, self.first, max);
        let at = |maw: f64| threshold(&difficulty, &classes, maw);
        let (lambda, max, clean) = match (self.lambda.limit, round.age) {
            (Limit::Given { max, .. }, age) => (age.unwrap_or_else(|| in_round(max)), max, None),
            (Limit::Target(_), Some(age)) => (age, age, None),
            (Limit::Target(TargetMaw::Share(maw)), None) => (at(in_round(maw)), at(maw), None),
            (Limit::Target(TargetMaw::Estimated), None) => {
                let clean = smallest_clean_share(round, embeddings, &classes)?;
                (at(in_round(clean)), at(clean), Some(clean))
            }
        };
        let weights: Vec<f64> = difficulty.iter().map(|&l| if l < lambda { 1.0 } else { 0.0 }).collect();
        if round.age.is_none() && weights.iter().all(|&w| w == 0.0) {
            let easiest = difficulty.iter().copied().fold(f64::INFINITY, f64::min);
            return Err(Error::other(format!(
                "λ = {lambda:.3} leaves no sample to train on, the easiest has difficulty {easiest:.3}; raise \
                 `lambda.start`, or set `lambda.target_maw` instead"
            )));
        }

        let objective = |weights: &[f64]| weights.iter().zip(&difficulty).map(|(w, l)| w * (l - lambda)).sum::<f64>();
        let (maw, sdaw) = classes.maw_sdaw(&weights);
        let mut scalars = vec![
            ("lambda".to_string(), lambda),
            ("lambda_max".to_string(), max),
            ("objective_before".to_string(), objective(round.weights)),
            ("objective".to_string(), objective(&weights)),
            ("maw".to_string(), maw),
            ("sdaw".to_string(), sdaw),
        ];
        scalars.extend(clean.map(|share| ("estimated_clean".to_string(), share)));
        scalars.extend(xi.means());
        let gradient = difficulty.iter().map(|l| l - lambda).collect();
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
        XiConstants::check(self.alpha, self.beta, self.rho)
    }

    fn advice(&self, _data: &DataFacts, loss: &LossInfo) -> Vec<Advice> {
        XiConstants::choose(self.alpha, self.beta, self.rho, loss).advice().into_iter().collect()
    }
}

/// The smallest threshold at which the mean average weight reaches the target.
fn threshold(difficulty: &[f64], classes: &Classes, target: f64) -> f64 {
    let mut order: Vec<usize> = (0..difficulty.len()).collect();
    order.sort_by(|&a, &b| difficulty[a].total_cmp(&difficulty[b]));
    let mut maw = 0.0;
    for &a in &order {
        maw += 1.0 / (classes.count() * classes.size(classes.of(a))) as f64;
        if maw >= target - 1e-12 {
            // Only samples strictly below the threshold are kept, so it is the next larger number.
            return difficulty[a].next_up();
        }
    }
    order.last().map_or(f64::MIN_POSITIVE, |&a| difficulty[a].next_up())
}

register_weights!("self_paced", SelfPaced, "drops every sample that is harder than λ (SPL)");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balanced::tests::{noisy_clusters, round};

    #[test]
    fn easy_samples_are_kept_and_hard_ones_dropped() {
        let (embeddings, labels, _) = noisy_clusters();
        let tensors = crate::clean_share::fresh();
        let weights = vec![1.0; labels.len()];
        let mut r = round(Some(&embeddings), &labels, &weights, &tensors);
        r.age = Some(2.5);
        let update = SelfPaced::default().update(&r).unwrap();
        let column = |name: &str| &update.columns.iter().find(|(n, _)| n == name).unwrap().1;
        let (pos, neg, gradient) = (column("xi_pos"), column("xi_neg"), column("gradient"));
        let mut seen = [false; 2];
        for (a, &w) in update.weights.iter().enumerate() {
            assert_eq!(w == 1.0, pos[a] + neg[a] < 2.5);
            assert!((gradient[a] - (pos[a] + neg[a] - 2.5)).abs() < 1e-12);
            seen[w as usize] = true;
        }
        assert_eq!(seen, [true; 2]);
    }

    #[test]
    fn the_average_weight_grows_from_half_the_target() {
        let lambda = Lambda { limit: Limit::Target(TargetMaw::Share(0.8)), ..Lambda::default() };
        let (embeddings, labels, _) = noisy_clusters();
        let tensors = crate::clean_share::fresh();
        let weights = vec![1.0; labels.len()];
        let update = SelfPaced { lambda, ..SelfPaced::default() }
            .update(&round(Some(&embeddings), &labels, &weights, &tensors))
            .unwrap();
        let maw = Classes::new(&labels).maw_sdaw(&update.weights).0;
        assert!((0.4..0.42).contains(&maw), "{maw}");
    }

    #[test]
    fn a_lambda_that_drops_every_sample_is_refused_unless_given_as_age() {
        let (embeddings, labels, _) = noisy_clusters();
        let tensors = crate::clean_share::fresh();
        let weights = vec![1.0; labels.len()];
        let mut r = round(Some(&embeddings), &labels, &weights, &tensors);
        let scheme: SelfPaced = serde_json::from_value(serde_json::json!({ "lambda": { "max": 0.02 } })).unwrap();
        let message = scheme.update(&r).unwrap_err().to_string();
        assert!(message.contains("leaves no sample"), "{message}");
        r.age = Some(0.02);
        assert_eq!(scheme.update(&r).unwrap().weights, vec![0.0; labels.len()]);
    }

    #[test]
    fn the_target_is_met_when_lambda_stops_growing() {
        let (embeddings, labels, flipped) = noisy_clusters();
        let tensors = crate::clean_share::fresh();
        let weights = vec![1.0; labels.len()];
        let mut r = round(Some(&embeddings), &labels, &weights, &tensors);
        r.round = 9;
        let lambda = Lambda { limit: Limit::Target(TargetMaw::Share(0.8)), ..Lambda::default() };
        let update = SelfPaced { lambda, ..SelfPaced::default() }.update(&r).unwrap();
        let maw = Classes::new(&labels).maw_sdaw(&update.weights).0;
        assert!((0.8..0.83).contains(&maw), "{maw}");
        let kept = |wanted: bool| {
            let chosen: Vec<f64> =
                update.weights.iter().zip(&flipped).filter(|(_, f)| **f == wanted).map(|(w, _)| *w).collect();
            chosen.iter().sum::<f64>() / chosen.len() as f64
        };
        assert!(kept(false) > 0.9 && kept(true) < 0.2, "{} {}", kept(false), kept(true));
    }
}
