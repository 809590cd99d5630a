//! Detects plugins that changed since a run was started.

use crate::{Error, Result};
use curricle_recipe::Resolved;
use curricle_record::RunFolder;
use std::path::Path;

/// Refuses to start a run if there is an unfinished one with the same recipe and seed that was started
/// with a different version of a plugin.
///
/// A changed plugin changes the recipe hash and so the run's folder. Without this check, a command
/// that is meant to resume a run would silently start a new one.
pub(crate) fn check_plugins_unchanged(resolved: &Resolved, out: &Path, folder: &RunFolder) -> Result<()> {
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
        let Some(started) = other.read_manifest()? else { continue };
        if started.recipe_hash_without_plugins != recipe {
            continue;
        }
        let changed = used.iter().find_map(|plugin| {
            let name = plugin.path.file_name();
            let before = started.plugins.iter().find(|before| before.path.file_name() == name)?;
            (before.sha256 != plugin.sha256).then(|| (plugin, before.sha256.clone()))
        });
        if let Some((plugin, before)) = changed {
            return Err(Error::Failed(format!(
                "plugin `{}` has changed since `{}` was started (SHA-256 `{before}`, now `{}`); restore the old file \
                 to resume that run, or use `--force` to start a new one",
                plugin.path.display(),
                other.path().display(),
                plugin.sha256
            )));
        }
    }
    Ok(())
}
