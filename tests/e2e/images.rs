//! Training on image files.

use crate::support::images::{image_recipe, write_images};
use crate::support::{Printed, Sandbox, metrics_lines, run_folder, timeless_metrics};
use serde_json::Value;

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    write_images(&sandbox, 8, 6);
    sandbox.write("small.toml", image_recipe("bspml", "balanced_self_paced"));
    sandbox
}

fn manifest(sandbox: &Sandbox, runs: &str) -> Value {
    serde_json::from_str(&sandbox.read(run_folder(&sandbox.path(runs)).join("manifest.json"))).unwrap()
}

#[test]
fn training_on_a_folder_of_images_is_reproducible() {
    let sandbox = sandbox();
    let run = |out| sandbox.curricle(["run", "small.toml", "--json", "--out", out]).assert().success().json();
    let (first, second) = (run("a"), run("b"));
    assert_eq!(first["trained"], second["trained"]);
    assert_eq!(first["conditions"], second["conditions"]);
    assert_eq!(first["trained"]["queries"], 24);
    assert_ne!(first["trained"], first["untrained"]);
    let folder = run_folder(&sandbox.path("a"));
    assert!(folder.join("projector/sprite.png").is_file());
    let lines = std::fs::read_to_string(folder.join("metrics.jsonl")).unwrap();
    assert!(lines.contains("time/share/data"));
}

#[test]
fn the_data_hash_depends_on_content_and_not_on_location() {
    let sandbox = sandbox();
    let hash = |out: &str, data: &str| {
        let path = format!("data.path={data}");
        let run = ["run", "small.toml", "--set", "train.epochs=1", "--set", &path, "--json", "--out", out];
        sandbox.curricle(run).assert().success().json()["conditions"]["data"].clone()
    };
    let before = hash("a", "images");
    std::fs::rename(sandbox.path("images"), sandbox.path("moved")).unwrap();
    assert_eq!(before, hash("b", "moved"));
    std::fs::copy(sandbox.path("moved/class 0/1.jpg"), sandbox.path("moved/class 0/3.jpg")).unwrap();
    assert_ne!(before, hash("c", "moved"));
}

#[test]
fn a_run_stopped_within_an_epoch_resumes_exactly() {
    let whole = sandbox();
    let run = ["run", "small.toml", "--threads", "1"];
    whole.curricle(run).assert().success();
    let wanted = timeless_metrics(&run_folder(&whole.path("runs")));

    let stopped = sandbox();
    let mut child = stopped.start(run);
    while metrics_lines(&stopped.path("runs")) < wanted.len() / 3 && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let asked = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(asked.success());
    assert_eq!(child.wait().unwrap().code(), Some(75));
    stopped.curricle(run).assert().success();
    assert_eq!(timeless_metrics(&run_folder(&stopped.path("runs"))), wanted);
}

#[test]
fn a_bad_image_ends_the_run_or_is_skipped() {
    let sandbox = sandbox();
    let whole = std::fs::read(sandbox.path("images/class 1/3.jpg")).unwrap();
    std::fs::write(sandbox.path("images/class 1/3.jpg"), &whole[..whole.len() / 2]).unwrap();
    let failed = sandbox.curricle(["run", "small.toml"]).assert().code(1).stderr_text();
    assert!(failed.contains("class 1/3.jpg`: is truncated after"), "{failed}");
    assert!(failed.contains("curricle data check") && failed.contains("images.on_bad_image = \"skip\""), "{failed}");

    let skip = ["run", "small.toml", "--set", "images.on_bad_image=skip", "--json", "--out"];
    let run = |out: &'static str| {
        let result = sandbox.curricle(skip.into_iter().chain([out])).assert().success().json();
        (result["trained"].clone(), result["conditions"].clone())
    };
    let skipped = run("skipped");
    let listed = &manifest(&sandbox, "skipped")["skipped_files"];
    assert_eq!(listed[0]["path"], "class 1/3.jpg");
    assert_eq!(listed.as_array().unwrap().len(), 1);
    let log = sandbox.read(run_folder(&sandbox.path("skipped")).join("log.txt"));
    assert!(log.contains("skipped: `class 1/3.jpg` is truncated after"), "{log}");

    std::fs::remove_file(sandbox.path("images/class 1/3.jpg")).unwrap();
    assert_eq!(skipped, run("removed"), "skipping a file has the same effect as deleting it");
    assert_eq!(manifest(&sandbox, "removed").get("skipped_files"), None);
}

#[test]
fn data_check_lists_every_bad_file() {
    let sandbox = sandbox();
    let check = ["data", "check", "small.toml"];
    let good = sandbox.curricle(check).assert().success().stdout_text();
    assert!(good.contains("all 48 files"), "{good}");
    sandbox.write("images/class 2/0.png", "no image");
    sandbox.write("images/class 5/9.jpg", "");
    let bad = sandbox.curricle(check).assert().code(1).stdout_text();
    assert!(bad.contains("`class 2/0.png`: is not an image in a supported format"), "{bad}");
    assert!(bad.contains("`class 5/9.jpg`: is empty") && bad.contains("2 of 49 files"), "{bad}");
    let report = sandbox.curricle(check.into_iter().chain(["--json"])).assert().code(1).json();
    assert_eq!((&report["files"], &report["parts"][0]["part"]), (&49.into(), &"train".into()));
    assert_eq!(report["bad"][0]["path"], "class 2/0.png");

    sandbox.write("images/class 1/notes.txt", "");
    sandbox.write("images/read me.md", "");
    std::fs::create_dir(sandbox.path("images/class 9")).unwrap();
    let ignored = sandbox.curricle(check).assert().code(1).stdout_text();
    assert!(ignored.contains("`class 1/notes.txt`: does not have the extension of an image"), "{ignored}");
    assert!(ignored.contains("`class 9`: is a class folder without images"), "{ignored}");
    assert!(ignored.contains("`read me.md`: is not in a class folder"), "{ignored}");
    assert!(ignored.contains("3 entries are not part of the data set"), "{ignored}");

    sandbox.write("list.csv", "path,label\nimages/class 0/0.png,a\nimages/class 0/none.png,b\n");
    let csv = ["--set", "data={source=\"csv\", path=\"list.csv\", split=\"none\"}"];
    let missing = sandbox.curricle(check.into_iter().chain(csv)).assert().code(1).stdout_text();
    assert!(missing.contains("`images/class 0/none.png`: cannot be read: No such file"), "{missing}");
}

#[test]
fn a_wrong_path_or_size_is_reported() {
    let sandbox = sandbox();
    let said =
        |set: &str, code: i32| sandbox.curricle(["run", "small.toml", "--set", set]).assert().code(code).stderr_text();
    let missing = said("data.path=nowhere", 2);
    assert!(missing.contains("nowhere"), "{missing}");
    let small = said("images.resize=8", 2);
    assert!(small.contains("`images.resize` is 8, less than `images.size`, 16"), "{small}");
}

#[test]
fn without_a_split_every_sample_is_used_for_training_and_test() {
    let sandbox = sandbox();
    let run = ["run", "small.toml", "--set", "data.split=none", "--set", "train.epochs=1", "--json"];
    let result = sandbox.curricle(run).assert().success().json();
    assert_eq!(result["trained"]["queries"], 48);
}
