//! Holm's correction for multiple comparisons.

/// Corrected p values in the given order: the smallest is multiplied by their number, the next by one
/// less, and so on; a corrected value is never below that of a smaller p.
pub(crate) fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut corrected = vec![0.0; p_values.len()];
    let mut largest: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        largest = largest.max((p_values.len() - rank) as f64 * p_values[index]).min(1.0);
        corrected[index] = largest;
    }
    corrected
}
