//! The validation split: training classes held out for choosing settings, so that test classes are not used.

use super::Split;
use super::noise::NoisySplit;
use crate::{Error, Result};
use curricle_recipe::EvalRecipe;

/// Splits a training set, noise included, into a smaller training set and a validation set.
///
/// The last classes are held out, just as the last classes of a data set are the test set. A sample belongs
/// to the class of its label, right or wrong: when settings are chosen, true labels are unknown.
pub(crate) fn hold_out(training: &NoisySplit, eval: &EvalRecipe) -> Result<(NoisySplit, Split)> {
    let classes = training.split.class_names.len();
    if classes < 4 {
        return Err(Error::Usage(format!(
            "`eval.on = \"validation\"` needs at least 4 training classes, two to train and two to validate, but the \
             data set has {classes}"
        )));
    }
    let first = (classes - eval.validation_classes(classes)) as i64;
    let (train, validation): (Vec<usize>, Vec<usize>) =
        (0..training.split.len()).partition(|sample| training.split.labels[*sample] < first);
    let kept = NoisySplit {
        split: training.split.select(&train)?,
        flipped: train.iter().map(|sample| training.flipped[*sample]).collect(),
        samples: train.iter().map(|sample| training.samples[*sample]).collect(),
    };
    Ok((kept, training.split.select(&validation)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::noise;
    use crate::data::split::numbered;
    use curricle_recipe::NoiseRecipe;

    fn noisy(labels: &[i64]) -> NoisySplit {
        let split = numbered(labels);
        let noise = NoiseRecipe::Uniform { ratio: 0.4, seed: Some(1), remove_flipped: false };
        noise::apply(&noise, &split, 0, noise::tests::no_network).unwrap().training_set(&split, false).unwrap()
    }

    fn share(validation_share: f64) -> EvalRecipe {
        EvalRecipe { validation_share, ..Default::default() }
    }

    #[test]
    fn no_class_is_in_both_splits_and_wrong_labels_stay_wrong() {
        let all = noisy(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].repeat(5));
        let (training, validation) = hold_out(&all, &share(0.3)).unwrap();
        assert_eq!(validation.class_names, ["class 7", "class 8", "class 9"]);
        assert_eq!(training.split.class_names.len(), 7);
        assert_eq!(training.split.len() + validation.len(), all.split.len());
        let label_of = |path: &String| {
            let sample = all.split.paths.iter().position(|p| p == path).unwrap();
            all.split.class_names[all.split.labels[sample] as usize].clone()
        };
        for split in [&training.split, &validation] {
            for (path, label) in split.paths.iter().zip(&split.labels) {
                assert_eq!(split.class_names[*label as usize], label_of(path));
            }
        }
        let wrong = validation.paths.iter().filter(|path| {
            let sample: usize = path.trim_start_matches("folder/").trim_end_matches(".jpg").parse().unwrap();
            label_of(path) != format!("class {}", sample % 10)
        });
        assert!(wrong.count() > 0, "wrong labels are not corrected");
        for (place, sample) in training.samples.iter().enumerate() {
            assert_eq!(training.split.paths[place], all.split.paths[*sample]);
            assert_eq!(training.flipped[place], all.flipped[*sample]);
        }
    }

    #[test]
    fn both_splits_have_at_least_two_classes() {
        assert_eq!([0.01, 0.2, 0.25, 0.99].map(|split| share(split).validation_classes(10)), [2, 2, 3, 8]);
        assert_eq!(share(0.9).validation_classes(4), 2);
        let message = hold_out(&noisy(&[0, 1, 2, 0, 1, 2, 0, 1, 2]), &share(0.2)).unwrap_err().to_string();
        assert!(message.contains("needs at least 4 training classes") && message.contains("has 3"), "{message}");
    }
}
