//! Evidence for and against the label of each sample, and the resulting ranking.

use super::means::Means;
use super::neighbours::Vote;
use super::noise_model::Judgement;
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
    /// The class it most probably belongs to; for a suspect, the most probable other class.
    pub proposed: i64,
    /// Estimated probability that the proposal is right.
    pub confidence: f64,
    /// The given label's share of the votes of trusted neighbours.
    pub given_share: f64,
    /// The class with the most of these votes.
    pub voted: i64,
    /// Its share of them.
    pub voted_share: f64,
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
    /// Estimated probability that the label is wrong.
    pub suspicion: f64,
    /// Logarithm of the odds of that, by which samples are ranked.
    pub log_odds: f64,
    /// Other classes it may belong to, with their probabilities.
    pub others: Vec<(i64, f64)>,
    /// How many standard deviations farther than the median it is from the nearest class.
    pub far: f64,
    /// Whether it is so far that it may belong to no class.
    pub no_class: bool,
    /// Index of its closest near-duplicate among the pairs of the audit.
    pub duplicate: Option<usize>,
    /// Whether it is among the labels that are probably wrong.
    pub suspected: bool,
    /// Name of the right label, if known.
    pub original: Option<String>,
}

/// Collects the evidence about all samples, in their order.
pub(super) fn collect(
    split: &Split,
    samples: &[usize],
    weights: &AuditWeights,
    means: &Means,
    votes: &[Vote],
    judgements: &[Judgement],
) -> curricle_sdk::Result<Vec<Evidence>> {
    // The most probable class of a sample, and its probability.
    let favourite = |row: usize| {
        let judgement = &judgements[row];
        let given = (split.labels[row], 1.0 - judgement.wrong);
        judgement.others.first().copied().filter(|other| other.1 > given.1).unwrap_or(given)
    };
    // Suspects get their closest other class, so that is the one to compare with.
    let alternative: Vec<i64> =
        judgements.iter().zip(&split.labels).map(|(j, label)| j.others.first().map_or(*label, |o| o.0)).collect();
    let to_given = means.similarities(&split.labels, &split.labels)?;
    let to_proposed = means.similarities(&split.labels, &alternative)?;
    let one = |row: usize| {
        let (vote, judgement) = (&votes[row], &judgements[row]);
        let (proposed, confidence) = favourite(row);
        Evidence {
            row,
            sample: samples[row],
            path: split.paths[row].clone(),
            label: split.labels[row],
            proposed,
            confidence,
            given_share: vote.given,
            voted: vote.proposed,
            voted_share: vote.confidence,
            agreeing: vote.agreeing,
            weight: weights.values[row],
            xi_pos: weights.xi_pos[row],
            xi_neg: weights.xi_neg[row],
            similarity_given: to_given[row],
            similarity_proposed: to_proposed[row],
            suspicion: judgement.wrong,
            log_odds: judgement.log_odds,
            others: judgement.others.clone(),
            far: 0.0,
            no_class: false,
            duplicate: None,
            suspected: false,
            original: None,
        }
    };
    Ok((0..split.len()).map(one).collect())
}

/// Sorts by the odds that the label is wrong, and suspects the first `suspects` samples: those with another
/// class to propose. Ties by how much closer that class is.
pub(super) fn rank(all: &mut [Evidence], suspects: usize) {
    let gain = |e: &Evidence| e.similarity_proposed - e.similarity_given;
    all.sort_by(|a, b| {
        let by_odds = b.log_odds.total_cmp(&a.log_odds);
        by_odds.then(gain(b).total_cmp(&gain(a))).then(a.row.cmp(&b.row))
    });
    for evidence in all.iter_mut().take(suspects) {
        // Samples that nothing is known about come last.
        let Some(&(class, probability)) = evidence.others.first() else { break };
        (evidence.suspected, evidence.proposed, evidence.confidence) = (true, class, probability);
    }
    for evidence in all.iter_mut().filter(|e| e.proposed == e.label) {
        evidence.similarity_proposed = evidence.similarity_given;
    }
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
    /// Their estimated number: the sum of the probabilities of all samples with this label.
    pub expected: f64,
    /// Number of suspects.
    pub suspects: usize,
}

