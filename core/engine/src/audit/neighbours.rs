//! Votes of the nearest trusted samples on the label of each sample.

use crate::Result;
use curricle_eval as eval;
use std::collections::BTreeMap;
use tch::Tensor;

/// Decay of votes with cosine similarity: by a factor of e for each step of this size.
const TEMPERATURE: f64 = 0.1;
/// Minimum weight of a sample to be trusted with a vote.
const TRUSTED: f64 = 0.5;

/// The votes on one sample.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Vote {
    /// The class with the largest share of the votes; ties go to the given class, then to the first.
    pub proposed: i64,
    /// Its share.
    pub confidence: f64,
    /// The share of the given class.
    pub given: f64,
    /// Share of the neighbours that have the given label, regardless of weight and distance.
    pub agreeing: f64,
}

/// Lets the `k` nearest trusted samples vote on every sample, excluding the sample itself. A vote is
/// multiplied by the voter's weight and decays with distance. If too few samples are trusted, all
/// vote with equal weight.
pub(super) fn votes(embeddings: &Tensor, labels: &[i64], weights: &[f64], k: usize) -> Result<Vec<Vote>> {
    let mut outside: Vec<bool> = weights.iter().map(|w| *w < TRUSTED).collect();
    let trusted = outside.iter().filter(|outside| !**outside).count();
    let all_vote = trusted < 2 * k.min(labels.len() / 2);
    if all_vote {
        outside.fill(false);
    }
    let samples: Vec<usize> = (0..labels.len()).collect();
    let mask = outside.contains(&true).then_some(outside.as_slice());
    let found = eval::neighbours(embeddings, mask, &samples, k)?;
    let counts = |voter: usize| if all_vote { 1.0 } else { weights[voter] };
    Ok(found.iter().zip(labels).map(|(found, given)| vote(found, *given, labels, counts)).collect())
}

fn vote(found: &[(usize, f32)], given: i64, labels: &[i64], weight: impl Fn(usize) -> f64) -> Vote {
    let Some(&(_, nearest)) = found.first() else { return Vote { proposed: given, ..Default::default() } };
    let mut shares: BTreeMap<i64, f64> = BTreeMap::new();
    for &(voter, similarity) in found {
        let near = (f64::from(similarity - nearest) / TEMPERATURE).exp();
        *shares.entry(labels[voter]).or_default() += weight(voter) * near;
    }
    let total: f64 = shares.values().sum();
    let given_share = shares.get(&given).copied().unwrap_or(0.0);
    let best = shares.iter().fold(
        (given, given_share),
        |best, (class, share)| {
            if *share > best.1 { (*class, *share) } else { best }
        },
    );
    let agreeing = found.iter().filter(|(voter, _)| labels[*voter] == given).count();
    Vote {
        proposed: best.0,
        confidence: best.1 / total,
        given: given_share / total,
        agreeing: agreeing as f64 / found.len() as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points on the unit circle at these angles in degrees.
    fn circle(degrees: &[f32]) -> Tensor {
        let values: Vec<f32> = degrees.iter().flat_map(|d| [d.to_radians().cos(), d.to_radians().sin()]).collect();
        Tensor::from_slice(&values).view([degrees.len() as i64, 2])
    }

    #[test]
    fn a_mislabelled_sample_is_outvoted_and_does_not_vote_for_itself() {
        let x = circle(&[0.0, 1.0, 2.0, 90.0, 91.0, 92.0, 91.5]);
        let votes = votes(&x, &[0, 0, 0, 1, 1, 1, 0], &[1.0; 7], 3).unwrap();
        assert_eq!(votes[6].proposed, 1);
        assert!(votes[6].confidence > 0.999 && votes[6].given == 0.0 && votes[6].agreeing == 0.0, "{:?}", votes[6]);
        assert_eq!((votes[0].proposed, votes[3].proposed), (0, 1));
        // Two of its three neighbours are labelled correctly; the third is the mislabelled one.
        assert!((votes[3].agreeing - 2.0 / 3.0).abs() < 1e-12, "{:?}", votes[3]);
    }

    #[test]
    fn low_weight_samples_have_no_vote_and_closer_ones_count_more() {
        let x = circle(&[0.0, 1.0, 2.0, 30.0, 31.0, 60.0]);
        let labels = [0, 1, 1, 0, 0, 0];
        let trusting = votes(&x, &labels, &[1.0; 6], 4).unwrap();
        assert_eq!(trusting[0].proposed, 1, "{:?}", trusting[0]);
        let votes = votes(&x, &labels, &[1.0, 0.4, 0.0, 1.0, 1.0, 1.0], 2).unwrap();
        assert_eq!((votes[0].proposed, votes[0].confidence), (0, 1.0), "{:?}", votes[0]);
    }

    #[test]
    fn all_samples_vote_if_none_is_trusted() {
        let x = circle(&[0.0, 1.0, 90.0, 91.0]);
        let votes = votes(&x, &[0, 0, 1, 1], &[0.0; 4], 1).unwrap();
        assert!(votes.iter().zip([0, 0, 1, 1]).all(|(vote, label)| vote.proposed == label && vote.confidence == 1.0));
    }
}
