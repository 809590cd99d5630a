//! Lists of methods in few words.

/// The names, with methods named `loss+weights` taken together where all weights of a loss, or all losses with
/// certain weights, are listed.
pub(super) fn listed(names: &[String], all: &[String]) -> String {
    let loss = |name: &str| name.split('+').next().unwrap_or_default().trim().to_string();
    let weights = |name: &str| name.split_once('+').map(|(_, weights)| weights.trim().to_string());
    let mut left: Vec<&String> = names.iter().collect();
    let mut take = |key: &dyn Fn(&str) -> Option<String>| {
        let mut complete: Vec<String> = Vec::new();
        for key_of in names.iter().filter_map(|name| key(name)) {
            let same = |name: &&String| key(name).as_ref() == Some(&key_of);
            let (here, there) = (left.iter().filter(|name| same(name)).count(), all.iter().filter(same).count());
            if here == there && here > 2 {
                left.retain(|name| !same(name));
                complete.push(key_of);
            }
        }
        complete.join(", ")
    };
    let (losses, schemes) = (take(&|name| Some(loss(name))), take(&weights));
    let mut parts: Vec<String> = Vec::new();
    parts.extend((!losses.is_empty()).then(|| format!("{losses} with all weights")));
    parts.extend((!schemes.is_empty()).then(|| format!("{schemes} with all losses")));
    let rest: Vec<&str> = left.iter().map(|name| name.as_str()).collect();
    parts.extend((!rest.is_empty()).then(|| rest.join(", ")));
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn methods(losses: &[&str], weights: &[&str]) -> Vec<String> {
        let own = |loss: &&str| {
            let loss = loss.to_string();
            weights
                .iter()
                .map(move |w| if w.is_empty() { loss.clone() } else { format!("{loss}+{w}") })
                .collect::<Vec<_>>()
        };
        losses.iter().flat_map(own).collect()
    }

    #[test]
    fn methods_are_taken_together_where_all_of_a_kind_are_listed() {
        let all = methods(&["ms", "snr", "fastap"], &["", "knn", "oracle"]);
        assert_eq!(listed(&methods(&["ms", "snr"], &["", "knn", "oracle"]), &all), "ms, snr with all weights");
        assert_eq!(listed(&methods(&["ms", "snr", "fastap"], &["knn"]), &all), "knn with all losses");
        let mut some = methods(&["ms"], &["", "knn", "oracle"]);
        some.push("snr+knn".into());
        assert_eq!(listed(&some, &all), "ms with all weights; snr+knn");
    }

    #[test]
    fn few_names_and_other_names_are_listed_as_they_are() {
        let all = ["ms", "ms+knn", "snr", "clean"].map(String::from).to_vec();
        assert_eq!(listed(&all[..3], &all), "ms, ms+knn, snr");
        assert_eq!(listed(&[], &all), "");
    }
}
