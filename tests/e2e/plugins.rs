//! Plugins: the examples are built, listed, checked and trained with.

use crate::support::plugins::{build_rust_plugin, circle_cpp, cpp_example, cpp_fixture, rust_library, rust_plugin};
use crate::support::{Printed, Sandbox, unwrapped};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView, serialize_to_file};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn circle() -> PathBuf {
    rust_plugin("examples/circle-rust", "circle_rust")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is Unicode")
}

/// A recipe that trains in a few seconds.
fn recipe(plugins: &str, loss: &str) -> String {
    format!(
        "[plugins]\npaths = [{plugins}]\n\
         [data]\nsource = \"strokes\"\nclasses = 12\nper_class = 8\nsize = 16\n\
         [backbone]\nname = \"conv4\"\nwidth = 8\n\
         [embedding]\nsize = 8\n\
         [sampler]\nname = \"pk\"\nclasses = 4\nper_class = 4\n\
         [loss]\n{loss}\n\
         [optimizer]\nname = \"adam\"\nlr = 0.001\n\
         [train]\nepochs = 2\n\
         [eval]\ncluster = \"never\"\n\
         [track]\nhistograms = false\nimages = false\nprojector = false\n"
    )
}

fn only_run(out: &Path) -> PathBuf {
    let mut folders = vec![out.to_path_buf()];
    for _ in 0..3 {
        folders = folders.iter().flat_map(|f| std::fs::read_dir(f).unwrap()).map(|e| e.unwrap().path()).collect();
    }
    assert_eq!(folders.len(), 1, "{folders:?}");
    folders.remove(0)
}

