//! Scores of the findings where the wrong labels are known.

use super::evidence::Evidence;
use crate::train::noise_report::NoiseReport;
use serde::Serialize;

/// Findings compared with the ground truth. Undefined scores are absent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroundTruthScores {
    /// Samples with a wrong label.
    pub wrong: usize,
    /// Share of wrong labels among the suspects.
    pub precision: Option<f64>,
    /// Share of the wrong labels that are suspected.
    pub recall: Option<f64>,
    /// Probability that a wrong label ranks above a right one.
    pub auroc: Option<f64>,
    /// Average precision of the ranking as a detector of wrong labels.
    pub average_precision: Option<f64>,
    /// AUROC of 1 - weight.
    pub auroc_of_weights: Option<f64>,
    /// Average precision of 1 - weight.
    pub average_precision_of_weights: Option<f64>,
    /// Share of the suspects with a wrong label whose proposed label is the right one.
    pub proposals_right: Option<f64>,
    /// Share of all samples with a wrong label whose proposed label is the right one.
    pub proposals_right_of_wrong: Option<f64>,
}

impl GroundTruthScores {
    /// Scores `all`, which must be ranked and have original labels.
    pub fn new(all: &[Evidence], class_names: &[String]) -> Self {
        let class = |class: i64| class_names.get(class as usize).map(String::as_str);
        let is_wrong = |e: &Evidence| e.original.as_deref() != class(e.label);
        let is_right = |e: &Evidence| e.original.as_deref() == class(e.proposed);
        let wrong: Vec<bool> = all.iter().map(is_wrong).collect();
        let ranks: Vec<f64> = (0..all.len()).map(|rank| rank as f64 / all.len() as f64).collect();
        let weights: Vec<f64> = all.iter().map(|e| e.weight).collect();
        let (by_rank, by_weight) = (NoiseReport::new(&ranks, &wrong), NoiseReport::new(&weights, &wrong));
        let count = |which: &dyn Fn(&Evidence) -> bool| all.iter().filter(|e| which(e)).count();
        let found = count(&|e| e.suspected && is_wrong(e));
        let share = |split: usize, whole: usize| (whole > 0).then(|| split as f64 / whole as f64);
        Self {
            wrong: count(&is_wrong),
            precision: share(found, count(&|e| e.suspected)),
            recall: share(found, count(&is_wrong)),
            auroc: by_rank.auroc,
            average_precision: by_rank.average_precision,
            auroc_of_weights: by_weight.auroc,
            average_precision_of_weights: by_weight.average_precision,
            proposals_right: share(count(&|e| e.suspected && is_wrong(e) && is_right(e)), found),
            proposals_right_of_wrong: share(count(&|e| is_wrong(e) && is_right(e)), count(&is_wrong)),
        }
    }

    /// The defined scores with their descriptions.
    pub fn described(&self) -> Vec<(&'static str, f64)> {
        let all = [
            ("precision: suspects with a wrong label", self.precision),
            ("recall: wrong labels that are suspected", self.recall),
            ("AUROC of the ranking", self.auroc),
            ("average precision of the ranking", self.average_precision),
            ("AUROC of 1 - weight", self.auroc_of_weights),
            ("average precision of 1 - weight", self.average_precision_of_weights),
            ("correct proposals for suspects with a wrong label", self.proposals_right),
            ("correct proposals for all wrong labels", self.proposals_right_of_wrong),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::evidence::example;

    #[test]
    fn findings_are_scored_against_the_ground_truth() {
        let names = ["cat", "dog", "cow"].map(String::from);
        let with = |row, weight, confidence, original: &str| Evidence {
            suspected: row < 3,
            original: Some(original.into()),
            ..example(row, weight, confidence)
        };
        // Labelled cat, proposed dog: right proposal, wrong proposal, false alarm, missed, correct label.
        let all = [
            with(0, 0.0, 1.0, "dog"),
            with(1, 0.0, 0.9, "cow"),
            with(2, 0.1, 0.9, "cat"),
            with(3, 1.0, 0.8, "dog"),
            with(4, 1.0, 0.0, "cat"),
        ];
        let known = GroundTruthScores::new(&all, &names);
        assert_eq!((known.wrong, known.precision, known.recall), (3, Some(2.0 / 3.0), Some(2.0 / 3.0)));
        assert_eq!((known.proposals_right, known.proposals_right_of_wrong), (Some(0.5), Some(2.0 / 3.0)));
        // Of the six pairs of a wrong and a right label, only (3, 2) is ranked the wrong way round.
        assert_eq!(known.auroc, Some(5.0 / 6.0));
        assert_eq!(known.auroc_of_weights, Some(4.5 / 6.0));
    }
}
