//! `[plugins]`: libraries are loaded before a recipe is validated, because they add components and
//! their settings to the schema.

use crate::catalogue::Catalogue;
use crate::files::Layer;
use crate::problems::{Problem, Problems};
use crate::settings::PluginFile;
use crate::source::Origin;
use crate::tree::{Entry, Node, Table, Value};
use std::path::{Path, PathBuf};

/// The list of libraries in a recipe and its `--set` arguments. As with every list, the last one
/// wins.
pub(crate) fn written_last<'t>(layers: &'t [Layer], arguments: &'t [Table]) -> Option<&'t Node> {
    layers.iter().map(|layer| &layer.table).chain(arguments).filter_map(written).next_back()
}

/// Loads libraries into a copy of the catalogue.
pub(crate) fn load<C: Catalogue>(paths: Option<&Node>, catalogue: &C) -> Result<C, Problems> {
    let mut catalogue = catalogue.clone();
    let Some(paths) = paths else { return Ok(catalogue) };
    let mut problems = Vec::new();
    for (index, library) in libraries(paths).unwrap_or_default().iter().enumerate() {
        let setting = format!("plugins.paths[{index}]");
        if let Some((pin, origin)) = library.pin
            && !(pin.len() == 64 && pin.chars().all(|c| c.is_ascii_hexdigit()))
        {
            let problem = Problem::new(origin, format!("`{setting}.sha256` must be 64 hexadecimal digits"))
                .at(format!("{setting}.sha256"))
                .help("`sha256sum FILE` or `curricle plugin list FILE` prints it");
            problems.push(problem);
            continue;
        }
        let pin = library.pin.map(|(pin, _)| pin);
        if let Err(refusal) = catalogue.add_plugin(&library.path, pin) {
            let message = format!("plugin `{}` {}", refusal.path.display(), refusal.what);
            problems.push(Problem::new(library.origin, message).at(setting).label("not loaded").help(refusal.fix));
        }
    }
    Problems::check(problems)?;
    Ok(catalogue)
}

/// Records the loaded libraries in a merged recipe, including those from the command line, with
/// absolute paths and hashes, so that the resolved recipe is self-contained.
pub(crate) fn record(tree: &mut Table, plugins: &[PluginFile]) {
    if plugins.is_empty() {
        return;
    }
    let origin = written(tree).map(|node| node.origin.clone()).unwrap_or_default();
    let items = plugins.iter().map(|plugin| library_node(plugin, &origin)).collect();
    let paths = setting("paths", Value::Array(items), &origin);
    match tree.get_mut("plugins").map(|entry| &mut entry.node.value) {
        Some(Value::Table(table)) => table.insert(paths),
        _ => {
            let mut table = Table::default();
            table.insert(paths);
            tree.insert(setting("plugins", Value::Table(table), &origin));
        }
    }
}

fn library_node(plugin: &PluginFile, origin: &Origin) -> Node {
    let mut table = Table::default();
    table.insert(setting("path", Value::String(plugin.path.display().to_string()), origin));
    table.insert(setting("sha256", Value::String(plugin.sha256.clone()), origin));
    Node { value: Value::Table(table), origin: origin.clone() }
}

fn setting(key: &str, value: Value, origin: &Origin) -> Entry {
    Entry { key: key.into(), key_origin: origin.clone(), node: Node { value, origin: origin.clone() } }
}

fn written(table: &Table) -> Option<&Node> {
    let plugins = table.get("plugins")?.node.as_table()?;
    Some(&plugins.get("paths")?.node)
}

struct Library<'t> {
    path: PathBuf,
    pin: Option<(&'t str, &'t Origin)>,
    origin: &'t Origin,
}

/// The libraries of a list; `None` if the list is malformed, which validation reports.
fn libraries(paths: &Node) -> Option<Vec<Library<'_>>> {
    let Value::Array(items) = &paths.value else { return None };
    items.iter().map(library).collect()
}

fn library(item: &Node) -> Option<Library<'_>> {
    let text = |node: &'_ Node| match &node.value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        _ => None,
    };
    match &item.value {
        Value::String(_) => {
            Some(Library { path: located(&text(item)?, &item.origin), pin: None, origin: &item.origin })
        }
        Value::Table(table) => {
            if table.iter().any(|entry| !matches!(entry.key.as_str(), "path" | "sha256")) {
                return None;
            }
            let path = &table.get("path")?.node;
            let pin = match table.get("sha256") {
                Some(Entry { node, .. }) => {
                    let Value::String(pin) = &node.value else { return None };
                    Some((pin.as_str(), &node.origin))
                }
                None => None,
            };
            Some(Library { path: located(&text(path)?, &path.origin), pin, origin: &path.origin })
        }
        _ => None,
    }
}

/// Paths are relative to the recipe that names them.
fn located(path: &str, origin: &Origin) -> PathBuf {
    origin
        .place()
        .map_or_else(|| PathBuf::from(path), |place| crate::paths::tidy(&place.source.folder.join(Path::new(path))))
}
