//! Finding samples by paths that were written down elsewhere.

use std::collections::HashMap;

/// Finds samples by path. Two paths match if one is the end of the other, folder by folder:
/// `/data/images/001/a.jpg` is `001/a.jpg`, but not `b/001/a.jpg`.
pub struct Finder<'a> {
    /// Samples by their whole path.
    whole: HashMap<&'a str, usize>,
    /// Samples by the ends of their paths; nothing where several end so.
    ends: HashMap<&'a str, Option<usize>>,
}

impl<'a> Finder<'a> {
    /// Of samples with these paths.
    pub fn new(paths: &'a [String]) -> Self {
        let mut finder = Self { whole: HashMap::new(), ends: HashMap::new() };
        for (sample, path) in paths.iter().enumerate() {
            finder.whole.insert(path, sample);
            for end in ends(path) {
                finder.ends.entry(end).and_modify(|other| *other = None).or_insert(Some(sample));
            }
        }
        finder
    }

    /// The sample of a path, or what is wrong with the path.
    pub fn find(&self, path: &str) -> Result<usize, &'static str> {
        // The listed path is the longer one, or else the shorter one.
        match ends(path).find_map(|end| self.whole.get(end)) {
            Some(sample) => Ok(*sample),
            None => match self.ends.get(path.trim_start_matches('/')) {
                Some(Some(sample)) => Ok(*sample),
                Some(None) => Err("is the end of several training samples' paths; write more of it"),
                None => Err("is no training sample"),
            },
        }
    }
}

/// A path, then the same without its first folder, and so on.
fn ends(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |rest| rest.split_once('/').map(|(_, end)| end)).filter(|end| !end.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_match_when_one_is_the_end_of_the_other() {
        let paths = ["set/001/a.jpg", "set/001/b.jpg", "set/002/a.jpg", "c.jpg"].map(String::from);
        let finder = Finder::new(&paths);
        assert_eq!(finder.find("set/002/a.jpg"), Ok(2));
        assert_eq!(finder.find("/data/set/002/a.jpg"), Ok(2));
        assert_eq!(finder.find("002/a.jpg"), Ok(2));
        assert_eq!(finder.find("/b.jpg"), Ok(1));
        assert_eq!(finder.find("x/y/c.jpg"), Ok(3));
        assert_eq!(finder.find("a.jpg"), Err("is the end of several training samples' paths; write more of it"));
        for stranger in ["other/002/a.jpg", "2/a.jpg", "set/001", "", "/"] {
            assert_eq!(finder.find(stranger), Err("is no training sample"), "{stranger}");
        }
    }
}