fn json_file(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn plugin_list_shows_the_components() {
    let (rust, cpp) = (circle(), circle_cpp());
    let sandbox = Sandbox::new();
    let listed = sandbox.curricle(["plugin", "list", text(&rust), text(&cpp), "--json"]).assert().success().json();
    assert_eq!(listed[0]["components"][0]["name"], "circle_rust");
    assert_eq!(listed[0]["components"][0]["schema"]["properties"]["gamma"]["default"], 80.0);
    assert_eq!(listed[1]["components"][0]["name"], "circle_cpp");
    assert_eq!(listed[1]["components"][0]["kind"], "loss");
    assert_eq!(listed[1]["sha256"].as_str().unwrap().len(), 64);
    let plain = sandbox.curricle(["plugin", "list", text(&rust)]).assert().success().stdout_text();
    assert!(plain.contains("gamma (default 80.0): Scale factor γ of the similarities"), "{plain}");
}

#[test]
fn the_examples_pass_the_conformance_suite() {
    let libraries = [
        (circle(), vec!["--except", "gradient"]),
        (circle_cpp(), vec!["--except", "gradient"]),
        (rust_plugin("examples/soft-triple", "soft_triple_example"), vec![]),
        (rust_plugin("examples/cross-batch-memory", "cross_batch_memory"), vec![]),
        (cpp_example("cross-batch-memory-cpp", "cross_batch_memory_cpp"), vec![]),
        (rust_plugin("examples/teacher-memory", "teacher_memory"), vec![]),
        (cpp_example("teacher-memory-cpp", "teacher_memory_cpp"), vec![]),
        (rust_plugin("examples/neighbour-weights", "neighbour_weights"), vec![]),
        (rust_plugin("examples/hard-class-sampler", "hard_class_sampler"), vec![]),
    ];
    for (library, except) in libraries {
        let sandbox = Sandbox::new();
        let args: Vec<_> = ["plugin", "check", text(&library)].into_iter().chain(except).collect();
        let checked = sandbox.curricle(args.iter().copied()).assert();
        let shown = checked.stdout_text();
        checked.success();
        assert!(!shown.contains("FAILED") && shown.contains("same twice        ok"), "{shown}");
        // On the stand-in device the checks that need CUDA run too.
        let checked = sandbox.curricle_on_fakecuda(args).assert();
        let shown = checked.stdout_text();
        checked.success();
        assert!(!shown.contains("there is no CUDA device"), "{shown}");
    }
}

#[test]
fn the_gradient_check_detects_a_detached_term() {
    let library = circle();
    let failed = Sandbox::new().curricle(["plugin", "check", text(&library), "--json"]).assert().code(1).json();
    let failures: Vec<_> =
        failed[0]["checks"].as_array().unwrap().iter().filter(|c| c["verdict"] == "failed").collect();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!(failures[0]["check"], "gradient");
}

#[test]
fn built_in_components_pass_the_conformance_suite() {
    let sandbox = Sandbox::new();
    let checked = sandbox.curricle(["plugin", "check", "--builtin"]).assert();
    let shown = checked.stdout_text();
    assert!(!shown.contains("FAILED"), "{shown}");
    let checked = sandbox.curricle_on_fakecuda(["plugin", "check", "--builtin"]).assert();
    let shown = checked.stdout_text();
    assert!(!shown.contains("FAILED"), "{shown}");
    checked.success();
}

#[test]
fn rust_and_cpp_examples_match_the_formula() {
    let sandbox = Sandbox::new();
    // Unit vectors at these angles, two classes of two.
    let angles = [0.0f64, 0.4, 1.0, 2.5];
    let rows: Vec<u8> = angles.iter().flat_map(|a| [a.cos(), a.sin()]).flat_map(f64::to_le_bytes).collect();
    let labels: Vec<u8> = [0i64, 0, 1, 1].into_iter().flat_map(i64::to_le_bytes).collect();
    let views = [
        ("embeddings", TensorView::new(Dtype::F64, vec![4, 2], &rows).unwrap()),
        ("labels", TensorView::new(Dtype::I64, vec![4], &labels).unwrap()),
    ];
    serialize_to_file(views, None, &sandbox.path("in.safetensors")).unwrap();
    let probe = |library: &Path, name: &str| {
        let args =
            ["probe", "loss", name, "--plugin", text(library), "--set", "gamma=4", "--in", "in.safetensors", "--out"];
        let out = format!("{name}.safetensors");
        sandbox.curricle(args.into_iter().chain([out.as_str()])).assert().success();
        std::fs::read(sandbox.path(out)).unwrap()
    };
    let (rust, cpp) = (probe(&circle(), "circle_rust"), probe(&circle_cpp(), "circle_cpp"));
    let (rust, cpp) = (SafeTensors::deserialize(&rust).unwrap(), SafeTensors::deserialize(&cpp).unwrap());
    for name in ["loss", "grad"] {
        assert_eq!(rust.tensor(name).unwrap().data(), cpp.tensor(name).unwrap().data(), "{name}");
    }
    let loss = f64::from_le_bytes(rust.tensor("loss").unwrap().data().try_into().unwrap());
    let expected = circle_by_hand(&angles, &[0, 0, 1, 1], 0.4, 4.0);
    assert!((loss - expected).abs() < 1e-12, "{loss} and not {expected}");
}

/// The loss from its formula, pair by pair.
fn circle_by_hand(angles: &[f64], labels: &[i64], m: f64, gamma: f64) -> f64 {
    let log_sum_exp = |terms: Vec<f64>| terms.into_iter().map(f64::exp).sum::<f64>().ln();
    let anchors = 0..angles.len();
    let each = anchors.clone().map(|i| {
        let similarity = |j: usize| (angles[i] - angles[j]).cos();
        let others = || anchors.clone().filter(move |&j| j != i);
        let positive = others().filter(|&j| labels[j] == labels[i]).map(similarity);
        let negative = others().filter(|&j| labels[j] != labels[i]).map(similarity);
        let positive = positive.map(|s| -gamma * (1.0 + m - s).max(0.0) * (s - (1.0 - m))).collect();
        let negative = negative.map(|s| gamma * (s + m).max(0.0) * (s - m)).collect();
        (1.0 + (log_sum_exp(positive) + log_sum_exp(negative)).exp()).ln()
    });
    each.sum::<f64>() / angles.len() as f64
}

#[test]
fn a_cpp_loss_can_compute_its_own_gradient() {
    let library = cpp_fixture("gradients");
    let sandbox = Sandbox::new();
    let checked = sandbox.curricle(["plugin", "check", text(&library)]).assert();
    let shown = checked.stdout_text();
    assert!(shown.contains("gradient          ok"), "{shown}");
    checked.success();
    let plugin = format!("{:?}", text(&library));
    sandbox.write("fault.toml", recipe(&plugin, "name = \"orthogonal\"\nfault = true"));
    let failed = unwrapped(&sandbox.curricle(["run", "fault.toml"]).assert().code(1).stderr_text());
    assert!(failed.contains("gradient 0 has shape [16, 16], but its tensor has shape [16, 8]"), "{failed}");
}

#[test]
fn a_recipe_trains_with_a_plugin_and_records_it() {
    let library = circle();
    let sandbox = Sandbox::new();
    // Relative to the recipe, not to the working directory.
    std::fs::create_dir(sandbox.path("lib")).unwrap();
    std::fs::copy(&library, sandbox.path("lib/libcircle.so")).unwrap();
    sandbox.write("recipes/circle.toml", recipe("\"../lib/libcircle.so\"", "name = \"circle_rust\"\ngamma = 32"));
    sandbox.curricle(["run", "recipes/circle.toml"]).assert().success();
    let run = only_run(&sandbox.path("runs"));
    let manifest = json_file(&run.join("manifest.json"));
    let file = sandbox.path("lib/libcircle.so").canonicalize().unwrap();
    assert_eq!(manifest["plugins"][0]["path"], json!(file));
    let sha256 = manifest["plugins"][0]["sha256"].as_str().unwrap();
    assert_eq!(sha256.len(), 64);
    let resolved = std::fs::read_to_string(run.join("recipe.toml")).unwrap();
    assert!(resolved.contains(sha256) && resolved.contains("gamma = 32.0"), "{resolved}");

    // The resolved recipe alone repeats the run, the plugin's hash included.
    let again = run.join("recipe.toml");
    sandbox.curricle(["run", text(&again), "--out", "again"]).assert().success();
    let metrics = |run: &Path| json_file(&run.join("result.json"))["trained"].clone();
    assert_eq!(metrics(&run), metrics(&only_run(&sandbox.path("again"))));

    // The same file elsewhere, named on the command line, is the same run.
    let without = recipe("", "name = \"circle_rust\"\ngamma = 32");
    sandbox.write("recipes/circle.toml", without);
    let skipped = sandbox.curricle(["run", "recipes/circle.toml", "--plugin", text(&library)]).assert().success();
    assert!(skipped.stderr_text().contains("already finished"), "{}", skipped.stderr_text());
}

#[test]
fn an_unfinished_run_is_not_resumed_with_a_changed_plugin() {
    let sandbox = Sandbox::new();
    let library = sandbox.path("libcircle.so");
    std::fs::copy(circle(), &library).unwrap();
    sandbox.write("circle.toml", recipe("\"libcircle.so\"", "name = \"circle_rust\""));
    sandbox.curricle(["run", "circle.toml"]).assert().success();
    let run = only_run(&sandbox.path("runs"));
    // As if the run had been killed and the plugin rebuilt: bytes at the end change only the hash.
    std::fs::remove_file(run.join("result.json")).unwrap();
    let mut bytes = std::fs::read(&library).unwrap();
    bytes.extend(b"changed");
    std::fs::remove_file(&library).unwrap();
    std::fs::write(&library, bytes).unwrap();
    let refused = sandbox.curricle(["run", "circle.toml"]).assert().code(1).stderr_text();
    let refused = refused.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(refused.contains("has changed since") && refused.contains("`--force`"), "{refused}");
    sandbox.curricle(["run", "circle.toml", "--force"]).assert().success();
    // The resolved recipe pins the hash and is refused at once.
    let resolved = run.join("recipe.toml");
    let refused = sandbox.curricle(["run", text(&resolved)]).assert().code(2).stderr_text();
    assert!(refused.contains("pins"), "{refused}");
}

#[test]
fn settings_of_plugins_are_checked_like_built_in_ones() {
    let library = circle();
    let sandbox = Sandbox::new();
    let plugin = format!("{:?}", text(&library));
    sandbox.write("typo.toml", recipe(&plugin, "name = \"circle_rust\"\ngama = 3\nmargin = 7.0"));
    let problems = sandbox.curricle(["check", "typo.toml", "--json"]).assert().code(2).json();
    let problems = problems[0]["problems"].to_string();
    assert!(problems.contains("did you mean `gamma`?") && problems.contains("loss.margin"), "{problems}");
    sandbox.write("name.toml", recipe(&plugin, "name = \"circle_rus\""));
    let problems = sandbox.curricle(["check", "name.toml"]).assert().code(2).stderr_text();
    assert!(problems.contains("did you mean `circle_rust`?"), "{problems}");
    sandbox.write("missing.toml", recipe("\"no/such.so\"", "name = \"ms\""));
    let problems = sandbox.curricle(["check", "missing.toml"]).assert().code(2).stderr_text();
    assert!(problems.contains("missing.toml:2:10") && problems.contains("does not exist"), "{problems}");
    sandbox.write("odd.toml", recipe("{ path = \"x.so\", sha = \"1\" }, 3", "name = \"ms\""));
    let problems = sandbox.curricle(["check", "odd.toml"]).assert().code(2).stderr_text();
    assert!(
        problems.contains("unknown setting `sha` in `[plugins.paths[0]]`") && problems.contains("plugins.paths[1]"),
        "{problems}"
    );
}

#[test]
fn a_new_rust_plugin_builds_and_passes_its_own_tests_and_the_suite() {
    for kind in ["loss", "sampler", "weights"] {
        let sandbox = Sandbox::new();
        let name = format!("fresh_{kind}");
        let new = sandbox.curricle(["plugin", "new", name.as_str(), "--kind", kind]).assert().success().stdout_text();
        assert!(new.contains("cargo build --release"), "{new}");
        assert!(sandbox.path(&name).join("Cargo.lock").exists());
        let again = sandbox.curricle(["plugin", "new", name.as_str()]).assert().code(2).stderr_text();
        assert!(again.contains("already exists"), "{again}");
        build_rust_plugin(&sandbox.path(&name), &["test", "--release"]);
        build_rust_plugin(&sandbox.path(&name), &["build", "--release"]);
        let library = rust_library(&name);
        let checked = sandbox.curricle(["plugin", "check", text(&library)]).assert();
        let shown = checked.stdout_text();
        assert!(!shown.contains("FAILED"), "{shown}");
        checked.success();
    }
}

#[test]
fn a_new_cpp_plugin_builds_and_passes_the_suite() {
    for kind in ["loss", "sampler", "weights"] {
        let sandbox = Sandbox::new();
        sandbox.curricle(["plugin", "new", "fresh", "--kind", kind, "--lang", "cpp"]).assert().success();
        let mut make = std::process::Command::new("make");
        let output = make.arg("check").current_dir(sandbox.path("fresh")).output().expect("make can be started");
        let shown = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && shown.contains("settings          ok"), "{shown}");
    }
}
