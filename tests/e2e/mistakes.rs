//! What people mistype: numbers, options and paths, and what the messages about it say.

use crate::support::{Printed, Sandbox, small_recipe, unwrapped};

/// What a refused command line says.
fn refused(sandbox: &Sandbox, args: &[&str]) -> String {
    unwrapped(&sandbox.curricle(args.iter().copied()).assert().code(2).stderr_text())
}

#[test]
fn numbers_on_the_command_line_are_explained_in_plain_words() {
    let sandbox = Sandbox::new();
    sandbox.write("x.npz", "");
    for args in [
        ["run", "methods/ms", "--threads", "two"],
        ["run", "methods/ms", "--threads", "-1"],
        ["run", "methods/ms", "--seed", "-1"],
        ["run", "methods/ms", "--seed", "99999999999999999999999"],
        ["bench", "methods/ms", "--jobs", "-1"],
        ["eval", "x.npz", "--recall", "0"],
        ["eval", "x.npz", "--restarts", "a"],
        ["eval", "x.npz", "--seed", "1.5"],
    ] {
        let said = refused(&sandbox, &args);
        assert!(said.contains(&format!("invalid value '{}' for '{}", args[3], args[2])), "{said}");
        assert!(said.contains("must be a whole number"), "{said}");
    }
}

#[test]
fn a_folder_given_as_a_list_of_images_names_the_other_option_and_so_does_a_list_given_as_a_folder() {
    let sandbox = Sandbox::new();
    sandbox.write("my list.csv", "path,label\n");
    sandbox.write("photos/a/1.png", "");
    let said = refused(&sandbox, &["audit", "--images", "my list.csv"]);
    assert!(said.contains("`my list.csv` is a file") && said.contains("use `--csv 'my list.csv'`"), "{said}");
    let said = refused(&sandbox, &["audit", "--csv", "photos"]);
    assert!(said.contains("`photos` is a folder") && said.contains("use `--images photos`"), "{said}");
}

#[test]
fn all_inputs_that_a_command_accepts_are_named_if_none_is_given() {
    let sandbox = Sandbox::new();
    let said = refused(&sandbox, &["embed", ".", "--out", "e.safetensors"]);
    assert!(said.contains("--images <PATH>|--data <DATA>"), "{said}");
    let said = refused(&sandbox, &["audit"]);
    assert!(said.contains("RUN|--images <FOLDER>|--csv <FILE>"), "{said}");
}

#[test]
fn embeddings_are_not_written_under_the_name_of_another_format() {
    let sandbox = Sandbox::new();
    let said = refused(&sandbox, &["embed", ".", "--data", "test", "--out", "e.npz"]);
    assert!(said.contains("not as `.npz`") && said.contains("use `--out e.safetensors`"), "{said}");
    assert!(!sandbox.path("e.npz").exists());
}

#[test]
fn label_noise_that_a_sweep_varies_is_not_called_inherited() {
    let sandbox = Sandbox::new();
    let note = |text: &str| {
        sandbox.write("r.toml", format!("extends = \"curricle:methods/ms\"\n{text}"));
        sandbox.curricle(["check", "r.toml"]).assert().success().stderr_text().contains("is inherited from")
    };
    assert!(note("[train]\nepochs = 1\n"));
    assert!(!note("[noise]\nratio = 0.3\n"));
    assert!(!note("[sweep]\ngrid = { noise.ratio = [0.1, 0.2] }\n"));
}

#[test]
fn commands_to_copy_are_quoted_for_a_shell() {
    let sandbox = Sandbox::new();
    let said = sandbox.curricle(["init", "it's mine"]).assert().success().stdout_text();
    assert!(said.contains("curricle check \"it's mine/recipe.toml\"\n"), "{said}");
}

#[test]
fn a_comparison_of_nothing_is_one_line() {
    let sandbox = Sandbox::new();
    sandbox.write("many.toml", small_recipe("ms", "uniform") + "[sweep]\nseeds = 2\n");
    let collected = sandbox.curricle(["bench", "many.toml", "--collect"]).assert().success();
    assert_eq!(collected.stdout_text(), "");
    let said = collected.stderr_text();
    assert_eq!(said, "0 of 2 runs are finished; use `--status` for details\n");
}

#[test]
fn quiet_leaves_out_warnings_about_the_data_too() {
    let sandbox = Sandbox::new();
    sandbox.write_images("photos", 4, 3);
    sandbox.write("photos/class-000/empty.png", "");
    sandbox.curricle(["init", "--images", "photos"]).assert().success();
    let run = ["run", "recipe.toml", "--set", "train.epochs=0", "--set", "images.on_bad_image=skip"];
    let said = |more: &str| sandbox.curricle(run.into_iter().chain([more])).assert().success().stderr_text();
    assert_eq!(said("--quiet"), "");
    assert!(said("--force").contains("warning: skipping 1 of 13 files"));
}

#[test]
fn init_refuses_lists_that_cannot_train() {
    let sandbox = Sandbox::new();
    sandbox.write_images("photos", 1, 4);
    sandbox.write("none.csv", "path,label\n");
    sandbox.write("one.csv", "path,label\nphotos/class-000/0.ppm,a\nphotos/class-000/1.ppm,a\n");
    let said = unwrapped(&sandbox.curricle(["init", "--images", "photos"]).assert().code(1).stderr_text());
    assert!(said.contains("`photos`: needs at least 2 class folders, but has 1"), "{said}");
    let said = refused(&sandbox, &["init", "--csv", "one.csv"]);
    assert!(said.contains("`one.csv` has a single class"), "{said}");
    let said = unwrapped(&sandbox.curricle(["init", "--csv", "none.csv"]).assert().code(1).stderr_text());
    assert!(said.contains("`none.csv`: lists no images"), "{said}");
    assert!(!sandbox.path("recipe.toml").exists());
}
