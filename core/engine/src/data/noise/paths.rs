//! Finds samples by the paths of a list from elsewhere.

use std::collections::HashMap;

/// Finds samples by path. Two paths match if one is a suffix of the other, folder by folder:
/// `/data/images/001/a.jpg` matches `001/a.jpg`, but not `b/001/a.jpg`.
pub(super) struct Finder<'a> {
    /// Samples by full path.
    whole: HashMap<&'a str, usize>,
    /// Samples by path suffix; `None` if the suffix is ambiguous.
    ends: HashMap<&'a str, Option<usize>>,
}

impl<'a> Finder<'a> {
    /// A finder for samples with these paths.
    pub(super) fn new(paths: &'a [String]) -> Self {
        let mut finder = Self { whole: HashMap::new(), ends: HashMap::new() };
        for (sample, path) in paths.iter().enumerate() {
            finder.whole.insert(path, sample);
            for end in ends(path) {
                finder.ends.entry(end).and_modify(|other| *other = None).or_insert(Some(sample));
            }
        }
        finder
    }

    /// The sample with this path, or what is wrong with the path.
    pub(super) fn find(&self, path: &str) -> Result<usize, &'static str> {
        // First assume that the listed path is the longer one, then the shorter one.
        match ends(path).find_map(|end| self.whole.get(end)) {
            Some(sample) => Ok(*sample),
            None => match self.ends.get(path.trim_start_matches('/')) {
                Some(Some(sample)) => Ok(*sample),
                Some(None) => Err("matches several training samples; write more of the path"),
                None => Err("is not a training sample"),
            },
        }
    }
}

/// All suffixes of a path, folder by folder, longest first.
fn ends(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |rest| rest.split_once('/').map(|(_, end)| end)).filter(|end| !end.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_match_if_one_is_a_suffix_of_the_other() {
        let paths = ["set/001/a.jpg", "set/001/b.jpg", "set/002/a.jpg", "c.jpg"].map(String::from);
        let finder = Finder::new(&paths);
        assert_eq!(finder.find("set/002/a.jpg"), Ok(2));
        assert_eq!(finder.find("/data/set/002/a.jpg"), Ok(2));
        assert_eq!(finder.find("002/a.jpg"), Ok(2));
        assert_eq!(finder.find("/b.jpg"), Ok(1));
        assert_eq!(finder.find("x/y/c.jpg"), Ok(3));
        assert_eq!(finder.find("a.jpg"), Err("matches several training samples; write more of the path"));
        for unknown in ["other/002/a.jpg", "2/a.jpg", "set/001", "", "/"] {
            assert_eq!(finder.find(unknown), Err("is not a training sample"), "{unknown}");
        }
    }
}
