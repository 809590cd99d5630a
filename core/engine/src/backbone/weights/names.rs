//! Maps tensor names in a file to those of a network.
//!
//! Files add prefixes to the names (`module.` from parallel training, `state_dict.` in a checkpoint,
//! `model.backbone.` in a run's `model.safetensors`) or omit `features.`. No list of known prefixes is
//! needed: the mapping that matches most names is chosen.

use std::collections::HashMap;

/// A name in the file is `prefix` plus the network's name without `dropped`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mapping {
    pub prefix: String,
    pub dropped: &'static str,
    /// Number of the network's names that match.
    pub matched: usize,
}

impl Mapping {
    pub(super) fn best(wanted: &[&str], found: &[&str]) -> Self {
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
        // On a tie, the one that changes names least.
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
    pub(crate) fn in_file(&self, name: &str) -> Option<String> {
        name.strip_prefix(self.dropped).map(|rest| format!("{}{rest}", self.prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mapping_that_matches_most_names_is_chosen() {
        let wanted = ["features.0.weight", "features.0.bias", "features.1.weight"];
        let mapping = |prefix: &str, dropped| Mapping { prefix: prefix.into(), dropped, matched: 3 };
        assert_eq!(Mapping::best(&wanted, &wanted), mapping("", ""));
        let nested = wanted.map(|name| format!("state_dict.module.{name}"));
        assert_eq!(Mapping::best(&wanted, &nested.each_ref().map(String::as_str)), mapping("state_dict.module.", ""));
        assert_eq!(Mapping::best(&wanted, &["0.weight", "0.bias", "1.weight", "fc.weight"]), mapping("", "features."));
        assert_eq!(Mapping::best(&wanted, &["m.0.weight", "m.0.bias", "m.1.weight"]), mapping("m.", "features."));
    }

    #[test]
    fn of_two_complete_copies_the_one_with_the_shorter_prefix_is_chosen() {
        let wanted = ["a.weight", "b.weight"];
        let found = ["ema.a.weight", "ema.b.weight", "a.weight", "b.weight"];
        assert_eq!(Mapping::best(&wanted, &found).prefix, "");
        assert_eq!(Mapping::best(&wanted, &["x.a.bias"]).matched, 0);
    }
}
