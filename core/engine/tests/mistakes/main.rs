//! Mistakes of components end a run with an error that names the component, and methods with a memory work.

mod components;
mod memory;

use components::FAULT;
use curricle_engine::device::DeviceChoice;
use curricle_engine::progress::ProgressMode;
use curricle_engine::run::{self, RunOptions, RunOutcome};
use curricle_engine::stop::StopSignal;
use curricle_engine::{Error, Experiment, Registry};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, MutexGuard};
use tempfile::TempDir;

/// 24 training samples in 3 steps an epoch.
const RECIPE: &str = r#"
[data]
source = "strokes"
classes = 8
per_class = 6
size = 16
[noise]
name = "uniform"
ratio = 0.25
[backbone]
name = "conv4"
width = 2
[embedding]
size = 4
[sampler]
name = "in_order"
[loss]
name = "faulty"
[weights]
name = "faulty"
[optimizer]
name = "adam"
lr = 1e-3
[train]
epochs = 2
log_every = 2
[eval]
restarts = 1
[track]
images = false
projector = false
"#;

/// Runs change the state of the process, so there is one at a time.
static ALONE: Mutex<()> = Mutex::new(());
/// The signal of the run, for a loss that asks it to stop.
static STOP: Mutex<Option<StopSignal>> = Mutex::new(None);

fn stop() -> StopSignal {
    STOP.lock().unwrap().clone().unwrap()
}

