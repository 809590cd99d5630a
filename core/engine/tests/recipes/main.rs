//! Tests of complete recipes, from file to resolution, with components that exist only here.

mod broken;
mod components;
mod resolved;
mod sweeps;

use curricle_engine::Registry;
use curricle_engine::preflight::WithoutFiles;
use curricle_recipe::{self as recipe, Problems, Resolved};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// One folder for all tests, and the current folder, so that messages contain the same short paths
/// on every machine.
static FOLDER: LazyLock<()> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recipes");
    let _ = fs_err::remove_dir_all(&folder);
    fs_err::create_dir_all(&folder).unwrap();
    std::env::set_current_dir(&folder).unwrap();
});

/// A valid recipe, to be extended or broken.
const GOOD: &str = r#"
seed = 3

[data]
source = "strokes"
classes = 20

[backbone]
name = "conv4"

[sampler]
name = "shuffled"

[loss]
name = "springs"

[optimizer]
name = "sgd"
lr = 0.1

[train]
epochs = 2
"#;

/// Writes files into a folder named after the test; the first is the recipe.
fn write(test: &str, files: &[(&str, &str)]) -> PathBuf {
    LazyLock::force(&FOLDER);
    for (name, text) in files {
        let path = Path::new(test).join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }
    Path::new(test).join(files[0].0)
}

/// Loads a recipe; the files it names need not exist.
fn load(path: &Path, sets: &[&str]) -> Result<Resolved, Problems> {
    let sets: Vec<_> = sets.iter().map(ToString::to_string).collect();
    recipe::load(path, &sets, &WithoutFiles(Registry::built_in()))
}

/// The message about a recipe that is refused.
fn complaint(path: &Path, sets: &[&str]) -> String {
    match load(path, sets) {
        Err(problems) => recipe::render(problems.iter(), 100, false),
        Ok(_) => panic!("nothing is wrong with {}", path.display()),
    }
}
