//! Losses in Python: the examples are listed, checked, probed and trained with, and compared with other
//! implementations.

use crate::support::python::python_or_skip;
use crate::support::{
    Printed, Sandbox, metrics_lines, root, run_folder, skip, small_recipe, timeless_metrics, unwrapped,
};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView, serialize_to_file};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn python() -> Option<String> {
    python_or_skip("losses in Python")
}

fn examples() -> String {
    let path = root().join("examples/python-losses/losses.py").canonicalize().expect("the example exists");
    path.to_str().expect("the path is Unicode").to_string()
}

/// Twelve unit vectors of three classes, in f64, and a proxy for each of four classes.
fn write_batch(sandbox: &Sandbox, proxies: bool) {
    let bytes = |values: &[f64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let angle = |i: u32, d: u32| f64::from((i * 7 + d * d * 3 + i * d) % 23) / 23.0 - 0.4;
    let unit = |i: u32| {
        let row: Vec<f64> = (0..4).map(|d| angle(i, d)).collect();
        let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        row.into_iter().map(move |x| x / norm)
    };
    let rows = bytes(&(0..12).flat_map(unit).collect::<Vec<_>>());
    let labels: Vec<u8> = (0..12i64).flat_map(|i| (i % 3).to_le_bytes()).collect();
    let centres = bytes(&(20..24).flat_map(|i| (0..4).map(move |d| angle(i, d))).collect::<Vec<_>>());
    let mut views = vec![
        ("embeddings", TensorView::new(Dtype::F64, vec![12, 4], &rows).unwrap()),
        ("labels", TensorView::new(Dtype::I64, vec![12], &labels).unwrap()),
    ];
    if proxies {
        views.push(("proxies", TensorView::new(Dtype::F64, vec![4, 4], &centres).unwrap()));
    }
    serialize_to_file(views, None, &sandbox.path("in.safetensors")).unwrap();
}

/// The tensors that `probe` writes for a loss, as f64.
fn probe(sandbox: &Sandbox, args: &[&str]) -> impl Fn(&str) -> Vec<f64> + use<> {
    let fixed = ["probe", "loss", "--in", "in.safetensors", "--out", "out.safetensors"];
    sandbox.curricle(fixed.into_iter().chain(args.iter().copied())).assert().success();
    let file = std::fs::read(sandbox.path("out.safetensors")).unwrap();
    move |name| {
        let tensors = SafeTensors::deserialize(&file).unwrap();
        let data = tensors.tensor(name).unwrap().data().to_vec();
        data.chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect()
    }
}

fn assert_near(a: &[f64], b: &[f64], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    let apart = a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(apart < 1e-10, "{what} differ by {apart}");
}

/// What is orthogonal to the embeddings in a gradient: pytorch-metric-learning normalises embeddings, ours come so.
fn tangent(sandbox: &Sandbox, gradient: &[f64]) -> Vec<f64> {
    let file = std::fs::read(sandbox.path("in.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&file).unwrap();
    let data = tensors.tensor("embeddings").unwrap().data().to_vec();
    let x: Vec<f64> = data.chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect();
    let rows = gradient.chunks(4).zip(x.chunks(4));
    rows.flat_map(|(g, x)| {
        let along: f64 = g.iter().zip(x).map(|(g, x)| g * x).sum();
        g.iter().zip(x).map(move |(g, x)| g - along * x).collect::<Vec<_>>()
    })
    .collect()
}

#[test]
fn the_examples_are_listed_and_pass_the_conformance_suite() {
    let Some(python) = python() else { return };
    let sandbox = Sandbox::new();
    let examples = examples();
    let listed = sandbox.curricle(["plugin", "list", &examples, "--python", &python]).assert().success().stdout_text();
    assert!(listed.contains("loss `Circle`: Circle loss (Sun et al., CVPR 2020)"), "{listed}");
    assert!(listed.contains("gamma (default 80.0): Scale factor γ of the similarities."), "{listed}");
    // Circle detaches part of its formula.
    let check = ["plugin", "check", &examples, "--except", "gradient", "--python", &python];
    let checked = sandbox.curricle(check).assert();
    let shown = checked.stdout_text();
    checked.success();
    assert!(!shown.contains("FAILED") && shown.matches("same twice        ok").count() == 3, "{shown}");
}

#[test]
fn a_loss_in_python_gives_the_same_numbers_as_the_built_in_one() {
    let Some(python) = python() else { return };
    let sandbox = Sandbox::new();
    write_batch(&sandbox, false);
    let ours = probe(&sandbox, &["Circle", "--plugin", &examples(), "--python", &python, "--set", "gamma=8"]);
    let rust = probe(&sandbox, &["circle", "--set", "gamma=8"]);
    for name in ["loss", "grad"] {
        assert_near(&ours(name), &rust(name), name);
    }
}

#[test]
fn a_loss_of_pytorch_metric_learning_gives_the_same_numbers_as_the_built_in_one() {
    let Some(python) = python() else { return };
    let import = Command::new(&python).args(["-c", "import pytorch_metric_learning.losses"]).output().unwrap();
    if !import.status.success() {
        return skip("losses of pytorch-metric-learning", &String::from_utf8_lossy(&import.stderr));
    }
    let sandbox = Sandbox::new();
    write_batch(&sandbox, true);
    sandbox.write(
        "pml.py",
        "from pytorch_metric_learning import losses\n\
         ProxyAnchorLoss = losses.ProxyAnchorLoss\n\
         MultiSimilarityLoss = losses.MultiSimilarityLoss\n",
    );
    let theirs = probe(&sandbox, &["ProxyAnchorLoss", "--plugin", "pml.py", "--python", &python, "--set", "alpha=16"]);
    let ours = probe(&sandbox, &["proxy_anchor", "--set", "alpha=16"]);
    assert_near(&theirs("loss"), &ours("loss"), "loss");
    assert_near(&theirs("grad.proxies"), &ours("grad.proxies"), "grad.proxies");
    assert_near(&tangent(&sandbox, &theirs("grad")), &tangent(&sandbox, &ours("grad")), "grad");
    let listed = sandbox.curricle(["list", "loss", "--plugin", "pml.py", "--python", &python]).assert().success();
    let listed = listed.stdout_text();
    assert!(listed.contains("base: a number, default 0.5\n        The shift in the exponent"), "{listed}");
    assert!(!listed.contains("Args: "), "a summary ends before the arguments: {listed}");
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::copy(examples(), sandbox.path("losses.py")).unwrap();
    let recipe = small_recipe("ProxyNCA", "balanced_self_paced");
    sandbox.write("r.toml", format!("[plugins]\npaths = [\"losses.py\"]\n{recipe}"));
    sandbox
}

fn model(run: &Path) -> Vec<u8> {
    std::fs::read(run.join("model.safetensors")).unwrap()
}

/// The processes whose parent is this one.
fn children_of(id: u32) -> Vec<u32> {
    let listed = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_killed_run_leaves_no_process_and_resumes_exactly() {
    let Some(python) = python() else { return };
    let sandbox = sandbox();
    let run = |out| ["run", "r.toml", "--out", out, "--threads", "1", "--python", &python];
    sandbox.curricle(run("whole")).assert().success();
    let whole = run_folder(&sandbox.path("whole"));
    let manifest = std::fs::read_to_string(whole.join("manifest.json")).unwrap();
    assert!(manifest.contains("losses.py") && manifest.contains("\"sha256\""), "{manifest}");

    for (signal, out) in [("KILL", "killed"), ("INT", "stopped")] {
        let mut child = sandbox.start(run(out));
        let lines = timeless_metrics(&whole).len() / 2;
        wait_until("the run makes no progress", || metrics_lines(&sandbox.path(out)) >= lines);
        let workers = children_of(child.id());
        assert_eq!(workers.len(), 1, "one process for the file");
        Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
        child.wait().unwrap();
        wait_until("the process is left behind", || !Path::new(&format!("/proc/{}/mem", workers[0])).exists());
        sandbox.curricle(run(out)).assert().success();
        let resumed = run_folder(&sandbox.path(out));
        assert_eq!(timeless_metrics(&resumed), timeless_metrics(&whole), "SIG{signal}");
        assert!(model(&resumed) == model(&whole), "SIG{signal}");
    }
}

#[test]
fn training_on_the_stand_in_cuda_device_equals_training_on_the_cpu_up_to_rounding() {
    let Some(python) = python() else { return };
    let sandbox = sandbox();
    // The device is for curricle; the loss computes on the CPU.
    let wrapper = sandbox.write("python", format!("#!/bin/sh\nunset LD_PRELOAD\nexec '{python}' \"$@\"\n"));
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
    for loss in ["Circle", "ProxyNCA", "CentredContrastive"] {
        let on = |device: &str| {
            let (out, name) = (format!("{loss}-{device}"), format!("loss.name={loss}"));
            let args = ["run", "r.toml", "--threads", "1", "--device", device, "--json", "--set", &name];
            let args = args.into_iter().chain(["--out", &out, "--python", wrapper.to_str().unwrap()]);
            let result = sandbox.curricle_on_fakecuda(args).assert().success().json();
            [&result["final_loss"], &result["trained"]["map_at_r"]].map(|number| number.as_f64().unwrap())
        };
        let (cpu, cuda) = (on("cpu"), on("cuda"));
        let is_near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-3 * a.abs() + 1e-3;
        assert!(cpu.iter().zip(&cuda).all(is_near), "{loss}: {cpu:?}, {cuda:?}");
    }
}

#[test]
fn a_module_may_keep_what_it_was_given() {
    let Some(python) = python() else { return };
    let sandbox = sandbox();
    let file = "import torch\n\n\nclass Keeps(torch.nn.Module):\n    last = None\n\n    \
                def forward(self, embeddings, labels, weights):\n        \
                assert self.last is None or not torch.equal(self.last, embeddings), 'overwritten'\n        \
                self.last = embeddings.detach()\n        return embeddings.sum()\n";
    sandbox.write("losses.py", file);
    sandbox.write("r.toml", sandbox.read("r.toml").replace("ProxyNCA", "Keeps").replace("epochs = 3", "epochs = 1"));
    sandbox.curricle(["run", "r.toml", "--python", &python]).assert().success();
}

#[test]
fn constructors_may_take_arguments_by_position_or_by_name_alone() {
    let Some(python) = python() else { return };
    let sandbox = Sandbox::new();
    write_batch(&sandbox, false);
    let file = "import torch\n\n\nclass Scaled(torch.nn.Module):\n    \
                def __init__(self, first: float, second: float = 1.0, /, third: float = 1.0, *, fourth: float = 1.0):\n        \
                super().__init__()\n        self.scale = first + 10 * second + 100 * third + 1000 * fourth\n\n    \
                def forward(self, embeddings, labels):\n        return embeddings.sum() * 0 + self.scale\n";
    sandbox.write("l.py", file);
    let sets = ["first=1", "second=2", "third=3", "fourth=4"].into_iter().flat_map(|set| ["--set", set]);
    let args: Vec<_> = ["Scaled", "--plugin", "l.py", "--python", &python].into_iter().chain(sets).collect();
    assert_near(&probe(&sandbox, &args)("loss"), &[4321.0], "loss");
}

#[test]
fn sweeps_use_the_interpreter_of_the_bench() {
    let Some(python) = python() else { return };
    let sandbox = sandbox();
    let sweep = "\n[sweep]\nseeds = [0]\n[sweep.grid]\n\"loss.temperature\" = [0.1, 0.2]\n";
    let recipe = sandbox.read("r.toml").replace("epochs = 3", "epochs = 1") + sweep;
    sandbox.write("s.toml", recipe);
    let bench = sandbox.curricle(["bench", "s.toml", "--jobs", "1", "--python", &python, "--json"]);
    let rows = { bench }.assert().success().json();
    assert_eq!(rows["runs"].as_array().unwrap().len(), 2, "{rows}");
}

#[test]
fn settings_and_weights_are_checked_before_training() {
    let Some(python) = python() else { return };
    let sandbox = sandbox();
    let plain = "import torch\n\n\nclass Plain(torch.nn.Module):\n    def forward(self, embeddings, labels):\n        \
                 return embeddings.sum()\n";
    sandbox.write("plain.py", plain);
    let picky = "import torch\n\n\nclass Picky(torch.nn.Module):\n    def __init__(self, num_classes: int, margin: float = -1.0):\n        \
                 super().__init__()\n        if margin < 0: raise ValueError('margin is negative')\n\n    \
                 def forward(self, embeddings, labels, weights):\n        return embeddings.sum()\n";
    sandbox.write("picky.py", picky);
    let recipe = sandbox.read("r.toml");
    sandbox.write("typo.toml", recipe.replace("[weights]", "temprature = 1\n[weights]"));
    sandbox.write("type.toml", recipe.replace("[weights]", "temperature = \"high\"\n[weights]"));
    sandbox.write("weights.toml", recipe.replace("ProxyNCA", "Plain").replace("losses.py", "plain.py"));
    sandbox.write("picky.toml", recipe.replace("ProxyNCA", "Picky").replace("losses.py", "picky.py"));
    let check = ["check", "typo.toml", "type.toml", "weights.toml", "picky.toml", "--python", &python];
    let shown = unwrapped(&sandbox.curricle(check).assert().code(2).stderr_text());
    assert!(shown.contains("did you mean `temperature`?"), "{shown}");
    assert!(shown.contains("`loss.temperature` must be a number, not a string"), "{shown}");
    assert!(shown.contains("loss `Plain` does not take weights"), "{shown}");
    assert!(shown.contains("add an argument `weights`"), "{shown}");
    assert!(shown.contains("picky.py:7: ValueError: margin is negative"), "{shown}");
}

#[test]
fn code_on_the_page_is_that_of_the_example() {
    let page = std::fs::read_to_string(root().join("docs/python-losses.md")).unwrap();
    let example = std::fs::read_to_string(examples()).unwrap();
    let blocks: Vec<_> = page.split("```python\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let shown = blocks.iter().find(|block| block.contains("class ProxyNCA")).expect("the page shows the loss");
    for part in shown.split("\n\n\n").skip(1) {
        assert!(example.contains(part.trim()), "not in the example:\n{part}");
    }
}
