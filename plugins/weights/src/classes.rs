//! Samples grouped by class.

/// The samples of each class. Labels may be any numbers: classes are renumbered in the order of their
/// labels, so that a label without samples is not a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classes {
    of: Vec<usize>,
    start: Vec<usize>,
    members: Vec<usize>,
}

impl Classes {
    /// Groups samples by label.
    pub fn new(labels: &[i64]) -> Self {
        let mut members: Vec<usize> = (0..labels.len()).collect();
        members.sort_by_key(|&a| labels[a]);
        let mut of = vec![0; labels.len()];
        let mut start = Vec::new();
        for (position, &a) in members.iter().enumerate() {
            if position == 0 || labels[a] != labels[members[position - 1]] {
                start.push(position);
            }
            of[a] = start.len() - 1;
        }
        start.push(labels.len());
        Self { of, start, members }
    }

    /// Number of classes, C.
    pub fn count(&self) -> usize {
        self.start.len() - 1
    }

    /// Number of samples, N.
    pub fn samples(&self) -> usize {
        self.of.len()
    }

    /// The class of a sample.
    pub fn of(&self, sample: usize) -> usize {
        self.of[sample]
    }

    /// The class of every sample.
    pub fn ids(&self) -> &[usize] {
        &self.of
    }

    /// The samples of a class, in the order of their indices.
    pub fn members(&self, class: usize) -> &[usize] {
        &self.members[self.start[class]..self.start[class + 1]]
    }

    /// Number of samples of a class, N^c; at least 1.
    pub fn size(&self, class: usize) -> usize {
        self.start[class + 1] - self.start[class]
    }

    /// All samples, sorted by class.
    pub fn sorted(&self) -> &[usize] {
        &self.members
    }

    /// The average weight of each class, ζ(c)/N^c.
    pub fn average_weights(&self, weights: &[f64]) -> Vec<f64> {
        (0..self.count())
            .map(|c| self.members(c).iter().map(|&a| weights[a]).sum::<f64>() / self.size(c) as f64)
            .collect()
    }

    /// Mean (MAW) and population standard deviation (SDAW) over classes of the average weight.
    pub fn maw_sdaw(&self, weights: &[f64]) -> (f64, f64) {
        curricle_sdk::maw_sdaw(&self.average_weights(weights))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_in_the_labels_are_not_classes() {
        let classes = Classes::new(&[7, -1, 7, 3]);
        assert_eq!(classes.count(), 3);
        assert_eq!(classes.ids(), [2, 0, 2, 1]);
        assert_eq!(classes.members(2), [0, 2]);
        assert_eq!(classes.size(1), 1);
        assert_eq!(classes.sorted(), [1, 3, 0, 2]);
    }

    #[test]
    fn maw_averages_classes_not_samples() {
        let classes = Classes::new(&[0, 0, 0, 1]);
        let (maw, sdaw) = classes.maw_sdaw(&[1.0, 1.0, 1.0, 0.0]);
        assert_eq!((maw, sdaw), (0.5, 0.5));
    }

    #[test]
    fn an_empty_training_set_has_no_classes() {
        let classes = Classes::new(&[]);
        assert_eq!((classes.count(), classes.samples()), (0, 0));
        assert_eq!(classes.maw_sdaw(&[]), (0.0, 0.0));
    }
}
