//! The program starts.

use crate::support::program;
use std::process::Command;

#[test]
fn the_program_starts_from_any_folder_without_environment_variables() {
    let output = Command::new(program()).arg("--help").current_dir("/").env_clear().output();
    let output = output.expect("the program can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("Usage: curricle"));
}
