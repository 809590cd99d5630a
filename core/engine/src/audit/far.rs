//! Samples that are far from every class: images that may belong to none of them.
//!
//! The squared distance of a sample to the nearest class is roughly χ²-distributed, and the cube root of such
//! a number is roughly normal (Wilson and Hilferty, 1931). Its deviation from the median in units of the
//! standard deviation, both estimated so that a few strange samples do not matter, is the score.

/// Ratio of the standard deviation to the median absolute deviation of a normal distribution.
const NORMAL: f64 = 1.4826;

/// How many standard deviations each sample is farther from its nearest class than the median.
pub(super) fn scores(squared_distances: &[f64]) -> Vec<f64> {
    let roots: Vec<f64> = squared_distances.iter().map(|d| d.cbrt()).collect();
    let centre = super::median(&mut roots.clone());
    let spread = NORMAL * super::median(&mut roots.iter().map(|root| (root - centre).abs()).collect::<Vec<_>>());
    roots.iter().map(|root| if spread > 0.0 { (root - centre) / spread } else { 0.0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_sample_far_from_the_others_has_a_high_score() {
        let mut distances: Vec<f64> = (0..200).map(|i| 100.0 + f64::from(i % 41)).collect();
        distances.push(900.0);
        let scores = scores(&distances);
        assert!(scores[200] > 5.0 && scores[..200].iter().all(|score| score.abs() < 3.0), "{scores:?}");
    }

    #[test]
    fn equal_distances_have_no_outlier() {
        assert_eq!(scores(&[2.0; 5]), [0.0; 5]);
    }
}
