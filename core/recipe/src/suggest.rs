//! Suggestions for misspelt names: "did you mean …?"

/// The candidate most similar to a misspelt word, if any is similar enough.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |candidate: &str| strsim::normalized_damerau_levenshtein(&plain(word), &plain(candidate));
    let candidates: Vec<&str> = candidates.into_iter().collect();
    // The first of equals wins, so that suggestions are deterministic.
    let mut best = None;
    for &candidate in &candidates {
        let score = likeness(candidate);
        if score >= 0.6 && best.is_none_or(|(_, highest)| score > highest) {
            best = Some((candidate, score));
        }
    }
    best.map(|(candidate, _)| candidate).or_else(|| unique_prefix_match(word, &candidates))
}

/// The only candidate with this prefix: `warmup_epochs` for `warmup`.
fn unique_prefix_match<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let word = plain(word);
    let mut all = candidates.iter().copied().filter(|candidate| word.len() >= 3 && plain(candidate).starts_with(&word));
    all.next().filter(|_| all.next().is_none())
}

/// The word without case, dashes and underscores, which people mix up.
fn plain(word: &str) -> String {
    word.chars().filter(|c| !matches!(c, '-' | '_' | ' ')).flat_map(char::to_lowercase).collect()
}

/// Names in backticks, separated by commas: `a`, `b`, `c`.
pub(crate) fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.into_iter().map(|n| format!("`{n}`")).collect();
    names.join(", ")
}

/// The suggestion, if there is one, then all candidates: "did you mean `a`? available: …".
pub fn help(word: &str, candidates: &[&str], lead: &str) -> Option<String> {
    let all = (!candidates.is_empty()).then(|| format!("{lead} {}", quoted(candidates.iter().copied())));
    match (nearest(word, candidates.iter().copied()), all) {
        (Some(best), Some(all)) => Some(format!("did you mean `{best}`? {all}")),
        (_, all) => all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_words_are_suggested_and_others_are_not() {
        let settings = ["alpha", "beta", "rho", "epsilon"];
        assert_eq!(nearest("alhpa", settings), Some("alpha"));
        assert_eq!(nearest("Epsilon", settings), Some("epsilon"));
        assert_eq!(nearest("gamma", settings), None);
        assert_eq!(nearest("warmup", ["epochs", "warmup_epochs"]), Some("warmup_epochs"));
        assert_eq!(nearest("head", ["head_epochs", "head_layers"]), None);
        assert_eq!(nearest("proxy-anchor", ["proxy_anchor"]), Some("proxy_anchor"));
    }

    #[test]
    fn help_lists_all_candidates() {
        assert_eq!(
            help("bta", &["alpha", "beta"], "available:").unwrap(),
            "did you mean `beta`? available: `alpha`, `beta`"
        );
        assert_eq!(help("x", &[], "available:"), None);
    }
}
