//! `scripts/setup` without a network: what it refuses, and linking to an existing libtorch.

use crate::support::{Sandbox, libtorch, root};
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use std::path::Path;

/// A folder with the scripts and nothing else, as if freshly cloned.
fn clone() -> Sandbox {
    let sandbox = Sandbox::new();
    for entry in std::fs::read_dir(root().join("scripts")).unwrap() {
        let from = entry.unwrap().path();
        let to = sandbox.write(&format!("scripts/{}", from.file_name().unwrap().to_str().unwrap()), "");
        std::fs::copy(&from, to).unwrap();
    }
    sandbox
}

/// The script, unable to download anything.
fn setup(clone: &Sandbox, args: &[&str]) -> assert_cmd::Command {
    // Through bash: a file that was just written cannot always be executed, because another thread
    // that starts a program at that moment holds it open for writing.
    let mut command = assert_cmd::Command::new("bash");
    command.arg(clone.path("scripts/setup")).args(args).current_dir(clone.path("")).env_remove("LIBTORCH");
    command.env("PIP_NO_INDEX", "1").env_remove("PIP_FIND_LINKS").env("PIP_CONFIG_FILE", "/dev/null");
    command
}

/// A folder with the files of a libtorch of that version, all empty.
fn empty_libtorch(clone: &Sandbox, version: (u8, u8)) {
    for file in ["lib/libtorch_cpu.so", "lib/libtorch.so", "lib/libc10.so", "include/ATen/ATen.h"] {
        clone.write(&format!("other/{file}"), "");
    }
    clone.write("other/include/torch/csrc/api/include/torch/torch.h", "");
    let (major, minor) = version;
    clone.write(
        "other/include/torch/headeronly/version.h",
        format!(
            "#define TORCH_VERSION_MAJOR {major}\n#define TORCH_VERSION_MINOR {minor}\n#define TORCH_VERSION_PATCH 0\n"
        ),
    );
}

#[test]
fn options_that_do_not_exist_or_exclude_each_other_are_refused() {
    let clone = clone();
    setup(&clone, &["--gpu"]).assert().code(2).stderr(contains("`--gpu` is not an option"));
    setup(&clone, &["--cpu", "--cuda"]).assert().code(1).stderr(contains("exclude each other"));
    setup(&clone, &["--libtorch"]).assert().code(1).stderr(contains("needs a folder"));
    setup(&clone, &["--help"]).assert().code(0).stdout(contains("usage: scripts/setup"));
}

#[test]
fn an_existing_libtorch_is_linked_once_and_found_again() {
    let clone = clone();
    let own = libtorch().canonicalize().unwrap();
    let own = own.to_str().unwrap();
    setup(&clone, &["--libtorch", own]).assert().code(0).stdout(contains("using the libtorch"));
    assert_eq!(clone.path(".libtorch/torch").canonicalize().unwrap(), Path::new(own));
    setup(&clone, &[]).assert().code(0).stdout(contains("is there, linked to"));
    assert!(!clone.path(".libtorch.partial").exists());
}

#[test]
fn the_libtorch_in_the_environment_is_used() {
    let clone = clone();
    let own = libtorch().canonicalize().unwrap();
    setup(&clone, &[]).env("LIBTORCH", &own).assert().code(0).stdout(contains("`LIBTORCH` is set"));
    assert_eq!(clone.path(".libtorch/torch").canonicalize().unwrap(), own);
}

#[test]
fn a_different_version_is_refused_and_nothing_is_left_behind() {
    let clone = clone();
    empty_libtorch(&clone, (2, 6));
    let refused = setup(&clone, &["--libtorch", "other"]).assert().code(1);
    refused.stderr(contains("is libtorch 2.6.0, but only 2.13 will work"));
    assert!(!clone.path(".libtorch").exists() && !clone.path(".libtorch.partial").exists());
}

#[test]
fn a_libtorch_that_does_not_load_is_refused() {
    let clone = clone();
    empty_libtorch(&clone, (2, 13));
    setup(&clone, &["--libtorch", "other"]).assert().code(1).stderr(contains("does not load"));
    setup(&clone, &["--libtorch", "scripts"]).assert().code(1).stderr(contains("not a libtorch with headers"));
    assert!(!clone.path(".libtorch").exists());
}

#[test]
fn a_failed_download_leaves_nothing_behind_and_suggests_a_remedy() {
    let clone = clone();
    let failed = setup(&clone, &["--cpu"]).assert().code(1);
    failed.stderr(contains("pip could not install libtorch").or(contains("there is no libtorch to download")));
    assert!(!clone.path(".libtorch").exists() && !clone.path(".libtorch.partial").exists());
}

#[test]
fn an_interrupted_replacement_is_undone() {
    let clone = clone();
    let own = libtorch().canonicalize().unwrap();
    setup(&clone, &["--libtorch", own.to_str().unwrap()]).assert().code(0);
    std::fs::rename(clone.path(".libtorch"), clone.path(".libtorch.old")).unwrap();
    clone.write(".libtorch.partial/torch/lib/half", "");
    setup(&clone, &[]).assert().code(0).stdout(contains("is there, linked to"));
    assert!(!clone.path(".libtorch.old").exists() && !clone.path(".libtorch.partial").exists());
}
