//! `curricle explain`

use super::RecipeArgs;
use crate::error::Result;
use crate::output;

/// Print a resolved recipe, including defaults, with the origin of each value.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    recipe: RecipeArgs,
    /// Omit the origins: print the recipe as a run stores it.
    #[arg(long)]
    plain: bool,
}

/// Prints the resolved recipe; warnings go to standard error.
pub(crate) fn run(args: &Args) -> Result<()> {
    let resolved = args.recipe.load_to_inspect()?;
    output::warnings(&resolved.warnings);
    resolved.inherited_noise(&args.recipe.path).iter().for_each(|noise| output::note(noise));
    if args.plain {
        return output::print(&resolved.to_toml());
    }
    output::print(&format!("# hash {}\n\n{}", resolved.short_hash(), resolved.explain()))
}
