//! `curricle plugin list`

use super::PythonArgs;
use crate::error::{Error, Result};
use crate::output;
use curricle_engine::plugin::{self, Plugin};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Show the components, settings, versions and SHA-256 of plugins.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Plugin libraries and Python files.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    python: PythonArgs,
    /// Print the list as JSON.
    #[arg(long)]
    json: bool,
}

/// Shows every library, even if others cannot be loaded.
pub(crate) fn run(args: &Args) -> Result<()> {
    args.python.apply();
    let mut refused = Vec::new();
    let mut found = Vec::new();
    for path in &args.paths {
        match plugin::open(path, None) {
            Ok(plugin) => found.push(plugin),
            Err(refusal) => refused.push(refusal.to_string()),
        }
    }
    if args.json {
        output::json(&found.iter().map(|plugin| report(plugin)).collect::<Vec<_>>())?;
    } else {
        output::print(&found.iter().map(|plugin| text(plugin)).collect::<Vec<_>>().join("\n"))?;
    }
    if refused.is_empty() { Ok(()) } else { Err(Error::usage(refused.join("\n"))) }
}

fn text(plugin: &Plugin) -> String {
    let mut text = format!("{}\n  sha256 {}\n  {}\n", plugin.path.display(), plugin.sha256, plugin.sdk);
    for component in &plugin.components {
        let (kind, name) = (component.kind, component.name);
        let version = if component.version.is_empty() { String::new() } else { format!(" {}", component.version) };
        text += &format!("  {kind} `{name}`{version}: {}\n", component.summary);
        if let Some(settings) = component.factory.schema()["properties"].as_object() {
            for (name, rule) in settings {
                let default = rule.get("default").map_or("required".to_string(), |value| format!("default {value}"));
                let description = rule["description"].as_str().unwrap_or_default();
                text += &format!("    {name} ({default}): {description}\n");
            }
        }
    }
    text
}

fn report(plugin: &Plugin) -> Value {
    let component = |c: &curricle_sdk::Component| {
        json!({
            "kind": c.kind.as_str(),
            "name": c.name,
            "version": c.version,
            "summary": c.summary,
            "schema": c.factory.schema(),
        })
    };
    json!({
        "path": plugin.path,
        "sha256": plugin.sha256,
        "sdk": plugin.sdk,
        "components": plugin.components.iter().map(component).collect::<Vec<_>>(),
    })
}
