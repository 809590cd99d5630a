//! A Python with torch.

use super::{root, skip};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The interpreter, or `None` after recording that the test of `what` is skipped.
pub(crate) fn python_or_skip(what: &str) -> Option<String> {
    match python_with_torch() {
        Ok(python) => Some(python.to_str().expect("the path is Unicode").to_string()),
        Err(why) => {
            skip(what, &why);
            None
        }
    }
}

/// A Python that can import torch: `CURRICLE_TEST_PYTHON`, else the one that `scripts/setup --tests` provides, which
/// finds torch in `.libtorch`.
pub(crate) fn python_with_torch() -> Result<PathBuf, String> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND.get_or_init(find).clone()
}

fn find() -> Result<PathBuf, String> {
    let named = std::env::var_os("CURRICLE_TEST_PYTHON").map(PathBuf::from);
    let python = named.clone().unwrap_or_else(|| root().join(".venv/bin/python"));
    let shown = python.display();
    let import = Command::new(&python).args(["-c", "import torch"]).output();
    let import = import.map_err(|e| format!("`{shown}` does not start ({e}); `scripts/setup --tests` provides it"))?;
    if import.status.success() {
        Ok(python)
    } else if named.is_none() && !root().join(".libtorch/torch/__init__.py").exists() {
        Err("the libtorch in `.libtorch` has no Python package; set `CURRICLE_TEST_PYTHON` to a Python with torch"
            .into())
    } else {
        let errors = String::from_utf8_lossy(&import.stderr);
        Err(format!("`{shown}` cannot import torch: {}", errors.lines().last().unwrap_or_default()))
    }
}
