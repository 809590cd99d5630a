//! Agreement of clusters with classes: normalised and adjusted mutual information (NMI, AMI).

use std::collections::BTreeMap;

/// Agreement of two partitions of the same samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Agreement {
    /// 2I/(H+H).
    pub nmi: f64,
    /// `(I - E[I]) / ((H+H)/2 - E[I])`, with the exact expectation over random partitions of the
    /// same sizes.
    pub ami: f64,
}

/// Compares two partitions, given as the cluster of each sample (0, 1, …).
pub(super) fn agreement(a: &[u32], b: &[u32]) -> Agreement {
    let (sizes_a, sizes_b) = (sizes(a), sizes(b));
    if sizes_a.len() <= 1 && sizes_b.len() <= 1 {
        return Agreement { nmi: 1.0, ami: 1.0 };
    }
    let n = a.len() as f64;
    let mut cells: Vec<u64> = a.iter().zip(b).map(|(&a, &b)| u64::from(a) << 32 | u64::from(b)).collect();
    cells.sort_unstable();
    let mut information = 0.0;
    for cell in cells.chunk_by(|x, y| x == y) {
        let (part_a, part_b) = ((cell[0] >> 32) as u32, cell[0] as u32);
        let expected = sizes_a[&part_a] as f64 * sizes_b[&part_b] as f64;
        let count = cell.len() as f64;
        information += count / n * (count * n / expected).ln();
    }
    let mean_entropy = (entropy(&sizes_a, n) + entropy(&sizes_b, n)) / 2.0;
    let chance = expected_information(&sizes_a, &sizes_b, a.len());
    // Two partitions into single samples: nothing remains to be explained beyond chance, and the
    // quotient is 0/0 up to rounding. They agree perfectly.
    let room = mean_entropy - chance;
    let ami = if room.abs() < 1e-12 { 1.0 } else { (information - chance) / room };
    Agreement { nmi: information / mean_entropy, ami }
}

fn sizes(parts: &[u32]) -> BTreeMap<u32, usize> {
    let mut sizes = BTreeMap::new();
    for &part in parts {
        *sizes.entry(part).or_default() += 1;
    }
    sizes
}

fn entropy(sizes: &BTreeMap<u32, usize>, n: f64) -> f64 {
    -sizes.values().map(|&s| s as f64 / n * (s as f64 / n).ln()).sum::<f64>()
}

/// `E[I]` over all pairs of partitions with these sizes: the overlap of clusters of `a` and `b` samples
/// is hypergeometric. Thousands of clusters have few distinct sizes, so the sum runs over pairs of
/// sizes rather than pairs of clusters.
fn expected_information(sizes_a: &BTreeMap<u32, usize>, sizes_b: &BTreeMap<u32, usize>, n: usize) -> f64 {
    let log_factorial = log_factorials(n);
    let lf = |x: usize| log_factorial[x];
    let total = n as f64;
    let mut sum = 0.0;
    for (&a, &times_a) in &multiplicities(sizes_a) {
        for (&b, &times_b) in &multiplicities(sizes_b) {
            let fixed = lf(a) + lf(b) + lf(n - a) + lf(n - b) - lf(n);
            let mut pair = 0.0;
            for overlap in (a + b).saturating_sub(n).max(1)..=a.min(b) {
                let log_probability = fixed - lf(overlap) - lf(a - overlap) - lf(b - overlap) - lf(n + overlap - a - b);
                let share = overlap as f64 / total;
                pair += share * (share * total * total / (a as f64 * b as f64)).ln() * log_probability.exp();
            }
            sum += pair * (times_a * times_b) as f64;
        }
    }
    sum
}

fn multiplicities(sizes: &BTreeMap<u32, usize>) -> BTreeMap<usize, usize> {
    let mut times = BTreeMap::new();
    for &size in sizes.values() {
        *times.entry(size).or_default() += 1;
    }
    times
}

/// ln 0!, …, ln n! with compensated (Kahan) summation: plain sums lose digits that the differences
/// above need.
fn log_factorials(n: usize) -> Vec<f64> {
    let (mut sum, mut lost) = (0.0_f64, 0.0_f64);
    let mut table = vec![0.0];
    for i in 1..=n {
        let term = (i as f64).ln() - lost;
        let next = sum + term;
        lost = (next - sum) - term;
        sum = next;
        table.push(sum);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use curricle_sdk::rng::stream;
    use proptest::prelude::*;
    use rand::RngExt;

    #[test]
    fn equal_partitions_agree_perfectly_under_any_numbering() {
        let a = [0, 0, 1, 1, 2, 2, 2];
        let b = [7, 7, 3, 3, 0, 0, 0];
        let Agreement { nmi, ami } = agreement(&a, &b);
        assert!((nmi - 1.0).abs() < 1e-14 && (ami - 1.0).abs() < 1e-14, "{nmi} {ami}");
    }

    #[test]
    fn degenerate_partitions_have_defined_agreement() {
        assert_eq!(agreement(&[0, 0, 0], &[5, 5, 5]), Agreement { nmi: 1.0, ami: 1.0 });
        assert_eq!(agreement(&[0, 1, 2], &[2, 0, 1]).ami, 1.0);
        let one_against_many = agreement(&[0, 0, 0, 0], &[0, 1, 0, 1]);
        assert!(one_against_many.nmi.abs() < 1e-15 && one_against_many.ami.abs() < 1e-12);
    }

    #[test]
    fn chance_agreement_is_adjusted_to_zero() {
        let mut rng = stream(3, "test", 0, 0);
        let (mut adjusted, mut plain) = (0.0, 0.0);
        for _ in 0..20 {
            let [a, b] = [0, 1].map(|_| (0..300).map(|_| rng.random_range(0..60)).collect::<Vec<u32>>());
            let agreement = agreement(&a, &b);
            adjusted += agreement.ami / 20.0;
            plain += agreement.nmi / 20.0;
        }
        assert!(adjusted.abs() < 0.01, "{adjusted}");
        assert!(plain > 0.5, "unadjusted, many small clusters look good by chance: {plain}");
    }

    proptest! {
        #[test]
        fn agreement_is_symmetric_bounded_and_independent_of_numbering(pairs in prop::collection::vec((0u32..6, 0u32..6), 2..60)) {
            let (a, b): (Vec<u32>, Vec<u32>) = pairs.into_iter().unzip();
            let there = agreement(&a, &b);
            let back = agreement(&b, &a);
            let renamed: Vec<u32> = a.iter().map(|x| 5 - x).collect();
            let named = agreement(&renamed, &b);
            for (x, y) in [(there.nmi, back.nmi), (there.ami, back.ami), (there.nmi, named.nmi), (there.ami, named.ami)] {
                prop_assert!((x - y).abs() < 1e-9);
            }
            prop_assert!(there.nmi > -1e-12 && there.nmi < 1.0 + 1e-12);
            prop_assert!(there.ami < 1.0 + 1e-9);
        }
    }
}
