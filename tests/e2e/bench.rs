//! `curricle bench`: sweeps, launchers and searches.

use crate::support::{Printed, Sandbox, find, metrics_lines, program, root, small_recipe};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SWEEP: &str = "\n[sweep]\nmethods = [\"ms.toml\", \"bspml.toml\"]\nseeds = [0, 1]\n\
                     cases = [{ name = \"noisy\" }, { name = \"clean\", noise = { name = \"none\" } }]\n";

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("many.toml", short() + SWEEP);
    // The sweep's recipe replaces what a method extends: this base would train for a long time.
    sandbox.write("base.toml", "[train]\nepochs = 100000\n");
    sandbox.write("ms.toml", "extends = \"base.toml\"\n[loss]\nname = \"ms\"\n");
    let bspml = "extends = \"base.toml\"\n[loss]\nname = \"bspml\"\n[weights]\nname = \"balanced_self_paced\"\n";
    sandbox.write("bspml.toml", bspml);
    sandbox
}

fn short() -> String {
    small_recipe("ms", "uniform").replace("epochs = 3", "epochs = 1")
}

fn long() -> String {
    small_recipe("ms", "uniform").replace("epochs = 3", "epochs = 100000")
}

/// Waits until a condition holds.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(120), "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

fn status(sandbox: &Sandbox, recipe: &str) -> Value {
    sandbox.curricle(["bench", recipe, "--status", "--json"]).assert().success().json()
}

#[test]
fn a_folder_that_cannot_be_written_is_reported_before_the_first_run() {
    let sandbox = sandbox();
    sandbox.write("file", "");
    let refused = sandbox.curricle(["bench", "many.toml", "--out", "file/runs"]).assert().code(1).stderr_text();
    assert!(refused.contains("cannot create `file/runs`") && !refused.contains("FAILED"), "{refused}");
}

