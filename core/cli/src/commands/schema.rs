//! `curricle schema`

use crate::output;
use curricle_engine::Result;
use curricle_engine::recipe;
use curricle_engine::registry::Registry;

/// Print the JSON Schema of recipes, for completion and checks in editors.
#[derive(Debug, clap::Args)]
#[command(after_help = "Editors with a TOML language server (Taplo, Even Better TOML) use it when the first line \
                        of a recipe is `#:schema path/to/schema.json`.")]
pub struct Args {}

/// Prints the schema with every registered component.
pub fn run(_args: &Args) -> Result<()> {
    output::print_json(recipe::Schema::of_recipes(&Registry::built_in()).as_json())
}