/// Estimated numbers below this, without any suspect, are not listed.
const LEAST_EXPECTED: f64 = 0.5;

/// Estimates which class is called what, most frequent first.
pub(super) fn mix_ups(all: &[Evidence], class_names: &[String]) -> Vec<Confusion> {
    let mut counts: BTreeMap<(i64, i64), (f64, usize)> = BTreeMap::new();
    for evidence in all {
        for &(class, probability) in &evidence.others {
            let count = counts.entry((evidence.label, class)).or_default();
            count.0 += probability;
            count.1 += usize::from(evidence.suspected && evidence.proposed == class);
        }
    }
    let name = |class: i64| class_names[class as usize].clone();
    let listed = counts.into_iter().filter(|(_, (expected, suspects))| *expected >= LEAST_EXPECTED || *suspects > 0);
    let mut all: Vec<_> = listed
        .map(|((label, class), (expected, suspects))| Confusion {
            label: name(label),
            proposed: name(class),
            expected,
            suspects,
        })
        .collect();
    all.sort_by(|a, b| b.expected.total_cmp(&a.expected));
    all
}

/// Evidence for tests: a suspect of class 0 that belongs to class 1 with this probability.
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
        voted: 1,
        voted_share: confidence,
        agreeing: 1.0 - confidence,
        weight,
        xi_pos: 1.0,
        xi_neg: 2.0,
        similarity_given: 0.25,
        similarity_proposed: 0.75,
        suspicion: confidence,
        log_odds: (confidence / (1.0 - confidence)).ln(),
        others: vec![(1, confidence)],
        far: 0.0,
        no_class: false,
        duplicate: None,
        suspected: true,
        original: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(mut all: Vec<Evidence>, suspects: usize) -> Vec<Evidence> {
        all.iter_mut().for_each(|e| (e.suspected, e.proposed) = (false, e.label));
        rank(&mut all, suspects);
        all
    }

    #[test]
    fn as_many_as_asked_for_are_suspected_from_the_top_and_ties_are_broken_by_similarity() {
        let mut all = vec![example(0, 1.0, 0.5), example(1, 0.0, 0.9), example(2, 0.0, 0.9), example(3, 0.2, 0.7)];
        all[2].similarity_proposed = 0.9;
        let all = sorted(all, 2);
        assert_eq!(all.iter().map(|e| e.row).collect::<Vec<_>>(), [2, 1, 3, 0]);
        assert_eq!(
            all.iter().map(|e| (e.suspected, e.proposed)).collect::<Vec<_>>(),
            [(true, 1), (true, 1), (false, 0), (false, 0)]
        );
        assert_eq!(all[3].similarity_proposed, all[3].similarity_given);
    }

    #[test]
    fn the_only_sample_of_a_class_is_never_suspected() {
        let alone = Evidence { log_odds: f64::NEG_INFINITY, others: Vec::new(), ..example(0, 0.0, 0.5) };
        let all = sorted(vec![alone, example(1, 0.0, 0.01)], 2);
        assert_eq!(all.iter().map(|e| (e.row, e.suspected)).collect::<Vec<_>>(), [(1, true), (0, false)]);
    }

    #[test]
    fn suspects_are_counted_by_class_and_expected_mix_ups_add_up() {
        let names = ["cat", "dog"].map(String::from);
        let mut all = vec![example(0, 0.0, 0.9), example(1, 0.0, 0.8), example(2, 1.0, 0.1)];
        all[2].suspected = false;
        all.push(Evidence { label: 1, proposed: 1, suspected: false, others: vec![(0, 0.1)], ..example(3, 1.0, 0.1) });
        let counts = class_counts(&all, &names);
        assert_eq!((counts[0].class.as_str(), counts[0].samples, counts[0].suspects), ("cat", 3, 2));
        assert_eq!((counts[1].class.as_str(), counts[1].samples, counts[1].suspects), ("dog", 1, 0));
        let mixed = mix_ups(&all, &names);
        assert_eq!((mixed.len(), mixed[0].label.as_str(), mixed[0].proposed.as_str()), (1, "cat", "dog"));
        assert!((mixed[0].expected - 1.8).abs() < 1e-12 && mixed[0].suspects == 2, "{mixed:?}");
    }
}
