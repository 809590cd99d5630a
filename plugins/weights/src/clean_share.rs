//! The share of correctly labelled samples, estimated without knowing the noise.
//!
//! For each sample, the classes are ranked by the mean similarity of their samples to it; the sample
//! itself does not count in its own class. A correctly labelled sample finds its class near the top. A
//! wrong label says nothing about the sample, so its class is equally likely at every rank but the
//! first, which the true class takes. The lower half of the ranks therefore holds wrong labels alone,
//! and about half of them: the share of wrong labels is the share of samples whose class is in the
//! lower half, divided by the chance of a wrong label to be there. (The same idea gives the share of
//! true null hypotheses from p-values: Storey, 2002.)
//!
//! It needs neither a shape of the difficulties nor a threshold, unlike a mixture of two normal or beta
//! distributions of ξ⁺+ξ⁻ or Otsu's threshold, which split off a second component even where there is
//! none. It is off where its assumptions fail: too low for a network that ranks true classes in
//! the lower half (an untrained one), too high for one that has learnt the wrong labels by heart, and
//! for noise that prefers similar classes. It costs a product of `[N, D]` and `[D, C]`, which is little
//! beside ξ.
//!
//! A scheme that follows the estimate upwards feeds its error: a few wrong labels that are learnt raise
//! the estimate, which lets in more of them. So from the first epoch on the smallest estimate of the run
//! counts. A network that learns finds more true classes, not fewer, so the price is small: some points
//! of correct samples that the network of the first epoch ranks low.

use crate::class_sums::class_sums;
use crate::classes::Classes;
use curricle_sdk::mm;
use curricle_sdk::prelude::*;

/// Rows of the product that are in memory at a time.
const TILE: i64 = 4096;
/// The lowest answer: with fewer correct labels there is nothing to learn, and no sample would be used.
const LOWEST: f64 = 0.1;

/// The name of the tensor that holds the smallest estimate of a run.
const SMALLEST: &str = "smallest_clean_share";

/// What [`smallest_clean_share`] needs to remember between rounds.
pub fn memory() -> TensorSpec {
    TensorSpec::state(SMALLEST, [1], Init::Constant(1.0)).kind(Kind::Double)
}

/// The smallest [`clean_share`] of this round and the earlier ones. Round 0, before training, is not
/// remembered: an untrained network underestimates.
pub fn smallest_clean_share(round: &Round, embeddings: &Tensor, classes: &Classes) -> Result<f64> {
    let share = clean_share(embeddings, classes)?;
    if round.round == 0 {
        return Ok(share);
    }
    let memory = round.tensors.get(SMALLEST);
    let share = share.min(memory.double_value(&[0]));
    let _ = memory.shallow_clone().fill_(share);
    Ok(share)
}

/// The estimated share of samples with a correct label, between 0.1 and 1.
///
/// `embeddings` are `[N, D]` in the order of `classes`. Samples that are the only one of their class
/// do not count; if no others exist, or just one class, the answer is 1.
pub fn clean_share(embeddings: &Tensor, classes: &Classes) -> Result<f64> {
    let count = classes.count();
    let counted = (0..count).map(|c| classes.size(c)).filter(|&size| size > 1).sum::<usize>();
    if count < 2 || counted == 0 {
        return Ok(1.0);
    }
    let half = count.div_ceil(2);
    let low = tch::no_grad(|| samples_ranked_below(embeddings, classes, half as i64))?;
    let chance = (count - half) as f64 / (count - 1) as f64;
    Ok((1.0 - low / counted as f64 / chance).max(LOWEST))
}

/// The memory as it is before the first round, for tests of the schemes.
#[cfg(test)]
pub fn fresh() -> curricle_sdk::Tensors {
    let mut tensors = curricle_sdk::Tensors::default();
    tensors.insert(SMALLEST, Tensor::ones([1], (Kind::Double, tch::Device::Cpu)));
    tensors
}