/// A folder to run the recipe in.
struct Workspace {
    folder: TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Workspace {
    fn new() -> Self {
        let alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        FAULT.store(true, SeqCst);
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(folder.path().join("recipe.toml"), RECIPE).unwrap();
        Self { folder, _alone: alone }
    }

    fn run(&self, sets: &[&str]) -> Result<RunOutcome, Error> {
        let sets: Vec<_> = sets.iter().map(ToString::to_string).collect();
        let experiment = Experiment::load(&self.folder.path().join("recipe.toml"), &sets, &Registry::built_in())?;
        let options = RunOptions {
            out: self.folder.path().join("runs"),
            device: DeviceChoice::Cpu,
            threads: Some(1),
            force: false,
            progress: ProgressMode::Quiet,
            profile: false,
            image_cache: None,
            checkpoint_every: std::time::Duration::ZERO,
        };
        let signal = StopSignal::default();
        *STOP.lock().unwrap() = Some(signal.clone());
        run::execute(&experiment, &options, &signal)
    }
}

/// Removes what differs between two runs of the same recipe.
fn results(outcome: &RunOutcome) -> (serde_json::Value, Vec<u8>, String) {
    let mut result = serde_json::to_value(&outcome.result).unwrap();
    result.as_object_mut().unwrap().remove("seconds");
    let read = |name: &str| fs_err::read(outcome.folder.join(name)).unwrap();
    (result, read("model.safetensors"), String::from_utf8(read("samples.csv")).unwrap())
}

fn refused(kind: &str, mistake: &str) -> String {
    let workspace = Workspace::new();
    let set = format!("{kind}.mistake=\"{mistake}\"");
    workspace.run(&[&set]).map(|_| ()).expect_err(mistake).to_string()
}

#[test]
fn mistakes_of_losses_are_named_at_once() {
    let before = std::env::current_dir().unwrap();
    for (mistake, reason) in [
        ("proxies_only", "returned a loss that does not depend on the embeddings"),
        ("in_place", "changed its input `embeddings` in place"),
        ("proxies_in_place", "changed its input `proxies` in place"),
        ("backward", "ran its own backward pass"),
        ("state", "wrote values with a gradient into its tensor `seen`"),
        ("resize", "and changed it to Float [3, 3]"),
        ("sparse", "must return a dense tensor"),
        ("early", "The loss changed its tensor `seen` in place after using it; let it use a copy"),
        ("sparse_log", "logged a sparse tensor as `x`"),
        ("complex_log", "logged a complex tensor as `x`"),
        ("log_twice", "logged `x` twice"),
        ("column_twice", "as `distance` twice"),
        ("gradient_mode", "changed gradient mode and did not restore it"),
        ("threads", "changed the number of threads and did not restore it"),
        ("chdir", "changed the working directory and did not restore it"),
        ("lr_scale", "a learning-rate scale of NaN"),
        ("init", "the initial value Normal { std: -1.0 }"),
    ] {
        // Scalars are logged in the second step of all.
        let at = if mistake.contains("log") { "loss.at=1" } else { "loss.at=0" };
        let workspace = Workspace::new();
        let message = workspace.run(&[&format!("loss.mistake={mistake}"), at]).map(|_| ()).expect_err(mistake);
        let message = message.to_string();
        assert!(message.starts_with("loss `faulty`: ") && message.contains(reason), "{mistake}: {message}");
    }
    assert_eq!(std::env::current_dir().unwrap(), before);
    assert_eq!(tch::get_num_threads(), 1);
    assert!(tch::Tensor::from(1.0).set_requires_grad(true).exp().requires_grad());
}

#[test]
fn mistakes_of_weight_schemes_are_named_at_once() {
    for (mistake, reason) in [
        ("in_place", "changed its input `embeddings` in place"),
        ("zero", "gave all samples the weight 0"),
        ("not_a_number", "returned a weight of NaN for sample 3"),
        ("reserved", "`label`, which is not available"),
        ("twice", "`a`, which is not available"),
        ("logged_too", "a column `a` for `samples.csv`, which it also logged batch by batch"),
        ("of_the_loss", "`loss_distance`, which is not available"),
        ("scalar", "returned a scalar `auroc`, a name that is taken"),
        ("batch_of_nan", "returned a weight of NaN for sample 0"),
        ("batch_range", "returned a weight of 1.5 for sample 0"),
        ("batch_shape", "returned weights of shape [1, 8]"),
        ("batch_in_place", "changed its input `embeddings` in place"),
    ] {
        let message = refused("weights", mistake);
        assert!(message.starts_with("weights `faulty`: ") && message.contains(reason), "{mistake}: {message}");
    }
}

#[test]
fn a_weight_out_of_range_is_noticed_though_the_sample_is_weighed_again() {
    let workspace = Workspace::new();
    let sets = ["weights.mistake=batch_range_once", "sampler.twice=true"];
    let message = workspace.run(&sets).map(|_| ()).unwrap_err().to_string();
    assert_eq!(message, "weights `faulty`: returned weights from 0.5 to 1.5 for a batch; they must be in [0, 1]");
}

#[test]
fn after_a_nan_gradient_the_last_good_checkpoint_is_kept_and_resumed() {
    let workspace = Workspace::new();
    FAULT.store(false, SeqCst);
    let good = results(&workspace.run(&["loss.mistake=nan_gradient", "loss.at=5"]).unwrap());
    drop(workspace);
    // The last step of the last epoch, of the first epoch, and one whose NaN only a later step shows.
    for (mistake, at, epoch) in
        [("nan_gradient", 5, 2), ("nan_gradient", 2, 1), ("nan_gradient", 3, 2), ("nan_proxies", 5, 2)]
    {
        let workspace = Workspace::new();
        let sets = [format!("loss.mistake={mistake}"), format!("loss.at={at}")];
        let sets = [sets[0].as_str(), sets[1].as_str()];
        let message = workspace.run(&sets).map(|_| ()).unwrap_err().to_string();
        let named = message.starts_with("loss `faulty`: ") && message.contains(&format!("in epoch {epoch}"));
        assert!(named && message.contains("The last checkpoint is kept"), "{message}");
        assert!(message.contains("not finite"), "{message}");
        FAULT.store(false, SeqCst);
        let again = results(&workspace.run(&sets).unwrap());
        if (mistake, at) == ("nan_gradient", 5) {
            assert_eq!(again, good);
        }
    }
}

#[test]
fn loss_scaling_does_not_hide_gradients_that_are_never_finite() {
    let workspace = Workspace::new();
    // Each skipped step halves the scale of 65,536.
    let sets = ["loss.mistake=nan_always", "train.precision=f16", "train.epochs=20", "eval.every=20"];
    let message = workspace.run(&sets).map(|_| ()).unwrap_err().to_string();
    assert!(message.starts_with("loss `faulty`: the gradients are not finite at any loss scale"), "{message}");
}

#[test]
fn a_component_that_ends_the_process_is_named() {
    if let Ok(mistake) = std::env::var("CURRICLE_MISTAKE") {
        let folder = std::env::var("CURRICLE_MISTAKE_FOLDER").unwrap();
        let workspace = Workspace { folder: tempfile::tempdir_in(folder).unwrap(), _alone: ALONE.lock().unwrap() };
        fs_err::write(workspace.folder.path().join("recipe.toml"), RECIPE).unwrap();
        let _ = workspace.run(&[&format!("loss.mistake={mistake}")]);
        return;
    }
    for (mistake, words, code) in [
        ("abort", "loss `faulty` aborted while it was running", None),
        ("crash", "loss `faulty` crashed (segmentation fault) while it was running", None),
        ("exit", "loss `faulty` ended the process while it was running", Some(1)),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_component_that_ends_the_process_is_named", "--nocapture"])
            .env("CURRICLE_MISTAKE", mistake)
            .env("CURRICLE_MISTAKE_FOLDER", folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stderr);
        assert!(said.contains(words), "{mistake}: {said}");
        assert_eq!(child.status.code(), code, "{mistake}: {}", child.status);
        let written = find(folder.path(), "error.txt").expect("the run has an error file");
        assert_eq!(written, format!("{words}\n"));
    }
}

/// The contents of the first file of this name below a folder.
fn find(folder: &Path, name: &str) -> Option<String> {
    fs_err::read_dir(folder).ok()?.flatten().find_map(|entry| match entry.path() {
        path if path.is_dir() => find(&path, name),
        path => path.ends_with(name).then(|| fs_err::read_to_string(path).ok()).flatten(),
    })
}
