//! `--set key=value` arguments.
//!
//! Each is a one-line TOML document; a value that is not TOML is read as a string, so that
//! `--set loss.name=snr` needs no nested quotes. All arguments are merged and applied after the
//! files, so their order matters only if two of them set the same key.

use crate::parse::parse;
use crate::problems::{Problem, Problems};
use crate::source::{Origin, Place, Source};
use crate::tree::{Node, Table, Value};
use std::path::PathBuf;
use std::sync::Arc;

/// The settings of each argument, or the problems of all of them.
pub(crate) fn tables(arguments: &[String]) -> Result<Vec<Table>, Problems> {
    let mut tables = Vec::new();
    let mut problems = Vec::new();
    for argument in arguments {
        let source = Arc::new(Source {
            name: "--set".into(),
            text: argument.clone(),
            folder: PathBuf::new(),
            is_argument: true,
        });
        match table(&source) {
            Ok(table) => tables.push(table),
            Err(found) => problems.extend(found),
        }
    }
    Problems::check(problems)?;
    Ok(tables)
}

fn table(source: &Arc<Source>) -> Result<Table, Vec<Problem>> {
    let text = &source.text;
    let whole = Origin::Written(Place::new(source, 0..text.len()));
    let (key, value) = match text.split_once('=') {
        Some(parts) if !text.contains('\n') && !text.trim_start().starts_with('[') => parts,
        _ => {
            let problem = Problem::new(&whole, format!("`--set {}` is not an assignment", text.replace('\n', " ")))
                .label("not `key=value`")
                .help("for example `--set loss.alpha=3`");
            return Err(vec![problem]);
        }
    };
    let table = match parse(source) {
        Ok(table) => table,
        Err(_) if is_bare_word(value) => bare_word(source, key, value)?,
        Err(problems) => return Err(problems),
    };
    if let Some(extends) = table.get("extends") {
        let problem = Problem::new(&extends.key_origin, "`extends` cannot be set on the command line")
            .at("extends")
            .help("set it in the recipe");
        return Err(vec![problem]);
    }
    Ok(table)
}

/// Whether a value does not start like a quoted string, a list or a table.
fn is_bare_word(value: &str) -> bool {
    value.trim_start().starts_with(|c: char| !matches!(c, '"' | '\'' | '[' | '{' | '#'))
}

/// Parses the key as TOML and takes the value verbatim.
fn bare_word(source: &Arc<Source>, key: &str, value: &str) -> Result<Table, Vec<Problem>> {
    let placeholder = Source {
        name: source.name.clone(),
        text: format!("{key}=0"),
        folder: source.folder.clone(),
        is_argument: true,
    };
    // The key is at the same position in both texts, so its spans are valid for the argument.
    let mut table = parse(&Arc::new(placeholder))
        .map_err(|problems| problems.into_iter().map(|p| moved(p, source)).collect::<Vec<_>>())?;
    let start = key.len() + 1 + (value.len() - value.trim_start().len());
    let word = value.trim();
    let place = Place::new(source, start..start + word.len());
    replace_leaf(&mut table, source, &Node { value: Value::String(word.into()), origin: Origin::Written(place) });
    Ok(table)
}

fn moved(mut problem: Problem, source: &Arc<Source>) -> Problem {
    if let Some(place) = &mut problem.place {
        place.source = Arc::clone(source);
    }
    problem
}

/// Replaces the only value of a table of tables.
fn replace_leaf(table: &mut Table, source: &Arc<Source>, leaf: &Node) {
    let keys: Vec<_> = table.iter().map(|entry| entry.key.clone()).collect();
    for key in keys {
        let Some(entry) = table.get_mut(&key) else { continue };
        for origin in [&mut entry.key_origin, &mut entry.node.origin] {
            if let Origin::Written(place) = origin {
                place.source = Arc::clone(source);
            }
        }
        match &mut entry.node.value {
            Value::Table(inner) => replace_leaf(inner, source, leaf),
            _ => entry.node = leaf.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};

    fn read(argument: &str) -> Json {
        let table = tables(&[argument.to_string()]).unwrap().remove(0);
        Node { value: Value::Table(table), origin: Origin::Default }.to_json()
    }

    #[test]
    fn values_are_toml_and_bare_words_are_strings() {
        assert_eq!(read("loss.alpha=3"), json!({ "loss": { "alpha": 3 } }));
        assert_eq!(read("loss.name = snr"), json!({ "loss": { "name": "snr" } }));
        assert_eq!(read("data.path=../x y.safetensors"), json!({ "data": { "path": "../x y.safetensors" } }));
        assert_eq!(read("eval.recall_at=[1, 10]"), json!({ "eval": { "recall_at": [1, 10] } }));
        assert_eq!(read("loss={name='ms'}"), json!({ "loss": { "name": "ms" } }));
        assert_eq!(read("description=a = b"), json!({ "description": "a = b" }));
    }

    #[test]
    fn the_origin_of_a_bare_word_is_its_position_in_the_argument() {
        let table = tables(&["loss.name= snr ".to_string()]).unwrap().remove(0);
        let node = Node { value: Value::Table(table), origin: Origin::Default };
        let place = node.find("loss.name").unwrap().node.origin.place().unwrap().clone();
        assert_eq!(&place.source.text[place.span], "snr");
    }

    #[test]
    fn malformed_arguments_are_refused() {
        for wrong in ["loss.alpha", "[loss]\nalpha=3", "[a]=1", "loss.alpha=", "=3", "a b=c", "extends=x.toml", "a=[1"]
        {
            assert!(tables(&[wrong.to_string()]).is_err(), "{wrong}");
        }
    }
}
