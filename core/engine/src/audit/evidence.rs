//! Evidence for and against the label of each sample, and the resulting ranking.

use super::means::Means;
use super::neighbours::Vote;
use super::weights::AuditWeights;
use crate::data::Split;
use serde::Serialize;
use std::collections::BTreeMap;

/// The evidence about one training sample.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// Its row in the run's training set.
    pub row: usize,
    /// Its index in the data set's training split, which includes samples excluded from training.
    pub sample: usize,
    /// Its path or other identifier.
    pub path: String,
    /// The class it is labelled with.
    pub label: i64,
    /// The class that trusted neighbours propose; its label if they agree with it.
    pub proposed: i64,
    /// The proposal's share of their votes.
    pub confidence: f64,
    /// The given label's share of their votes.
    pub given_share: f64,
    /// Share of these neighbours that have the given label.
    pub agreeing: f64,
    /// Weight of the sample, from 0 to 1.
    pub weight: f64,
    /// ξ⁺: how far the sample is from its own class.
    pub xi_pos: f64,
    /// ξ⁻: how close the sample is to other classes.
    pub xi_neg: f64,
    /// Cosine similarity to the mean of its own class, excluding itself.
    pub similarity_given: f64,
    /// Cosine similarity to the mean of the proposed class.
    pub similarity_proposed: f64,
    /// From 0 (no evidence against the label) to 1 (all evidence is against it).
    pub suspicion: f64,
    /// Whether the label is probably wrong.
    pub suspected: bool,
    /// Name of the right label, if known.
    pub original: Option<String>,
}

/// Evidence against a label: the mean of 1 - weight and the share of votes for other classes.
pub(super) fn suspicion(weight: f64, given_share: f64) -> f64 {
    ((1.0 - weight) + (1.0 - given_share)) / 2.0
}

/// Collects the evidence about all samples, in their order.
pub(super) fn collect(
    split: &Split,
    samples: &[usize],
    weights: &AuditWeights,
    means: &Means,
    votes: &[Vote],
) -> curricle_sdk::Result<Vec<Evidence>> {
    let proposed: Vec<i64> = votes.iter().map(|vote| vote.proposed).collect();
    let to_given = means.similarities(&split.labels, &split.labels)?;
    let to_proposed = means.similarities(&split.labels, &proposed)?;
    let one = |row: usize| {
        let (vote, label, weight) = (&votes[row], split.labels[row], weights.values[row]);
        let suspicion = suspicion(weight, vote.given);
        Evidence {
            row,
            sample: samples[row],
            path: split.paths[row].clone(),
            label,
            proposed: vote.proposed,
            confidence: vote.confidence,
            given_share: vote.given,
            agreeing: vote.agreeing,
            weight,
            xi_pos: weights.xi_pos[row],
            xi_neg: weights.xi_neg[row],
            similarity_given: to_given[row],
            similarity_proposed: to_proposed[row],
            suspicion,
            // If the neighbours agree with the label, the sample is hard, not mislabelled.
            suspected: suspicion > 0.5 && vote.proposed != label,
            original: None,
        }
    };
    Ok((0..split.len()).map(one).collect())
}

/// Sorts suspects first, then by suspicion; ties by how much closer the proposed class is.
pub(super) fn rank(all: &mut [Evidence]) {
    let gain = |e: &Evidence| e.similarity_proposed - e.similarity_given;
    all.sort_by(|a, b| {
        let by_suspicion = b.suspected.cmp(&a.suspected).then(b.suspicion.total_cmp(&a.suspicion));
        by_suspicion.then(gain(b).total_cmp(&gain(a))).then(a.row.cmp(&b.row))
    });
}

/// The samples of a class and how many of them are suspected.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassCount {
    /// The class.
    pub class: String,
    /// Samples with its label.
    pub samples: usize,
    /// Suspects among them.
    pub suspects: usize,
}

