//! How well the sample weights detect mislabelled samples, when it is known which labels were flipped.

/// The weights compared with the mask of flipped labels. A metric is `None` where it is undefined
/// (no flipped label, no suspected sample).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct NoiseReport {
    /// Mean weight of the correctly labelled samples.
    pub weight_clean: Option<f64>,
    /// Mean weight of the mislabelled samples.
    pub weight_noisy: Option<f64>,
    /// Probability that a mislabelled sample has a lower weight than a correctly labelled one; ties
    /// count half.
    pub auroc: Option<f64>,
    /// Average precision of 1-w as a detector of mislabelled samples. Ties are added as one group, so
    /// their order in the data does not matter.
    pub average_precision: Option<f64>,
    /// Fraction of the suspected samples (weight below 0.5) that are mislabelled.
    pub precision: Option<f64>,
    /// Fraction of the mislabelled samples that are suspected.
    pub recall: Option<f64>,
}

impl NoiseReport {
    /// The names of the metrics.
    pub(crate) const NAMES: [&str; 6] =
        ["weight_clean", "weight_noisy", "auroc", "average_precision", "precision", "recall"];

    /// Compares the weights with the mask of flipped labels.
    pub fn new(weights: &[f64], flipped: &[bool]) -> Self {
        let samples: Vec<(f64, bool)> = weights.iter().copied().zip(flipped.iter().copied()).collect();
        let wrong = samples.iter().filter(|s| s.1).count() as f64;
        let right = samples.len() as f64 - wrong;
        let suspected = samples.iter().filter(|s| is_suspected(s.0)).count() as f64;
        let found = samples.iter().filter(|s| s.1 && is_suspected(s.0)).count() as f64;
        let weight = |of: bool| samples.iter().filter(|s| s.1 == of).map(|s| s.0).sum::<f64>();
        let (auroc, average_precision) = ranking(samples.clone(), wrong, right);
        Self {
            weight_clean: share(weight(false), right),
            weight_noisy: share(weight(true), wrong),
            auroc,
            average_precision,
            precision: share(found, suspected),
            recall: share(found, wrong),
        }
    }

    /// A warning if the weights are lower for correctly labelled samples than for mislabelled ones.
    pub(crate) fn worse_than_chance(&self) -> Option<String> {
        let auroc = self.auroc.filter(|auroc| *auroc < 0.5)?;
        Some(format!(
            "the weights of the last round find the flipped labels worse than chance (AUROC {auroc:.2}), so training used \
             many of them; `weights/auroc` shows since when. Compare with other weights, such as `knn` or `uniform`"
        ))
    }

    /// The defined metrics, by name.
    pub fn scalars(&self) -> Vec<(&'static str, f64)> {
        let Self { weight_clean, weight_noisy, auroc, average_precision, precision, recall } = *self;
        let values = [weight_clean, weight_noisy, auroc, average_precision, precision, recall];
        Self::NAMES.into_iter().zip(values).filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// Whether a sample with this weight is suspected to be mislabelled.
pub(crate) fn is_suspected(weight: f64) -> bool {
    weight < 0.5
}

/// AUROC and average precision, over groups of equal weight in ascending order.
fn ranking(mut samples: Vec<(f64, bool)>, wrong: f64, right: f64) -> (Option<f64>, Option<f64>) {
    samples.sort_by(|x, y| x.0.total_cmp(&y.0));
    let (mut wins, mut precision) = (0.0, 0.0);
    let (mut seen_wrong, mut seen_right) = (0.0, 0.0);
    for group in samples.chunk_by(|x, y| x.0 == y.0) {
        let new_wrong = group.iter().filter(|s| s.1).count() as f64;
        let new_right = group.len() as f64 - new_wrong;
        wins += new_wrong * (right - seen_right - 0.5 * new_right);
        seen_wrong += new_wrong;
        seen_right += new_right;
        precision += new_wrong * seen_wrong / (seen_wrong + seen_right);
    }
    (share(wins, wrong * right), share(precision, wrong))
}

fn share(split: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| split / whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn weights_that_prefer_flipped_labels_are_warned_about() {
        let flipped = [true, true, false, false];
        let warning = |weights: [f64; 4]| NoiseReport::new(&weights, &flipped).worse_than_chance();
        assert!(warning([1.0, 1.0, 0.0, 1.0]).is_some_and(|text| text.contains("AUROC 0.25")));
        assert_eq!([warning([1.0; 4]), warning([0.0, 1.0, 1.0, 1.0])], [None, None]);
        assert_eq!(NoiseReport::new(&[0.0, 1.0], &[false, false]).worse_than_chance(), None);
    }

    #[test]
    fn metrics_match_scikit_learn() {
        let cases: Value = serde_json::from_str(include_str!("../../../../tests/golden/noise_report.json")).unwrap();
        let cases = cases.as_array().unwrap();
        assert_eq!(cases.len(), 6);
        for case in cases {
            let weights: Vec<f64> = serde_json::from_value(case["weights"].clone()).unwrap();
            let flipped: Vec<bool> = serde_json::from_value(case["flipped"].clone()).unwrap();
            let scalars = NoiseReport::new(&weights, &flipped).scalars();
            assert_eq!(scalars.len(), 6);
            for (name, value) in scalars {
                let expected = case[name].as_f64().unwrap();
                assert!((value - expected).abs() < 1e-12, "{name}: {value}, scikit-learn {expected}");
            }
        }
    }

    #[test]
    fn equal_weights_give_chance_level_metrics() {
        let report = NoiseReport::new(&[1.0; 4], &[true, false, false, false]);
        assert_eq!((report.auroc, report.average_precision), (Some(0.5), Some(0.25)));
        assert_eq!((report.precision, report.recall), (None, Some(0.0)));
    }

    #[test]
    fn metrics_are_undefined_without_flipped_labels() {
        let report = NoiseReport::new(&[1.0, 0.2], &[false, false]);
        assert_eq!((report.auroc, report.average_precision, report.recall), (None, None, None));
        assert_eq!((report.weight_clean, report.weight_noisy), (Some(0.6), None));
        assert_eq!(report.precision, Some(0.0));
        assert_eq!(NoiseReport::new(&[], &[]), NoiseReport::default());
    }
}
