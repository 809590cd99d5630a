//! Parsing of TOML text into a tree with the origin of every value.

use crate::problems::Problem;
use crate::source::{Origin, Place, Source};
use crate::syntax;
use crate::tree::{Entry, Node, Table, Value};
use std::ops::Range;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The root table of a document, or all of its syntax errors.
pub(crate) fn parse(source: &Arc<Source>) -> Result<Table, Vec<Problem>> {
    let (document, errors) = DeTable::parse_recoverable(&source.text);
    if errors.is_empty() {
        return Ok(TreeReader(source).table(document.get_ref()));
    }
    // The recovering parser reports some places more than once, and out of order.
    let mut errors: Vec<_> = errors.iter().map(|e| (e.span().unwrap_or(0..0), e.message())).collect();
    errors.sort_by_key(|(span, _)| span.start);
    errors.dedup_by_key(|(span, _)| span.start);
    // One mistake can be several errors, of which the first is the clearest.
    let known = |span: &Range<usize>| {
        // Nobody writes such a long recipe by hand, and finding a line in it takes long.
        if source.text.len() > 100_000 {
            return None;
        }
        let line = syntax::line_at(&source.text, span.start);
        syntax::help(&source.text[line.clone()]).map(|help| (line, help))
    };
    errors.dedup_by_key(|(span, _)| known(span).map_or(span.start..span.start, |(line, _)| line));
    let problem = |(span, message): (Range<usize>, &str)| {
        let help = known(&span).map(|(_, help)| help);
        let problem = Problem::new(&TreeReader(source).origin(span), format!("not valid TOML: {message}"));
        Problem { help, ..problem.label("here") }
    };
    Err(errors.into_iter().map(problem).collect())
}

struct TreeReader<'s>(&'s Arc<Source>);

impl TreeReader<'_> {
    fn origin(&self, span: Range<usize>) -> Origin {
        Origin::Written(Place::new(self.0, span))
    }

    fn table(&self, table: &DeTable) -> Table {
        let mut entries: Vec<_> = table.iter().collect();
        // The parser sorts by name; restore the order of the file.
        entries.sort_by_key(|(key, _)| key.span().start);
        let mut result = Table::default();
        for (key, value) in entries {
            let key_origin = self.origin(key.span());
            result.insert(Entry { key: key.get_ref().to_string(), key_origin, node: self.node(value) });
        }
        result
    }

    fn node(&self, spanned: &Spanned<DeValue>) -> Node {
        let value = match spanned.get_ref() {
            DeValue::String(text) => Value::String(text.to_string()),
            DeValue::Boolean(b) => Value::Boolean(*b),
            DeValue::Datetime(date) => Value::Datetime(date.to_string()),
            DeValue::Array(items) => Value::Array(items.iter().map(|item| self.node(item)).collect()),
            DeValue::Table(table) => Value::Table(self.table(table)),
            // A number too large for i128 is too large for any setting; validation refuses infinity.
            DeValue::Integer(i) => {
                i128::from_str_radix(i.as_str(), i.radix()).map_or(Value::Float(f64::INFINITY), Value::Integer)
            }
            DeValue::Float(f) => Value::Float(f.as_str().parse().unwrap_or(f64::INFINITY)),
        };
        Node { value, origin: self.origin(spanned.span()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn source(text: &str) -> Arc<Source> {
        Arc::new(Source { name: "a.toml".into(), text: text.into(), folder: Default::default(), is_argument: false })
    }

    #[test]
    fn values_keep_their_origins() {
        let text = "b = 0x10\na.c = [1.5, 'x']\n[t]\nok = true\nseed = 18446744073709551615\n";
        let table = parse(&source(text)).unwrap();
        let node = Node { value: Value::Table(table), origin: Origin::Default };
        let expected = json!({ "b": 16, "a": { "c": [1.5, "x"] }, "t": { "ok": true, "seed": u64::MAX } });
        assert_eq!(node.to_json(), expected);
        let ok = node.find("t.ok").unwrap();
        let text_at = |origin: &Origin| text[origin.place().unwrap().span.clone()].to_string();
        assert_eq!(text_at(&ok.key_origin), "ok");
        assert_eq!(text_at(&ok.node.origin), "true");
        assert_eq!(text_at(&node.find("a.c").unwrap().node.origin), "[1.5, 'x']");
    }

    #[test]
    fn every_syntax_error_is_reported() {
        let problems = parse(&source("a = \nb = 1\nc = [1,\n")).unwrap_err();
        assert_eq!(problems.len(), 2);
        assert_eq!(problems[0].place.as_ref().unwrap().line(), 1);
    }

    #[test]
    fn a_line_with_a_known_mistake_is_one_error_with_help() {
        let help = |text: &str| parse(&source(text)).unwrap_err().into_iter().map(|p| p.help).collect::<Vec<_>>();
        assert_eq!(help("a = 1\nlr: 0.1\n"), [Some("recipes are TOML, not YAML; write `lr = 0.1`".to_string())]);
        assert_eq!(help("name = bspml\n"), [Some("write `name = \"bspml\"`".to_string())]);
        assert_eq!(help("[loss\n"), [None]);
    }

    #[test]
    fn a_huge_number_is_not_silently_truncated() {
        let table = parse(&source(&format!("a = 1{}", "0".repeat(60)))).unwrap();
        assert_eq!(table.get("a").unwrap().node.value, Value::Float(f64::INFINITY));
    }
}
