//! Errors and warnings about a recipe, with the place underlined.

use crate::source::{Origin, Place, Source};
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError, MietteSpanContents};
use miette::{SourceCode, SourceSpan, SpanContents};
use serde_json::{Value as Json, json};
use std::fmt;

/// An error in a recipe, or a warning about it.
#[derive(Debug, Clone)]
pub struct Problem {
    /// Whether it is a warning, so that the recipe can still be used.
    pub is_warning: bool,
    /// Dotted path of the setting, empty for the recipe as a whole.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// Where it was written; `None` for defaults.
    pub place: Option<Place>,
    /// A short label under the underlined place.
    pub label: String,
    /// How to fix it.
    pub help: Option<String>,
}

impl Problem {
    /// Whether underlining fails because the formatter counts columns in 16 bits.
    fn exceeds_column_limit(&self) -> bool {
        self.place.as_ref().is_some_and(|Place { source, span }| {
            let line = source.text[..span.start].rfind('\n').map_or(0, |end| end + 1);
            span.end - line > 60_000
        })
    }

    /// An error at this origin.
    pub fn new(origin: &Origin, message: impl Into<String>) -> Self {
        Self {
            is_warning: false,
            path: String::new(),
            message: message.into(),
            place: origin.place().cloned(),
            label: String::new(),
            help: None,
        }
    }

    /// A warning at this origin.
    pub fn warning(origin: &Origin, message: impl Into<String>) -> Self {
        Self { is_warning: true, ..Self::new(origin, message) }
    }

    /// Sets the path of the setting.
    pub fn at(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Sets the label under the underlined place.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Sets the help text.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Two problems with the same identity say the same about the same place.
    pub(crate) fn identity(&self) -> (String, String, Option<(String, usize, usize)>) {
        let place = self.place.as_ref().map(|place| (place.source.name.clone(), place.span.start, place.span.end));
        (self.path.clone(), self.message.clone(), place)
    }

    /// Severity, setting, message, help and place as JSON.
    pub fn to_json(&self) -> Json {
        let mut json = json!({
            "severity": if self.is_warning { "warning" } else { "error" },
            "setting": self.path,
            "message": self.message,
            "help": self.help,
        });
        if let Some(place) = &self.place {
            json["source"] = place.source.name.as_str().into();
            json["line"] = place.line().into();
            json["column"] = place.column().into();
        }
        json
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

impl Diagnostic for Problem {
    fn severity(&self) -> Option<miette::Severity> {
        Some(if self.is_warning { miette::Severity::Warning } else { miette::Severity::Error })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.place.as_ref().map(|place| &*place.source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let place = self.place.as_ref()?;
        let label = (!self.label.is_empty()).then(|| self.label.clone());
        let mut span = place.span.clone();
        // An empty span at the end of the text is not drawn, so the last character is underlined.
        if span.is_empty() && span.start == place.source.text.len() {
            span.start -= place.source.text.chars().next_back().map_or(0, char::len_utf8);
        }
        Some(Box::new(std::iter::once(LabeledSpan::new(label, span.start, span.len()))))
    }
}

impl SourceCode for Source {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let inner = self.text.read_span(span, before, after)?;
        let named = MietteSpanContents::new_named(
            self.name.clone(),
            inner.data(),
            *inner.span(),
            inner.line(),
            inner.column(),
            inner.line_count(),
        );
        Ok(Box::new(named))
    }
}

/// More problems than this are counted, not listed: each one is looked up in the source, which takes long.
const LISTED: usize = 100;

/// The errors in a recipe, the first 100 of them and one that counts the others; never empty.
#[derive(Debug, Clone)]
pub struct Problems {
    all: Vec<Problem>,
    /// Counts those that are not listed.
    rest: Option<Box<Problem>>,
}

impl Problems {
    /// `Ok` if there are none.
    pub fn check(problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(problems.into()) }
    }

    /// Those that are listed.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        let listed = if self.rest.is_some() { LISTED } else { self.all.len() };
        self.all.iter().take(listed).chain(self.rest.as_deref())
    }

    /// All of them, to combine with others.
    pub(crate) fn into_all(self) -> Vec<Problem> {
        self.all
    }

    /// The number of all problems, listed or not.
    pub fn count(&self) -> usize {
        self.all.len()
    }
}

impl From<Vec<Problem>> for Problems {
    fn from(all: Vec<Problem>) -> Self {
        // One more would take the line that counts the rest.
        let more = all.len().saturating_sub(LISTED);
        let rest = (more > 1).then(|| Problem::new(&Origin::Default, format!("and {more} more problems")).into());
        Self { all, rest }
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        vec![problem].into()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.all.as_slice() {
            [one] => f.write_str(&one.message),
            many => write!(f, "the recipe has {} problems", many.len()),
        }
    }
}

impl std::error::Error for Problems {}

impl Diagnostic for Problems {
    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(self.iter().map(|p| p as &dyn Diagnostic)))
    }
}

/// Renders problems as text, each with its place underlined.
pub fn render<'a>(problems: impl IntoIterator<Item = &'a Problem>, width: usize, colour: bool) -> String {
    let theme = if colour { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    // Lines break at spaces alone, so that paths and commands can be copied.
    let handler = GraphicalReportHandler::new_themed(theme)
        .with_width(width)
        .with_links(false)
        .with_break_words(false)
        .with_word_separator(textwrap::WordSeparator::AsciiSpace)
        .with_word_splitter(textwrap::WordSplitter::NoHyphenation);
    let mut text = String::new();
    for problem in problems {
        // Rendering fails only if a span is outside its source; fall back to plain text then.
        let before = text.len();
        if problem.exceeds_column_limit() || handler.render_report(&mut text, problem).is_err() {
            text.truncate(before);
            text.push_str(&format!("  × {problem}\n"));
            text.extend(problem.help.as_ref().map(|help| format!("  help: {help}\n")));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn very_many_problems_are_counted_instead_of_listed() {
        let many = |n: usize| {
            Problems::from((0..n).map(|i| Problem::new(&Origin::Default, format!("{i}"))).collect::<Vec<_>>())
        };
        assert_eq!((many(101).iter().count(), many(50_000).iter().count()), (101, 101));
        assert_eq!(many(50_000).iter().last().unwrap().message, "and 49900 more problems");
        assert_eq!(many(50_000).to_string(), "the recipe has 50000 problems");
    }

    #[test]
    fn paths_are_not_broken() {
        let path = format!("runs/{}-0123abcd/seed-0", "balanced-self-paced".repeat(5));
        let problem = Problem::new(&Origin::Default, format!("cannot read `{path}`: no such file or folder"));
        let text = render([&problem], 60, false);
        assert!(text.contains(&path) && text.lines().count() > 2, "{text}");
    }

    #[test]
    fn the_place_is_underlined_and_help_follows() {
        let source = Source {
            name: "a.toml".into(),
            text: "x = 1\nyy = 2\n".into(),
            folder: Default::default(),
            is_argument: false,
        };
        let origin = Origin::Written(Place::new(&Arc::new(source), 6..8));
        let problem = Problem::new(&origin, "unknown setting `yy`").label("no such setting").help("did you mean `y`?");
        let text = render([&problem], 80, false);
        assert!(text.contains("a.toml:2:1") && text.contains("── no such setting"), "{text}");
        assert!(text.contains("help: did you mean `y`?"), "{text}");
        assert!(!text.contains('\u{1b}'), "colour is off");
        assert_eq!(problem.at("yy").to_json()["line"], 2);
    }
}
