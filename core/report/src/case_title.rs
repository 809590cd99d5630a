//! Titles of cases as papers print them.

use crate::Comparison;
use curricle_record::setting;

/// The title of a case: `20 % noise` for `ratio=0.2` or `noise.ratio = 0.2`; other names as they are.
pub(crate) fn case_title(comparison: &Comparison, case: &str) -> String {
    let ratio = comparison
        .runs
        .iter()
        .find(|run| run.case == case)
        .and_then(|run| setting(&run.settings, "noise.ratio").and_then(serde_json::Value::as_f64));
    let part = |part: &str| {
        let value = ["noise.ratio = ", "noise.ratio=", "ratio="].iter().find_map(|name| part.strip_prefix(name));
        match value.and_then(|value| value.parse::<f64>().ok()) {
            Some(value) if ratio.is_none_or(|ratio| ratio == value) => {
                format!("{} % noise", (1e4 * value).round() / 100.0)
            }
            _ if part == "no noise.ratio" => "no noise".into(),
            _ => part.to_string(),
        }
    };
    case.split(", ").map(part).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FoundRuns, Selection, fixture};

    #[test]
    fn noise_ratios_become_percentages() {
        let found = FoundRuns { runs: fixture::runs(), skipped: Vec::new() };
        let comparison = Comparison::new(found, &Selection::default()).unwrap();
        let title = |case: &str| case_title(&comparison, case);
        assert_eq!(title("ratio=0.2"), "20 % noise");
        assert_eq!(title("noise.ratio = 0.075"), "7.5 % noise");
        assert_eq!(title("no noise.ratio"), "no noise");
        assert_eq!(title("clean, size=64"), "clean, size=64");
    }
}
