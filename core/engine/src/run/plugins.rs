//! Runs whose plugins changed between two starts.

use crate::{Error, Result};
use curricle_recipe::Resolved;
use curricle_record::RunFolder;
use std::path::Path;

/// Refuses to begin a run while one of the same recipe and seed stands half done that was begun
/// with other contents of its plugins.
///
/// A changed plugin makes another recipe, whose run has a folder of its own. Without this check the
/// command that was to go on with a run would silently begin a new one.
pub fn refuse_if_changed(resolved: &Resolved, out: &Path, folder: &RunFolder) -> Result<()> {
    let used = &resolved.plugins_used;
    if used.is_empty() || folder.manifest().exists() {
        return Ok(());
    }
    let recipe = resolved.hash_without_plugins();
    let seed = resolved.recipe.seed;
    let Ok(runs) = std::fs::read_dir(out.join(&resolved.recipe.name)) else { return Ok(()) };
    let mut runs: Vec<_> = runs.flatten().map(|run| RunFolder::new(run.path().join(format!("seed-{seed}")))).collect();
    runs.sort_by(|a, b| a.path().cmp(b.path()));
    for other in runs.into_iter().filter(|other| !other.result().exists()) {
        let Some(begun) = other.read_manifest()? else { continue };
        if begun.recipe_hash_without_plugins != recipe {
            continue;
        }
        let changed = used.iter().find_map(|plugin| {
            let name = plugin.path.file_name();
            let before = begun.plugins.iter().find(|before| before.path.file_name() == name)?;
            (before.sha256 != plugin.sha256).then(|| (plugin, before.sha256.clone()))
        });
        if let Some((plugin, before)) = changed {
            return Err(Error::Failed(format!(
                "plugin `{}` has changed since `{}` was begun (SHA-256 `{before}`, now `{}`); put the old file back \
                 to go on with that run, or use `--force` to begin a new one",
                plugin.path.display(),
                other.path().display(),
                plugin.sha256
            )));
        }
    }
    Ok(())
}
