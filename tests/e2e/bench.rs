//! `curricle bench` as a user meets it.

use curricle_tests::{Printed, Sandbox, small_recipe};

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let sweep = "\n[sweep]\nmethods = [\"ms.toml\", \"bspml.toml\"]\nseeds = [0, 1]\n\
                 cases = [{ name = \"noisy\" }, { name = \"clean\", noise = { name = \"none\" } }]\n";
    let base = small_recipe("ms", "uniform").replace("epochs = 3", "epochs = 1");
    sandbox.write("many.toml", base + sweep);
    // What a method extends is replaced by the sweep's own recipe: this one would train for long.
    sandbox.write("base.toml", "[train]\nepochs = 100000\n");
    sandbox.write("ms.toml", "extends = \"base.toml\"\n[loss]\nname = \"ms\"\n");
    let bspml = "extends = \"base.toml\"\n[loss]\nname = \"bspml\"\n[weights]\nname = \"balanced_self_paced\"\n";
    sandbox.write("bspml.toml", bspml);
    sandbox
}

#[test]
fn a_sweep_runs_everything_once_and_compares_it() {
    let sandbox = sandbox();
    let listed = sandbox.curricle(["bench", "many.toml", "--dry-run"]).assert().success();
    assert!(listed.stdout_text().contains("8 runs"), "{}", listed.stdout_text());
    let first = sandbox.curricle(["bench", "many.toml", "--jobs", "2", "--json"]).assert().success().json();
    let rows = first["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * (1 + 2), "untrained and two methods in two cases");
    assert_eq!(rows[0]["method"], "untrained");
    assert_eq!(rows[1]["values"]["recall@1"]["runs"], 2);
    let noisy = rows.iter().find(|row| row["method"] == "bspml" && row["case"] == "noisy").unwrap();
    assert!(noisy["values"]["auroc"]["mean"].is_number(), "{noisy}");

    let again = sandbox.curricle(["bench", "many.toml"]).assert().success();
    assert_eq!(again.stderr_text().matches("finished before").count(), 8, "{}", again.stderr_text());
    assert!(again.stdout_text().contains("R@1"), "{}", again.stdout_text());
}

#[test]
fn one_failing_run_does_not_stop_the_others() {
    let sandbox = sandbox();
    sandbox.write("ms.toml", "[loss]\nname = \"ms\"\n[optimizer]\nname = \"sgd\"\nlr = 1e38\n");
    let done = sandbox.curricle(["bench", "many.toml"]).assert().code(1);
    assert!(done.stderr_text().contains("FAILED"), "{}", done.stderr_text());
    assert!(done.stdout_text().contains("missing"), "{}", done.stdout_text());
    assert!(done.stderr_text().contains("4 of 8 runs failed"), "{}", done.stderr_text());
}

#[test]
fn mistakes_in_a_sweep_are_all_named() {
    let sandbox = sandbox();
    let sweep = "\n[sweep]\nmethods = [\"mss.toml\"]\nseeds = [-1]\ncase = []\n";
    sandbox.write("many.toml", small_recipe("ms", "uniform") + sweep);
    let wrong = sandbox.curricle(["bench", "many.toml"]).assert().code(2).stderr_text();
    for part in ["did you mean", "`sweep.seeds` must hold whole numbers", "`sweep` has no setting `case`"] {
        assert!(wrong.contains(part), "no {part} in\n{wrong}");
    }
    let single = sandbox.curricle(["run", "many.toml"]).assert().code(2).stderr_text();
    assert!(single.contains("curricle bench"), "{single}");
}

#[test]
fn a_stopped_sweep_goes_on_where_it_stopped() {
    let sandbox = sandbox();
    let long = small_recipe("ms", "uniform").replace("epochs = 3", "epochs = 100000");
    sandbox.write("many.toml", long + "\n[sweep]\nseeds = [0, 1]\n");
    let mut command = std::process::Command::new(curricle_tests::program());
    command.current_dir(sandbox.path("")).args(["bench", "many.toml"]).env("OMP_NUM_THREADS", "1");
    let mut bench = command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let begun = std::time::Instant::now();
    while !sandbox.path("runs").is_dir() || curricle_tests::metrics_lines(&sandbox.path("runs")) < 30 {
        assert!(begun.elapsed().as_secs() < 120, "the sweep does not get on");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // To the bench alone, as a job scheduler would.
    let signalled = std::process::Command::new("kill").args(["-TERM", &bench.id().to_string()]).status().unwrap();
    assert!(signalled.success());
    assert_eq!(bench.wait().unwrap().code(), Some(75));
    assert!(curricle_tests::run_folder(&sandbox.path("runs")).join("checkpoints").is_dir());
}
