//! The class-disjoint split: the first half of the classes is for training, the second half for testing.

use super::Split;
use crate::{Error, Result};

/// Fewest classes that can be split: two on each side, because a single class has no negatives.
pub(crate) const FEWEST_CLASSES: usize = 4;

/// Splits by class order: the first ⌊C/2⌋ classes train, the others test. The labels of each split start at 0;
/// class names are kept.
pub(crate) fn by_class(whole: &Split) -> Result<(Split, Split)> {
    let classes = whole.class_names.len();
    if classes < FEWEST_CLASSES {
        return Err(Error::Usage(format!(
            "the data set needs at least {FEWEST_CLASSES} classes, two to train and two to test, but has {classes}"
        )));
    }
    let trains = |sample: &usize| (whole.labels[*sample] as usize) < classes / 2;
    let (train, test): (Vec<usize>, Vec<usize>) = (0..whole.len()).partition(trains);
    Ok((whole.select(&train)?, whole.select(&test)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::split::numbered;

    #[test]
    fn no_class_is_on_both_sides_and_labels_start_at_zero() {
        let (train, test) = by_class(&numbered(&[4, 0, 1, 3, 2, 0, 4])).unwrap();
        assert_eq!(train.class_names, ["class 0", "class 1"]);
        assert_eq!(train.labels, [0, 1, 0]);
        assert_eq!(train.paths, ["folder/1.jpg", "folder/2.jpg", "folder/5.jpg"]);
        assert_eq!(test.class_names, ["class 2", "class 3", "class 4"]);
        assert_eq!(test.labels, [2, 1, 0, 2]);
    }

    #[test]
    fn too_few_classes_are_refused() {
        let message = by_class(&numbered(&[0, 1, 2])).unwrap_err().to_string();
        assert_eq!(message, "the data set needs at least 4 classes, two to train and two to test, but has 3");
    }
}
