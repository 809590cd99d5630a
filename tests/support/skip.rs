//! Tests that need something this machine may lack.

use std::io::Write;

/// Where `scripts/test` collects what was skipped.
const RECORD: &str = "CURRICLE_TEST_SKIPS";

/// Records that a test cannot run here. The caller returns afterwards.
///
/// `scripts/test` lists what was recorded at its end; a plain `cargo test` prints it to standard error.
///
/// # Panics
/// In CI, that is with `CI` set: a test that never runs there would protect nothing.
pub(crate) fn skip(what: &str, why: &str) {
    let ci = std::env::var("CI").is_ok_and(|ci| !["", "0", "false"].contains(&ci.as_str()));
    assert!(!ci, "{what} cannot be tested, and CI must not skip it: {why}");
    record(what, why);
}

/// The same for a test that needs too much for every machine, e.g. gigabytes of libraries: CI may skip it, because a
/// job of the hosted workflow runs it.
pub(crate) fn optional(what: &str, why: &str) {
    record(what, why);
}

fn record(what: &str, why: &str) {
    // One call, so that lines of parallel tests do not mix.
    let line = format!("{what}: {}\n", why.split_whitespace().collect::<Vec<_>>().join(" "));
    match std::env::var_os(RECORD) {
        Some(file) => {
            let file = std::fs::OpenOptions::new().append(true).create(true).open(file);
            file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the skipped test can be recorded");
        }
        // Not `eprintln!`, which the test harness hides when the test passes.
        None => std::io::stderr().write_all(format!("skipped: {line}").as_bytes()).unwrap_or(()),
    }
}
