//! `check` and `run` refuse the same recipes, with the place underlined and exit code 2.

use crate::support::{Printed, Sandbox, small_recipe, unwrapped};

/// What `check` and `run` both say about a recipe.
fn refusal(sandbox: &Sandbox, recipe: &str) -> String {
    sandbox.write("recipe.toml", recipe);
    let checked = unwrapped(&sandbox.curricle(["check", "recipe.toml"]).assert().code(2).stderr_text());
    let run = unwrapped(&sandbox.curricle(["run", "recipe.toml"]).assert().code(2).stderr_text());
    assert_eq!(checked, run, "`check` and `run` disagree");
    assert!(!sandbox.path("runs").exists(), "a refused run leaves no folder");
    checked
}

#[test]
fn images_too_small_for_the_network_are_refused() {
    let sandbox = Sandbox::new();
    let recipe = small_recipe("ms", "uniform").replace("name = \"conv4\"\nwidth = 4", "name = \"mobilenet_v2\"");
    let message = refusal(&sandbox, &recipe);
    assert!(message.contains("recipe.toml:6:8"), "the size is underlined: {message}");
    assert!(
        message.contains("backbone `mobilenet_v2` needs images of at least 32 pixels, but `data.size` is 16"),
        "{message}"
    );
}

#[test]
fn contradictory_image_sizes_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.write_images("photos", 4, 4);
    let data = "source = \"folder\"\npath = \"photos\"\n[images]\nsize = 32\nresize = 24\nshrink = 16";
    let recipe = small_recipe("ms", "uniform")
        .replace("source = \"strokes\"\nclasses = 12\nper_class = 10\nsize = 16", data)
        .replace(
            "[sampler]\nname = \"pk\"\nclasses = 4\nper_class = 3",
            "[sampler]\nname = \"pk\"\nclasses = 2\nper_class = 2",
        );
    let message = refusal(&sandbox, &recipe);
    assert!(message.contains("`images.shrink` is 16, less than `images.size`, 32"), "{message}");
    assert!(message.contains("`images.resize` is 24, less than `images.size`, 32"), "{message}");
}

#[test]
fn missing_files_are_refused_all_at_once() {
    let sandbox = Sandbox::new();
    let recipe = small_recipe("ms", "uniform")
        .replace(
            "source = \"strokes\"\nclasses = 12\nper_class = 10\nsize = 16",
            "source = \"cub200\"\npath = \"birds\"",
        )
        .replace("name = \"uniform\"\nratio = 0.2", "name = \"list\"\npath = \"labels.csv\"")
        .replace("name = \"conv4\"\nwidth = 4", "name = \"mobilenet_v2\"\nweights = \"net.pth\"");
    let message = refusal(&sandbox, &recipe);
    for missing in ["birds", "labels.csv", "net.pth"] {
        assert!(message.contains(&format!("/{missing}`")), "no word of {missing}: {message}");
    }
    assert!(message.contains("recipe.toml:4:8") && message.contains("--set data.path=PATH"), "{message}");
}

#[test]
fn weights_of_known_flips_are_refused_without_noise() {
    let sandbox = Sandbox::new();
    let noisy = small_recipe("ms", "oracle");
    let message = refusal(&sandbox, &noisy.replace("name = \"uniform\"\nratio = 0.2", "name = \"none\""));
    assert!(message.contains("weights `oracle` needs label noise whose flips are known"), "{message}");
    assert!(message.contains("add `[noise]`, or use `uniform`"), "{message}");
    sandbox.write("recipe.toml", noisy);
    sandbox.curricle(["check", "recipe.toml"]).assert().success();
}

#[test]
fn looking_at_a_recipe_does_not_need_its_files() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "recipe.toml",
        small_recipe("ms", "uniform").replace("\"uniform\"\nratio = 0.2", "\"list\"\npath = \"x.csv\""),
    );
    sandbox.curricle(["check", "recipe.toml"]).assert().code(2);
    sandbox.curricle(["check", "--no-files", "recipe.toml"]).assert().success();
    sandbox.curricle(["explain", "recipe.toml"]).assert().success();
    sandbox.curricle(["bench", "recipe.toml", "--dry-run"]).assert().success();
    sandbox.curricle(["bench", "recipe.toml"]).assert().code(2);
}
