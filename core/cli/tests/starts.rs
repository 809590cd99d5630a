//! The program starts. This test also makes `cargo test --workspace` build the program, which the
//! end-to-end tests in `tests/` run.

use std::process::Command;

#[test]
fn the_program_starts_from_any_folder_without_environment_variables() {
    let output = Command::new(env!("CARGO_BIN_EXE_curricle")).arg("--help").current_dir("/").env_clear().output();
    let output = output.expect("the program can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("Usage: curricle"));
}