/// Counts samples and suspects of each class, largest share of suspects first.
pub(crate) fn class_counts(all: &[Evidence], class_names: &[String]) -> Vec<ClassCount> {
    let mut counts: Vec<_> =
        class_names.iter().map(|class| ClassCount { class: class.clone(), samples: 0, suspects: 0 }).collect();
    for evidence in all {
        let count = &mut counts[evidence.label as usize];
        count.samples += 1;
        count.suspects += usize::from(evidence.suspected);
    }
    let share = |count: &ClassCount| count.suspects as f64 / count.samples.max(1) as f64;
    counts.sort_by(|a, b| share(b).total_cmp(&share(a)).then(b.suspects.cmp(&a.suspects)).then(a.class.cmp(&b.class)));
    counts
}

/// How many samples with one label seem to belong to another class.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Confusion {
    /// The label they have.
    pub label: String,
    /// The class they seem to belong to.
    pub proposed: String,
    /// Number of suspects.
    pub suspects: usize,
}

/// Counts mix-ups, most frequent first.
pub(super) fn mix_ups(suspects: &[Evidence], class_names: &[String]) -> Vec<Confusion> {
    let mut counts: BTreeMap<(i64, i64), usize> = BTreeMap::new();
    for evidence in suspects {
        *counts.entry((evidence.label, evidence.proposed)).or_default() += 1;
    }
    let name = |class: i64| class_names[class as usize].clone();
    let mut all: Vec<_> = counts
        .into_iter()
        .map(|((label, proposed), suspects)| Confusion { label: name(label), proposed: name(proposed), suspects })
        .collect();
    all.sort_by_key(|mix| std::cmp::Reverse(mix.suspects));
    all
}

/// Evidence for tests: a sample of class 0 for which class 1 is proposed.
#[cfg(test)]
pub(super) fn example(row: usize, weight: f64, confidence: f64) -> Evidence {
    Evidence {
        row,
        sample: row,
        path: format!("folder/{row}.jpg"),
        label: 0,
        proposed: 1,
        confidence,
        given_share: 1.0 - confidence,
        agreeing: 1.0 - confidence,
        weight,
        xi_pos: 1.0,
        xi_neg: 2.0,
        similarity_given: 0.25,
        similarity_proposed: 0.75,
        suspicion: suspicion(weight, 1.0 - confidence),
        suspected: suspicion(weight, 1.0 - confidence) > 0.5,
        original: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspects_come_first_and_ties_are_broken_by_similarity() {
        let mut all = [example(0, 1.0, 0.5), example(1, 0.0, 1.0), example(2, 0.0, 1.0), example(3, 0.2, 0.9)];
        all[2].similarity_proposed = 0.9;
        // The highest suspicion, but the neighbours agree with the label.
        all[3] = Evidence { suspicion: 1.0, suspected: false, proposed: 0, ..all[3].clone() };
        rank(&mut all);
        assert_eq!(all.iter().map(|e| e.row).collect::<Vec<_>>(), [2, 1, 3, 0]);
    }

    #[test]
    fn suspects_are_counted_by_class_and_by_mix_up() {
        let names = ["cat", "dog"].map(String::from);
        let mut all = vec![example(0, 0.0, 1.0), example(1, 0.0, 1.0), example(2, 1.0, 0.0)];
        all.push(Evidence { label: 1, proposed: 1, suspected: false, ..example(3, 1.0, 0.0) });
        let counts = class_counts(&all, &names);
        assert_eq!((counts[0].class.as_str(), counts[0].samples, counts[0].suspects), ("cat", 3, 2));
        assert_eq!((counts[1].class.as_str(), counts[1].samples, counts[1].suspects), ("dog", 1, 0));
        let mixed = mix_ups(&all[..2], &names);
        assert_eq!(mixed, [Confusion { label: "cat".into(), proposed: "dog".into(), suspects: 2 }]);
    }
}
