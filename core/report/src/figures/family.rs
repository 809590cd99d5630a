//! Which loss a method has, and what distinguishes it from other methods with this loss.

use crate::Comparison;

/// A method as a variant of its loss.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Family {
    /// The loss.
    pub loss: String,
    /// Its weight scheme, or the method's name if others have the same loss and weights.
    pub variant: String,
    /// The style of this variant in all small multiples of a report.
    pub style: usize,
}

impl Family {
    /// The families of all methods, in their order.
    pub(super) fn all(comparison: &Comparison) -> Vec<Self> {
        let own = |method: &String| {
            let run = comparison.runs.iter().find(|run| run.method == *method);
            run.map(|run| (run.result.loss.as_str(), run.result.weights.as_str())).unwrap_or_default()
        };
        let pairs: Vec<(&str, &str)> = comparison.methods.iter().map(own).collect();
        let mut families: Vec<Self> = Vec::new();
        for (method, pair) in comparison.methods.iter().zip(&pairs) {
            let (loss, weights) = *pair;
            let variant = match weights {
                _ if pairs.iter().filter(|other| *other == pair).count() > 1 => method.clone(),
                "uniform" => "no weights".into(),
                scheme => scheme.replace('_', " "),
            };
            let known = families.iter().find(|family| family.variant == variant).map(|family| family.style);
            let style = known.unwrap_or_else(|| families.iter().map(|family| family.style + 1).max().unwrap_or(0));
            families.push(Self { loss: loss.into(), variant, style });
        }
        families
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FoundRuns, Selection, fixture};

    #[test]
    fn a_weight_scheme_has_one_name_and_style_with_all_losses() {
        let mut runs = Vec::new();
        let methods = [
            ("ms", "ms", "uniform"),
            ("ms+knn", "ms", "knn"),
            ("snr+knn", "snr", "knn"),
            ("slow", "triplet", "self_paced"),
            ("fast", "triplet", "self_paced"),
        ];
        for (method, loss, weights) in methods {
            let mut run = fixture::run(method, "noisy", 0, 0.5);
            (run.result.loss, run.result.weights) = (loss.into(), weights.into());
            runs.push(run);
        }
        let comparison = Comparison::new(FoundRuns { runs, skipped: Vec::new() }, &Selection::default()).unwrap();
        let families = Family::all(&comparison);
        let of = |method: &str| {
            let Family { loss, variant, style } =
                &families[comparison.methods.iter().position(|m| m == method).unwrap()];
            (loss.as_str(), variant.as_str(), *style)
        };
        assert_eq!((of("ms"), of("ms+knn").1, of("snr+knn").1), (("ms", "no weights", 0), "knn", "knn"));
        assert_eq!(of("ms+knn").2, of("snr+knn").2);
        assert_eq!((of("slow").1, of("fast").1), ("slow", "fast"), "weights do not distinguish them");
        assert_ne!(of("slow").2, of("fast").2);
    }
}
