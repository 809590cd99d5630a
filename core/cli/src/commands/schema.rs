//! `curricle schema`

use super::PluginArgs;
use crate::error::Result;
use crate::output;
use curricle_recipe::{self as recipe, Catalogue};

/// Print the JSON Schema of recipes, for completion and validation in editors.
#[derive(Debug, clap::Args)]
#[command(after_help = "Editors with a TOML language server (Taplo, Even Better TOML) use it when the first line \
                        of a recipe is `#:schema path/to/schema.json`; see docs/editors.md. `curricle init` writes \
                        both.")]
pub(crate) struct Args {
    #[command(flatten)]
    plugin: PluginArgs,
}

/// Prints the schema with every registered component.
pub(crate) fn run(args: &Args) -> Result<()> {
    output::json(&recipe::Schema::of_recipes(&args.plugin.registry()?.components()).for_editors())
}