/// The number of samples for which at least `limit` classes are more similar than their own.
fn samples_ranked_below(embeddings: &Tensor, classes: &Classes, limit: i64) -> Result<f64> {
    let device = embeddings.device();
    let kind = if embeddings.kind() == Kind::Double { Kind::Double } else { Kind::Float };
    let rows = embeddings.to_kind(kind);
    let ids: Vec<i64> = classes.ids().iter().map(|&c| c as i64).collect();
    let ids = Tensor::from_slice(&ids).to_device(device);
    let sizes: Vec<f64> = (0..classes.count()).map(|c| classes.size(c) as f64).collect();
    let sizes = Tensor::from_slice(&sizes).to_kind(kind).to_device(device);
    let totals = class_sums(&rows, &ids, classes.count() as i64);
    let means = (&totals / sizes.unsqueeze(1)).tr();
    let mut low = Tensor::zeros([], (Kind::Int64, device));
    for top in (0..rows.size()[0]).step_by(TILE as usize) {
        let height = TILE.min(rows.size()[0] - top);
        let (x, own) = (rows.narrow(0, top, height), ids.narrow(0, top, height));
        let similarity = mm(&x, &means);
        // The mean over the other samples of the class; for the only one of a class a number above all others.
        let others = sizes.index_select(0, &own) - 1.0;
        let sum = (&x * (totals.index_select(0, &own) - &x)).sum_dim_intlist([1i64].as_slice(), false, None);
        let own_mean =
            (&sum / others.clamp_min(1.0)).where_self(&others.gt(0.0), &similarity.amax([1i64].as_slice(), false));
        let above = similarity.gt_tensor(&own_mean.unsqueeze(1));
        // Whether the mean with the sample itself is above the one without is not counted.
        let above = above.scatter(1, &own.unsqueeze(1), &above.new_zeros([height, 1], (Kind::Bool, device)));
        let rank = above.sum_dim_intlist([1i64].as_slice(), false, Kind::Int64);
        low += rank.ge(limit).sum(Kind::Int64);
    }
    Ok(f64::try_from(low.to_kind(Kind::Double))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use curricle_sdk::rng::stream;
    use proptest::prelude::*;
    use rand::RngExt;

    /// `each` samples around each of `count` centres, of which a share has the label of another one.
    /// With `spread = 1` the noise of a coordinate is as large as the centre's.
    fn clusters(count: i64, each: i64, spread: f64, flipped: f64, seed: u64) -> (Tensor, Vec<i64>) {
        let size = 32;
        let mut rng = stream(seed, "test", 0, 0);
        let mut normal = || (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
        let centres: Vec<f64> = (0..count * size).map(|_| normal()).collect();
        let mut values = Vec::new();
        for i in 0..count * each {
            values.extend((0..size).map(|d| centres[(i % count * size + d) as usize] + spread * normal()));
        }
        let rows = Tensor::from_slice(&values).view([count * each, size]);
        let rows = &rows / rows.norm_scalaropt_dim(2.0, [1i64].as_slice(), true);
        let labels = (0..count * each).map(|i| {
            let flip = rng.random::<f64>() < flipped;
            (i + if flip { rng.random_range(1..count) } else { 0 }) % count
        });
        let labels = labels.collect();
        (rows, labels)
    }

    #[test]
    fn the_share_of_synthetic_mixtures_is_found_at_any_noise() {
        for (count, each) in [(50, 40), (10, 200), (400, 6)] {
            for spread in [0.3, 1.0] {
                for noise in [0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7] {
                    let (rows, labels) = clusters(count, each, spread, noise, 3);
                    let wrong = labels.iter().enumerate().filter(|(i, l)| *i as i64 % count != **l).count() as f64;
                    let truth = 1.0 - wrong / labels.len() as f64;
                    let found = clean_share(&rows.to_kind(Kind::Float), &Classes::new(&labels)).unwrap();
                    assert!((found - truth).abs() < 0.05, "{found} for {truth}, {count} classes, spread {spread}");
                    assert!(noise > 0.0 || found > 0.99, "{found} without noise");
                }
            }
        }
    }

    #[test]
    fn labels_without_any_relation_to_the_samples_give_the_lowest_share() {
        let (rows, _) = clusters(20, 30, 0.3, 0.0, 1);
        let mut rng = stream(4, "test", 0, 0);
        let labels: Vec<i64> = (0..600).map(|_| rng.random_range(0..20)).collect();
        assert!(clean_share(&rows, &Classes::new(&labels)).unwrap() < 0.2);
    }

    #[test]
    fn training_sets_without_a_rank_are_trusted() {
        let rows = Tensor::eye(4, (Kind::Float, tch::Device::Cpu));
        for labels in [[0, 0, 0, 0], [0, 1, 2, 3]] {
            assert_eq!(clean_share(&rows, &Classes::new(&labels)).unwrap(), 1.0);
        }
        assert_eq!(clean_share(&rows.zeros_like(), &Classes::new(&[0, 0, 1, 1])).unwrap(), 1.0);
    }

    /// Sample by sample and class by class.
    fn naive(rows: &Tensor, labels: &[i64]) -> f64 {
        let x: Vec<Vec<f64>> = Vec::try_from(rows).unwrap();
        let mean = |a: usize, class: i64| {
            let members: Vec<usize> = (0..x.len()).filter(|&b| b != a && labels[b] == class).collect();
            let sum: f64 = members.iter().map(|&b| x[a].iter().zip(&x[b]).map(|(p, q)| p * q).sum::<f64>()).sum();
            (!members.is_empty()).then(|| sum / members.len() as f64)
        };
        let mut names = labels.to_vec();
        names.sort_unstable();
        names.dedup();
        let (mut low, mut counted) = (0.0, 0.0);
        for (a, &label) in labels.iter().enumerate() {
            let Some(own) = mean(a, label) else { continue };
            let above = names.iter().filter(|&&c| c != label && mean(a, c).unwrap() > own).count();
            counted += 1.0;
            low += f64::from(2 * above >= names.len());
        }
        let half = names.len().div_ceil(2);
        (1.0 - low / counted * (names.len() - 1) as f64 / (names.len() - half) as f64).max(0.1)
    }

    proptest! {
        #[test]
        fn the_estimate_is_that_of_the_definition(
            labels in prop::collection::vec(0i64..6, 6..40),
            seed in 0u64..1000,
        ) {
            let classes = Classes::new(&labels);
            prop_assume!(classes.count() > 1 && classes.count() < labels.len());
            let (rows, _) = clusters(labels.len() as i64, 1, 1.0, 0.0, seed);
            let found = clean_share(&rows, &classes).unwrap();
            prop_assert!((found - naive(&rows, &labels)).abs() < 1e-12, "{} {}", found, naive(&rows, &labels));
        }
    }
}