#[test]
fn a_sweep_runs_everything_once_and_compares_the_results() {
    let sandbox = sandbox();
    let listed = sandbox.curricle(["bench", "many.toml", "--dry-run"]).assert().success();
    assert!(listed.stdout_text().contains("8 runs: 8 not started"), "{}", listed.stdout_text());
    let first = sandbox.curricle(["bench", "many.toml", "--jobs", "2", "--json"]).assert().success().json();
    let rows = first["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * (1 + 2), "untrained and two methods in two cases");
    assert_eq!(rows[0]["method"], "untrained");
    assert_eq!(rows[1]["values"]["recall@1"]["runs"], 2);
    let noisy = rows.iter().find(|row| row["method"] == "bspml" && row["case"] == "noisy").unwrap();
    assert!(noisy["values"]["auroc"]["mean"].is_number(), "{noisy}");

    let again = sandbox.curricle(["bench", "many.toml"]).assert().success();
    assert_eq!(again.stderr_text().matches("already finished").count(), 8, "{}", again.stderr_text());
    assert!(again.stdout_text().contains("R@1"), "{}", again.stdout_text());
    let listed = sandbox.curricle(["bench", "many.toml", "--dry-run"]).assert().success();
    assert!(listed.stdout_text().contains("8 runs: 8 finished"), "{}", listed.stdout_text());
    let collected = sandbox.curricle(["bench", "many.toml", "--collect", "--json"]).assert().success().json();
    assert_eq!(collected["rows"], first["rows"]);
}

#[test]
fn one_failing_run_does_not_stop_the_others() {
    let sandbox = sandbox();
    sandbox.write("ms.toml", "[loss]\nname = \"ms\"\n[optimizer]\nname = \"sgd\"\nlr = 1e38\n");
    let done = sandbox.curricle(["bench", "many.toml"]).assert().code(1);
    assert!(done.stderr_text().contains("FAILED"), "{}", done.stderr_text());
    assert!(done.stdout_text().contains("missing"), "{}", done.stdout_text());
    assert!(done.stderr_text().contains("4 of 8 runs failed"), "{}", done.stderr_text());
    assert_eq!(done.stderr_text().matches("log.txt").count(), 4, "{}", done.stderr_text());
    let standing = status(&sandbox, "many.toml");
    assert_eq!((&standing["counts"]["failed"], &standing["counts"]["finished"]), (&4.into(), &4.into()));
    let failed = standing["runs"].as_array().unwrap().iter().find(|run| run["state"] == "failed").unwrap();
    assert!(failed["error"].as_str().unwrap().contains("loss"), "{failed}");
    let text = sandbox.curricle(["bench", "many.toml", "--status"]).assert().success().stdout_text();
    assert!(text.contains("8 runs: 4 finished, 4 failed"), "{text}");
    let collected = sandbox.curricle(["bench", "many.toml", "--collect"]).assert().success();
    assert!(collected.stdout_text().contains("0 of 2"), "{}", collected.stdout_text());
    assert!(collected.stderr_text().contains("4 of 8 runs are finished"), "{}", collected.stderr_text());
}

#[test]
fn all_mistakes_in_a_sweep_are_reported() {
    let sandbox = sandbox();
    let sweep = "\n[sweep]\nmethods = [\"mss.toml\"]\nseeds = [-1]\ncase = []\n";
    sandbox.write("many.toml", small_recipe("ms", "uniform") + sweep);
    let wrong = sandbox.curricle(["bench", "many.toml"]).assert().code(2).stderr_text();
    for part in ["did you mean", "`sweep.seeds` must contain whole numbers", "`sweep` has no setting `case`"] {
        assert!(wrong.contains(part), "no {part} in\n{wrong}");
    }
    let single = sandbox.curricle(["run", "many.toml"]).assert().code(2).stderr_text();
    assert!(single.contains("curricle bench"), "{single}");
}

#[test]
fn contradictory_flags_are_refused() {
    let sandbox = sandbox();
    for (args, message) in [
        (vec!["--devices", "cpu", "--jobs", "2"], "cannot be used with"),
        (vec!["--devices", "cpu", "--device", "cpu"], "cannot be used with"),
        (vec!["--per-device", "2"], "--devices"),
        (vec!["--devices", "cpu,cpu"], "`--per-device 2`"),
        (vec!["--devices", "auto"], "not `auto`"),
        (vec!["--devices", "cuda:7"], "cannot use `cuda:7`"),
        (vec!["--jobs", "0"], "at least 1"),
        (vec!["--sbatch", "--time=1"], "requires `--launcher slurm`"),
        (vec!["--launcher", "print", "--jobs", "2"], "`--launcher print`"),
        (vec!["--status", "--collect"], "cannot be used with"),
    ] {
        let refused = sandbox.curricle(["bench", "many.toml"].into_iter().chain(args.clone())).assert().code(2);
        assert!(refused.stderr_text().contains(message), "{args:?}: {}", refused.stderr_text());
    }
    assert!(!sandbox.path("runs").exists(), "nothing was started");
}

#[test]
fn a_stopped_sweep_leaves_its_runs_interrupted() {
    let sandbox = sandbox();
    sandbox.write("many.toml", long() + "\n[sweep]\nseeds = [0, 1]\n");
    let mut bench = sandbox.start(["bench", "many.toml", "--jobs", "2"]);
    wait_until("both runs make progress", || {
        let files = find(&sandbox.path("runs"), "metrics.jsonl");
        files.len() == 2 && metrics_lines(&sandbox.path("runs")) > 60
    });
    let standing = status(&sandbox, "many.toml");
    assert_eq!(standing["counts"]["running"], 2, "{standing}");
    assert!(standing["runs"][0]["epoch"].is_u64(), "{standing}");
    // Only to the bench, as a job scheduler does.
    signal(&bench, "TERM");
    assert_eq!(bench.wait().unwrap().code(), Some(75));
    let standing = status(&sandbox, "many.toml");
    assert_eq!(standing["counts"]["interrupted"], 2, "{standing}");
    assert_eq!(find(&sandbox.path("runs"), "error.txt").len(), 0, "interrupted is not failed");
}

#[test]
fn ctrl_c_on_a_terminal_lets_every_run_write_its_checkpoint() {
    let sandbox = sandbox();
    sandbox.write("many.toml", long() + "\n[sweep]\nseeds = [0, 1]\n");
    // A terminal sends the signal to all processes of the foreground group, for which `setsid` makes a new one here.
    let program = program().to_str().unwrap();
    let mut command = sandbox.command("setsid", [program, "bench", "many.toml", "--jobs", "2"]);
    let mut bench = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("both runs make progress", || {
        find(&sandbox.path("runs"), "metrics.jsonl").len() == 2 && metrics_lines(&sandbox.path("runs")) > 60
    });
    let status = Command::new("kill").args(["-INT", "--", &format!("-{}", bench.id())]).status().unwrap();
    assert!(status.success());
    assert_eq!(bench.wait().unwrap().code(), Some(75));
    let logs: Vec<_> = find(&sandbox.path("runs"), "log.txt");
    for log in logs {
        let text = std::fs::read_to_string(log).unwrap();
        assert!(text.contains("interrupted"), "{text}");
    }
}

#[test]
fn two_benches_in_one_folder_share_the_work() {
    let sandbox = sandbox();
    let more = small_recipe("ms", "uniform").replace("epochs = 3", "epochs = 6") + "\n[sweep]\nseeds = 3\n";
    sandbox.write("many.toml", more);
    let mut first = sandbox.start(["bench", "many.toml"]);
    wait_until("the first run has started", || !find(&sandbox.path("runs"), "metrics.jsonl").is_empty());
    let second = sandbox.curricle(["bench", "many.toml"]).assert().success();
    assert!(second.stderr_text().contains("another process is working on it"), "{}", second.stderr_text());
    assert!(!second.stderr_text().contains("FAILED"), "{}", second.stderr_text());
    assert!(first.wait().unwrap().success());
    assert_eq!(status(&sandbox, "many.toml")["counts"]["finished"], 3);
    // Starting the same run twice would have left two files.
    assert_eq!(find(&sandbox.path("runs"), "result.json").len(), 3);
}

#[test]
fn runs_are_spread_over_devices() {
    let sandbox = sandbox();
    sandbox.write("many.toml", short() + "\n[sweep]\nseeds = 4\n");
    let args = ["bench", "many.toml", "--devices", "cuda:0,cuda:1", "--per-device", "2"];
    sandbox.curricle_on_fakecuda(args).env("FAKECUDA_DEVICES", "2").assert().success();
    let mut devices: Vec<_> = find(&sandbox.path("runs"), "manifest.json")
        .iter()
        .map(|path| {
            let manifest: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
            assert_eq!(manifest["threads"], 1);
            manifest["device"].as_str().unwrap().to_string()
        })
        .collect();
    devices.sort();
    devices.dedup();
    assert_eq!(devices, ["cuda:0", "cuda:1"]);
    let refused = sandbox.curricle_on_fakecuda(["bench", "many.toml", "--devices", "cuda:0,cuda:2"]).assert().code(2);
    assert!(refused.stderr_text().contains("cannot use `cuda:2`"), "{}", refused.stderr_text());
}

#[test]
fn printed_commands_run_anywhere_and_cover_only_unfinished_runs() {
    let sandbox = sandbox();
    sandbox.write("a folder/many.toml", short() + "\n[sweep]\nseeds = 2\n");
    let print = ["bench", "a folder/many.toml", "--launcher", "print", "--out", "my runs"];
    let printed = sandbox.curricle(print).assert().success().stdout_text();
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(lines.len(), 2, "{printed}");
    let elsewhere = tempfile::tempdir().unwrap();
    let ran = Command::new("sh").args(["-c", lines[1]]).current_dir(elsewhere.path()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let printed = sandbox.curricle(print).assert().success().stdout_text();
    assert_eq!(printed.lines().collect::<Vec<_>>(), [lines[0]]);
    let standing = ["bench", "a folder/many.toml", "--out", "my runs", "--status", "--json"];
    let standing = sandbox.curricle(standing).assert().success().json();
    assert_eq!(
        (&standing["runs"][0]["state"], &standing["runs"][1]["state"]),
        (&"not_started".into(), &"finished".into())
    );
}

#[test]
fn a_method_with_a_search_is_first_tuned_on_validation_classes() {
    let sandbox = sandbox();
    // A learning rate that fails, one that does nothing, and one that learns.
    let tuned = "[loss]\nname = \"ms\"\n[tune]\ngrid = { optimizer.lr = [1e38, 1e-12, 1e-2] }\n";
    sandbox.write("tuned.toml", tuned);
    let recipe = small_recipe("ms", "uniform").replace("classes = 12", "classes = 20");
    let recipe = recipe.replace("name = \"adam\"", "name = \"sgd\"").replace("epochs = 3", "epochs = 2");
    sandbox.write("many.toml", recipe + "\n[sweep]\nmethods = [\"tuned.toml\", \"ms.toml\"]\nseeds = 2\n");
    let planned = sandbox.curricle(["bench", "many.toml", "--dry-run"]).assert().success().stdout_text();
    assert!(planned.contains("7 runs: 5 not started, 2 waiting"), "{planned}");
    let done = sandbox.curricle(["bench", "many.toml", "--json"]).assert().success();
    let json = done.json();
    let search = &json["tune"]["searches"][0];
    assert_eq!(search["trials"].as_array().unwrap().len(), 3);
    assert_eq!(search["trials"][0]["runs"][0]["state"], "failed", "{search}");
    let chosen = search["chosen"]["optimizer.lr"].as_f64().unwrap();
    assert!(chosen == 1e-12 || chosen == 1e-2, "{search}");
    let values: Vec<_> = (1..3).map(|trial| search["trials"][trial]["value"].as_f64().unwrap()).collect();
    assert_eq!(chosen, if values[1] > values[0] { 1e-2 } else { 1e-12 });
    let written: Value = serde_json::from_str(&sandbox.read("runs/many/tune.json")).unwrap();
    assert_eq!(written, json["tune"]);

    // The trials saw fewer classes, and none of them a test class.
    let trial = Path::new(search["trials"][2]["runs"][0]["folder"].as_str().unwrap()).to_path_buf();
    let samples = |folder: &Path| sandbox.read(folder.join("samples.csv")).lines().count();
    let final_run = status(&sandbox, "many.toml")["runs"][3]["folder"].as_str().unwrap().to_string();
    assert!(samples(&trial) < samples(Path::new(&final_run)));
    let final_recipe = sandbox.read(Path::new(&final_run).join("recipe.toml"));
    assert!(final_recipe.contains("on = \"test\"") && final_recipe.contains("lr = "), "{final_recipe}");
    assert!(sandbox.read(trial.join("recipe.toml")).contains("on = \"validation\""));

    let again = sandbox.curricle(["tune", "many.toml"]).assert().success();
    assert_eq!(again.stderr_text().matches("already finished").count(), 2 + 4, "{}", again.stderr_text());
    assert!(again.stdout_text().contains("chosen"), "{}", again.stdout_text());
    let none = sandbox.curricle(["tune", "ms.toml"]).assert().code(2);
    assert!(
        none.stderr_text().contains("`[loss]` is missing") || none.stderr_text().contains("[data]"),
        "{}",
        none.stderr_text()
    );
    let single = sandbox.curricle(["run", "tuned.toml"]).assert().code(2);
    assert!(single.stderr_text().contains("curricle tune"), "{}", single.stderr_text());
}

#[test]
fn the_example_searches_match_the_papers() {
    let sandbox = Sandbox::new();
    let recipes = ["rdml", "bspml", "compare"].map(|name| root().join(format!("recipes/tune/{name}.toml")));
    let paths: Vec<_> = recipes.iter().map(|path| path.to_str().unwrap()).collect();
    let checked = sandbox.curricle(["check"].into_iter().chain(paths.iter().copied())).assert().success().stdout_text();
    for part in ["rdml.toml: ok, 1 run after 5 trials", "compare.toml: ok, 9 runs after 11 trials"] {
        assert!(checked.contains(part), "no {part} in\n{checked}");
    }
    let listed = sandbox.curricle(["tune", paths[1], "--dry-run", "--json"]).assert().success().json();
    for trial in listed.as_array().unwrap().iter().filter(|run| run["trial"] == true) {
        let max = trial["recipe"]["weights"]["lambda"]["max"].as_f64().unwrap();
        assert!((1.0..=5.0).contains(&max), "{trial}");
        assert_eq!(trial["recipe"]["eval"]["on"], "validation");
    }
}
