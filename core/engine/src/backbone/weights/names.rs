//! How the names in a file relate to those of a network.
//!
//! Files put something before the names (`module.` of parallel training, `state_dict.` of a
//! checkpoint, `model.backbone.` of a run's own `model.safetensors`) or leave `features.` out. None
//! of this is a list of known habits: whichever relation explains most names is the right one.

use std::collections::{BTreeMap, HashMap};
use tch::Tensor;

/// A name in the file is `prefix` and the network's name without `dropped`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mapping {
    pub prefix: String,
    pub dropped: &'static str,
    /// Names of the network that are explained.
    pub matched: usize,
}

impl Mapping {
    pub fn best(wanted: &[&str], found: &[&str]) -> Self {
        let mut counts: HashMap<(String, &'static str), usize> = HashMap::new();
        for dropped in ["", "features."] {
            for name in wanted.iter().filter_map(|name| name.strip_prefix(dropped)) {
                for prefix in found.iter().filter_map(|other| other.strip_suffix(name)) {
                    if prefix.is_empty() || prefix.ends_with('.') {
                        *counts.entry((prefix.to_string(), dropped)).or_default() += 1;
                    }
                }
            }
        }
        // Of equals the one that changes names least.
        let best = counts.into_iter().max_by(|((a, a_drops), a_count), ((b, b_drops), b_count)| {
            let least = (b_drops.len() + b.len()).cmp(&(a_drops.len() + a.len()));
            a_count.cmp(b_count).then(least).then(b.cmp(a))
        });
        best.map_or(Self { prefix: String::new(), dropped: "", matched: 0 }, |((prefix, dropped), matched)| Self {
            prefix,
            dropped,
            matched,
        })
    }

    /// The name in the file.
    pub fn in_file(&self, name: &str) -> Option<String> {
        name.strip_prefix(self.dropped).map(|rest| format!("{}{rest}", self.prefix))
    }

    pub fn finds(&self, name: &str, found: &BTreeMap<String, Tensor>) -> bool {
        self.in_file(name).is_some_and(|name| found.contains_key(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_relation_that_explains_most_names_is_taken() {
        let wanted = ["features.0.weight", "features.0.bias", "features.1.weight"];
        let mapping = |prefix: &str, dropped| Mapping { prefix: prefix.into(), dropped, matched: 3 };
        assert_eq!(Mapping::best(&wanted, &wanted), mapping("", ""));
        let nested = wanted.map(|name| format!("state_dict.module.{name}"));
        assert_eq!(Mapping::best(&wanted, &nested.each_ref().map(String::as_str)), mapping("state_dict.module.", ""));
        assert_eq!(Mapping::best(&wanted, &["0.weight", "0.bias", "1.weight", "fc.weight"]), mapping("", "features."));
        assert_eq!(Mapping::best(&wanted, &["m.0.weight", "m.0.bias", "m.1.weight"]), mapping("m.", "features."));
    }

    #[test]
    fn of_two_whole_copies_the_one_with_the_shorter_name_is_taken() {
        let wanted = ["a.weight", "b.weight"];
        let found = ["ema.a.weight", "ema.b.weight", "a.weight", "b.weight"];
        assert_eq!(Mapping::best(&wanted, &found).prefix, "");
        assert_eq!(Mapping::best(&wanted, &["x.a.bias"]).matched, 0);
    }
}
