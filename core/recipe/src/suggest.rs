//! "Did you mean …?"

/// The candidate most like a misspelt word, if any is alike enough to be what was meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |candidate: &str| strsim::normalized_damerau_levenshtein(&plain(word), &plain(candidate));
    let candidates: Vec<&str> = candidates.into_iter().collect();
    // Of equals the first wins, so that suggestions do not depend on chance.
    let mut best = None;
    for &candidate in &candidates {
        let score = likeness(candidate);
        if score >= 0.6 && best.is_none_or(|(_, highest)| score > highest) {
            best = Some((candidate, score));
        }
    }
    best.map(|(candidate, _)| candidate).or_else(|| only_one_that_begins_so(word, &candidates))
}

/// `warmup` for `warmup_epochs`.
fn only_one_that_begins_so<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let word = plain(word);
    let mut all = candidates.iter().copied().filter(|candidate| word.len() >= 3 && plain(candidate).starts_with(&word));
    all.next().filter(|_| all.next().is_none())
}

/// People mix up case, dashes and underscores; that alone is no other word.
fn plain(word: &str) -> String {
    word.chars().filter(|c| !matches!(c, '-' | '_' | ' ')).flat_map(char::to_lowercase).collect()
}

/// Names in backticks with commas: `a`, `b`, `c`.
pub fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.into_iter().map(|n| format!("`{n}`")).collect();
    names.join(", ")
}

/// The suggestion, if there is one, and then everything there is: "did you mean `a`? there are: …".
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
    fn near_words_are_found_and_far_ones_are_not() {
        let settings = ["alpha", "beta", "rho", "epsilon"];
        assert_eq!(nearest("alhpa", settings), Some("alpha"));
        assert_eq!(nearest("Epsilon", settings), Some("epsilon"));
        assert_eq!(nearest("gamma", settings), None);
        assert_eq!(nearest("warmup", ["epochs", "warmup_epochs"]), Some("warmup_epochs"));
        assert_eq!(nearest("head", ["head_epochs", "head_layers"]), None);
        assert_eq!(nearest("proxy-anchor", ["proxy_anchor"]), Some("proxy_anchor"));
    }

    #[test]
    fn help_lists_everything_there_is() {
        assert_eq!(
            help("bta", &["alpha", "beta"], "there are:").unwrap(),
            "did you mean `beta`? there are: `alpha`, `beta`"
        );
        assert_eq!(help("x", &[], "there are:"), None);
    }
}
