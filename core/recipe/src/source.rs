//! Sources of settings, and where in them a value was written.

use crate::built_in;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// A text that settings come from: a recipe file, or one `--set` argument.
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name in messages: the file's path as the user would type it, or `--set`.
    pub name: String,
    /// The whole text.
    pub text: String,
    /// The folder that paths in it are relative to: the file's folder, or the current one.
    pub folder: PathBuf,
    /// Whether it is a command-line argument rather than a file.
    pub is_argument: bool,
}

impl Source {
    /// Whether it is a recipe that is part of the program.
    pub fn is_built_in(&self) -> bool {
        built_in::is_built_in(self.name.as_ref())
    }
}

/// A span of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The source.
    pub source: Arc<Source>,
    /// Byte range in its text.
    pub span: Range<usize>,
}

impl Place {
    /// A span of a source.
    pub fn new(source: &Arc<Source>, span: Range<usize>) -> Self {
        Self { source: Arc::clone(source), span }
    }

    /// The line it starts in, counted from 1.
    pub fn line(&self) -> usize {
        self.before().matches('\n').count() + 1
    }

    /// The column it starts in, in characters counted from 1.
    pub fn column(&self) -> usize {
        self.before().chars().rev().take_while(|&c| c != '\n').count() + 1
    }

    fn before(&self) -> &str {
        self.source.text.get(..self.span.start).unwrap_or_default()
    }
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Origin {
    /// The default.
    #[default]
    Default,
    /// Written there.
    Written(Place),
}

impl Origin {
    /// Where it was written, if it was.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Origin::Default => None,
            Origin::Written(place) => Some(place),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::Written(place) if place.source.is_argument => f.write_str(&place.source.name),
            Origin::Written(place) => write!(f, "{}:{}", place.source.name, place.line()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str, text: &str, is_argument: bool) -> Arc<Source> {
        Arc::new(Source { name: name.into(), text: text.into(), folder: PathBuf::new(), is_argument })
    }

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        let file = source("a.toml", "# é\nx = 1\nµ = 2", false);
        let at = |needle: &str| {
            let start = file.text.find(needle).unwrap();
            let place = Place::new(&file, start..start + 1);
            (place.line(), place.column())
        };
        assert_eq!(at("#"), (1, 1));
        assert_eq!(at("1"), (2, 5));
        assert_eq!(at("2"), (3, 5));
    }

    #[test]
    fn an_origin_shows_file_and_line_or_the_flag() {
        assert_eq!(Origin::Default.to_string(), "default");
        assert_eq!(Origin::Written(Place::new(&source("b/a.toml", "\n\nx", false), 2..3)).to_string(), "b/a.toml:3");
        assert_eq!(Origin::Written(Place::new(&source("--set", "x=1", true), 0..1)).to_string(), "--set");
    }
}
