//! The stand-in CUDA device.

use super::{libtorch, root, target};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The library to preload, built on first use (20 seconds) and kept in the target folder.
///
/// # Panics
/// If it cannot be built, with the compiler's message.
pub(crate) fn fakecuda() -> PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY
        .get_or_init(|| {
            let output = Command::new(root().join("tests/fakecuda/build"))
                .arg(libtorch())
                .env("CARGO_TARGET_DIR", target())
                .output()
                .expect("`tests/fakecuda/build` can be started");
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "the stand-in CUDA device does not build:\n{errors}");
            PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
        })
        .clone()
}

/// One of the counters the stand-in device prints at the end.
pub(crate) fn counter(printed: &str, name: &str) -> i64 {
    let found = printed.split_whitespace().find_map(|word| word.strip_prefix(&format!("{name}=")));
    found.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no `{name}` in\n{printed}"))
}
