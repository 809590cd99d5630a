//! Detects plugins that changed since a run was started.

use super::manifest::Manifest;
use crate::files;
use crate::recipe::Resolved;
use crate::{Error, Result};
use std::path::Path;

/// Refuses to start a run if there is an unfinished one with the same recipe and seed that was started
/// with a different version of a plugin.
///
/// A changed plugin changes the recipe hash and so the run's folder. Without this check, a command
/// that is meant to resume a run would silently start a new one.
pub fn refuse_if_changed(resolved: &Resolved, out: &Path, folder: &Path) -> Result<()> {
    let used = resolved.plugins_used();
    if used.is_empty() || folder.join("manifest.json").exists() {
        return Ok(());
    }
    let recipe = resolved.hash_without_plugins();
    let seed = resolved.recipe.seed;
    let Ok(runs) = std::fs::read_dir(out.join(&resolved.recipe.name)) else { return Ok(()) };
    let mut runs: Vec<_> = runs.flatten().map(|run| run.path().join(format!("seed-{seed}"))).collect();
    runs.sort();
    for other in runs.into_iter().filter(|other| !other.join("result.json").exists()) {
        let Some(started) = files::read_json::<Manifest>(&other.join("manifest.json"))? else { continue };
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
                other.display(),
                plugin.sha256
            )));
        }
    }
    Ok(())
}
