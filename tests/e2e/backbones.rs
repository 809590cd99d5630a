//! Networks for images from files: weights, frozen features, embeddings and exported models.

use crate::support::python::python_with_torch;
use crate::support::{
    Printed, Sandbox, metrics_lines, nearly_equal, root, run_folder, skip, small_recipe, timeless_metrics, unwrapped,
};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Four classes of four images each, 32 x 32 pixels: stripes whose direction and colour depend on the class.
fn write_images(sandbox: &Sandbox) {
    for class in 0..4u32 {
        for sample in 0..4u32 {
            let mut image = b"P6\n32 32\n255\n".to_vec();
            for y in 0..32u32 {
                for x in 0..32u32 {
                    let along = [x, y, x + y, x + 32 - y][class as usize] + sample;
                    let stripe = if along / 3 % 2 == 0 { 220 } else { 30 };
                    let noise = (x * 7 + y * 13 + sample * 31) % 23;
                    image.extend([stripe as u8, (60 * class + noise) as u8, (200 - 5 * noise) as u8]);
                }
            }
            sandbox.write(&format!("images/class-{class}/{sample}.ppm"), image);
        }
    }
}

const RECIPE: &str = r#"
[data]
source = "folder"
path = "images"
[images]
size = 32
resize = 32
crop = { name = "center" }
flip = 0.0
[backbone]
name = "squeezenet1_1"
[embedding]
size = 8
[sampler]
name = "pk"
classes = 2
per_class = 2
[loss]
name = "ms"
[optimizer]
name = "adam"
lr = 1e-3
[train]
epochs = 2
log_every = 1
[eval]
restarts = 1
recall_at = [1, 2]
[track]
images = false
"#;

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    write_images(&sandbox);
    sandbox.write("r.toml", RECIPE);
    sandbox
}

/// Runs the recipe with some settings changed and returns the run's folder.
fn run(sandbox: &Sandbox, out: &str, sets: &[&str]) -> PathBuf {
    let mut args = vec!["run", "r.toml", "--out", out, "--threads", "1"];
    sets.iter().for_each(|set| args.extend(["--set", set]));
    sandbox.curricle(args).assert().success();
    run_folder(&sandbox.path(out))
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The losses and the metrics of a run, in order.
fn learned(run: &Path) -> Vec<f64> {
    let number = |line: String| serde_json::from_str::<serde_json::Value>(&line).unwrap()["value"].as_f64().unwrap();
    let lines = timeless_metrics(run).into_iter();
    lines.filter(|line| line.contains("eval/") || line.contains("train/loss")).map(number).collect()
}

#[test]
fn precomputed_features_match_a_frozen_network() {
    let sandbox = sandbox();
    let frozen = run(&sandbox, "frozen", &["backbone.frozen=true"]);
    let head_first = run(&sandbox, "head-first", &["train.head_epochs=2"]);
    // Features are computed in larger batches, which may round differently.
    let apart = |a: &Path, b: &Path| {
        let (a, b) = (learned(a), learned(b));
        assert_eq!(a.len(), b.len());
        a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    };
    assert!(apart(&frozen, &head_first) < 1e-4);
    let log = std::fs::read_to_string(frozen.join("log.txt")).unwrap();
    assert!(log.contains("features of 8 training and 8 test samples"), "{log}");
    let trained = run(&sandbox, "trained", &[]);
    assert!(apart(&frozen, &trained) > 1e-3, "a network that is trained learns something else");
}

#[test]
fn runs_with_any_kind_of_backbone_resume_exactly() {
    let frozen: &[&str] = &["backbone.frozen=true", "train.epochs=3"];
    let (vit, script) = ([VIT, &["train.epochs=3"]].concat(), [SCRIPT, "train.epochs=3"]);
    for sets in [frozen, &["train.head_epochs=1", "train.epochs=3"], &vit, &script] {
        let sandbox = sandbox();
        write_script(&sandbox, "net.pt");
        let whole = run(&sandbox, "whole", sets);
        let mut args = vec!["run", "r.toml", "--out", "cut", "--threads", "1"];
        sets.iter().for_each(|set| args.extend(["--set", set]));
        let mut child = sandbox.start(args.iter().copied());
        while metrics_lines(&sandbox.path("cut")) < timeless_metrics(&whole).len() / 2
            && child.try_wait().unwrap().is_none()
        {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let _ = child.kill();
        child.wait().unwrap();
        sandbox.curricle(args).assert().success();
        let cut = run_folder(&sandbox.path("cut"));
        assert_eq!(timeless_metrics(&cut), timeless_metrics(&whole), "{sets:?}");
        let model = |run: &Path| std::fs::read(run.join("model.safetensors")).unwrap();
        assert!(model(&cut) == model(&whole), "{sets:?}");
    }
}

/// A vision transformer that trains in a moment.
const VIT: &[&str] = &[
    "backbone={name=\"vit_small_16\",patch=8,width=32,depth=2,heads=2,registers=1,drop_path=0.2,layer_decay=0.5}",
    "train.epochs=2",
];

#[test]
fn a_vision_transformer_trains_embeds_and_exports() {
    let sandbox = sandbox();
    let first = run(&sandbox, "first", VIT);
    let log = std::fs::read_to_string(first.join("metrics.jsonl")).unwrap();
    assert!(log.contains("backbone.blocks.1"), "learning rates of each block are logged");
    // Checkpointing changes the recipe's hash, but no bit of the result.
    let checkpointed = run(&sandbox, "checkpointed", &[VIT, &["backbone.checkpointing=true"]].concat());
    assert_eq!(learned(&first), learned(&checkpointed));

    let weights = format!("backbone.weights={}", path(&first.join("model.safetensors")));
    let again = [VIT, &[&weights, "backbone.normalise=imagenet", "train.epochs=0"]].concat();
    let second = run(&sandbox, "second", &again);
    let log = std::fs::read_to_string(second.join("log.txt")).unwrap();
    assert!(log.contains("names of timm, all 31 tensors matched under `model.backbone.`"), "{log}");
    // Without the file that the run began with, and at a size that it was not trained with.
    std::fs::remove_file(first.join("model.safetensors")).unwrap();
    let embed = ["embed", path(&second), "--images", "images", "--out", "e.safetensors"];
    sandbox.curricle(embed).assert().success();
    sandbox.curricle(["export", path(&second), "--out", "m.safetensors"]).assert().success();
    let embed = ["embed", "m.safetensors", "--images", "images", "--out", "again.safetensors"];
    sandbox.curricle(embed).assert().success();
    let mine = embeddings(&sandbox.path("e.safetensors"));
    assert_eq!(mine, embeddings(&sandbox.path("again.safetensors")));

    // The names in the exported file could be DINO's.
    let third = run(&sandbox, "third", &[VIT, &["backbone.weights=m.safetensors", "train.epochs=0"]].concat());
    let log = std::fs::read_to_string(third.join("log.txt")).unwrap();
    assert!(log.contains("assuming `backbone.normalise = \"imagenet\"`"), "{log}");
}

/// A network from Python with batch norm, a buffer and dropout, see `tests/golden/torchscript.py`.
fn write_script(sandbox: &Sandbox, name: &str) {
    let bytes = std::fs::read(root().join("tests/golden/torchscript").join(name)).unwrap();
    sandbox.write("net.pt", bytes);
}

const SCRIPT: &str = "backbone={name=\"torchscript\",path=\"net.pt\"}";

#[test]
fn a_torchscript_network_is_part_of_the_runs_identity() {
    let sandbox = sandbox();
    write_script(&sandbox, "net.pt");
    let trained = run(&sandbox, "runs", &[SCRIPT, "groups.\"backbone.stem\".lr_scale=0", "train.ema=0.9"]);
    let recipe = std::fs::read_to_string(trained.join("recipe.toml")).unwrap();
    assert!(recipe.contains("sha256 = \""), "{recipe}");
    let tensors = std::fs::read(trained.join("model.safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&tensors).unwrap();
    let tracked = tensors.tensor("model.backbone.stem.1.num_batches_tracked").unwrap().data().to_vec();
    assert_eq!(tracked, 5i64.to_le_bytes(), "one batch in Python, four here");
    let unknown = ["check", "r.toml", "--set", SCRIPT, "--set", "groups.\"backbone.steam\".lr_scale=0"];
    let refused = sandbox.curricle(unknown).assert().failure().stderr_text();
    assert!(refused.contains("did you mean `backbone.stem`"), "{refused}");

    let embed = ["embed", path(&trained), "--images", "images", "--out", "e.safetensors"];
    sandbox.curricle(embed).assert().success();
    sandbox.curricle(["export", path(&trained), "--out", "m.safetensors"]).assert().success();
    let again = ["embed", "m.safetensors", "--images", "images", "--out", "again.safetensors"];
    sandbox.curricle(again).assert().success();
    assert_eq!(embeddings(&sandbox.path("e.safetensors")), embeddings(&sandbox.path("again.safetensors")));

    write_script(&sandbox, "fixed.pt");
    let changed = sandbox.curricle(embed).assert().failure().stderr_text();
    assert!(changed.contains("is not the network of this run"), "{changed}");
    let other = run(&sandbox, "runs-of-another", &[SCRIPT, "train.epochs=0"]);
    let hash = |run: &Path| run.parent().unwrap().file_name().unwrap().to_owned();
    assert_ne!(hash(&trained), hash(&other));
    std::fs::remove_file(sandbox.path("net.pt")).unwrap();
    let missing = sandbox.curricle(["check", "r.toml", "--set", SCRIPT]).assert().failure().stderr_text();
    assert!(missing.contains("there is no file"), "{missing}");
    write_script(&sandbox, "maps.pt");
    let maps = sandbox.curricle(["run", "r.toml", "--set", SCRIPT]).assert().failure().stderr_text();
    assert!(maps.contains("returns feature maps"), "{maps}");
    write_script(&sandbox, "state_dict.pth");
    let tensors = sandbox.curricle(["check", "r.toml", "--set", SCRIPT]).assert().code(2).stderr_text();
    assert!(unwrapped(&tensors).contains("holds tensors or a pickled model"), "{tensors}");
}

#[test]
fn a_vision_transformer_refuses_images_that_its_patches_do_not_tile() {
    let sandbox = sandbox();
    let args = ["check", "r.toml", "--set", "backbone={name=\"vit_small_14\"}"];
    let refused = unwrapped(&sandbox.curricle(args).assert().failure().stderr_text());
    assert!(refused.contains("a multiple of 14 pixels, its patch size, but `images.size` is 32"), "{refused}");
    assert!(refused.contains("set `images.size = 28`"), "{refused}");
}

#[test]
fn a_trained_model_can_be_loaded_as_pretrained_weights() {
    let sandbox = sandbox();
    let first = run(&sandbox, "first", &[]);
    let weights = format!("backbone.weights={}", path(&first.join("model.safetensors")));
    let second = run(&sandbox, "second", &[&weights, "train.epochs=0"]);
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(second.join("manifest.json")).unwrap()).unwrap();
    let report = &manifest["weights"];
    assert_eq!((&report["matched"], &report["prefix"]), (&50.into(), &"model.backbone.".into()));
    assert!(report["left_over"].as_array().unwrap().contains(&"model.embedding.weight".into()), "{report}");
    let log = std::fs::read_to_string(second.join("log.txt")).unwrap();
    assert!(log.contains("all 50 tensors matched under `model.backbone.`"), "{log}");
    sandbox.write("rubbish.pth", "rubbish");
    let refused = sandbox.curricle(["run", "r.toml", "--set", "backbone.weights=rubbish.pth"]).assert().failure();
    assert!(refused.stderr_text().contains("is neither a PyTorch file"), "{}", refused.stderr_text());
}

#[test]
fn embeddings_of_a_run_evaluate_to_its_result() {
    let sandbox = sandbox();
    let trained = run(&sandbox, "runs", &[]);
    let result: serde_json::Value =
        serde_json::from_slice(&std::fs::read(trained.join("result.json")).unwrap()).unwrap();
    let run = path(&trained);
    let embed = |args: &[&str]| sandbox.curricle([&["embed", run, "--json"], args].concat()).assert().success().json();
    let said = embed(&["--data", "test", "--out", "test.safetensors"]);
    assert_eq!((&said["samples"], &said["dimensions"], &said["classes"]), (&8.into(), &8.into(), &2.into()));
    let eval = |file: &str| sandbox.curricle(["eval", file, "--recall", "1,2", "--json"]).assert().success().json();
    assert_eq!(eval("test.safetensors")["recall"], result["trained"]["recall"]);

    // Images from a folder, from a list and through an exported model have the same embeddings.
    embed(&["--images", "images", "--out", "folder.safetensors"]);
    let listed: String = (0..4).flat_map(|c| (0..4).map(move |s| format!("images/class-{c}/{s}.ppm\n"))).collect();
    sandbox.write("list.txt", listed);
    assert_eq!(embed(&["--images", "list.txt", "--out", "list.safetensors"])["classes"], serde_json::Value::Null);
    let export = ["export", run, "--format", "safetensors", "--out", "model.safetensors"];
    sandbox.curricle(export).assert().success();
    let again = ["embed", "model.safetensors", "--images", "images", "--out", "again.safetensors"];
    sandbox.curricle(again).assert().success();
    let folder = embeddings(&sandbox.path("folder.safetensors"));
    assert_eq!(folder.len(), 16 * 8);
    assert_eq!(folder, embeddings(&sandbox.path("list.safetensors")));
    assert_eq!(folder, embeddings(&sandbox.path("again.safetensors")));
    // The second half of the classes is the test set; batches of another size may round differently.
    assert!(apart(&folder[8 * 8..], &embeddings(&sandbox.path("test.safetensors"))) < 1e-5);
}

/// The largest difference between two lists of the same length.
fn apart(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn embeddings(file: &Path) -> Vec<f32> {
    let bytes = std::fs::read(file).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let data = tensors.tensor("embeddings").unwrap().data().to_vec();
    data.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

#[test]
fn embed_and_export_explain_bad_arguments() {
    let sandbox = sandbox();
    let fails = |args: &[&str]| sandbox.curricle(args.iter().copied()).assert().failure().stderr_text();
    let no_run = fails(&["embed", "images", "--images", "images", "--out", "x.safetensors"]);
    assert!(no_run.contains("is not a run folder"), "{no_run}");
    let nothing = fails(&["embed", "nothing", "--images", "images", "--out", "x.safetensors"]);
    assert!(nothing.contains("nothing"), "{nothing}");
    let run = run(&sandbox, "runs", &["train.epochs=0"]);
    let no_images = fails(&["embed", path(&run), "--images", "nowhere", "--out", "x.safetensors"]);
    assert!(no_images.contains("nowhere"), "{no_images}");
    let onnx = fails(&["export", path(&run), "--out", "model.onnx"]);
    assert!(onnx.contains("ONNX is not supported") && onnx.contains("`.pt`"), "{onnx}");
    let unknown = fails(&["export", path(&run), "--out", "model"]);
    assert!(unknown.contains("cannot tell the format from the name `model`"), "{unknown}");
    assert!(!sandbox.path("model.onnx").exists() && !sandbox.path("model").exists());
    let no_folder = fails(&["export", path(&run), "--out", "no/such/folder/model.pt"]);
    assert!(no_folder.contains("cannot write `no/such/folder/model.pt`"), "{no_folder}");
    assert!(!sandbox.path("x.safetensors").exists());
}

#[test]
fn a_model_of_grey_images_embeds_grey_files_and_refuses_coloured_ones() {
    let sandbox = Sandbox::new();
    sandbox.write("grey.toml", small_recipe("ms", "uniform").replace("epochs = 3", "epochs = 0"));
    sandbox.curricle(["run", "grey.toml"]).assert().success();
    let run = run_folder(&sandbox.path("runs"));
    std::fs::create_dir(sandbox.path("files")).unwrap();
    let grey = image::GrayImage::from_fn(20, 30, |x, y| image::Luma([(7 * x + y) as u8]));
    grey.save(sandbox.path("files/a.png")).unwrap();
    let embed = ["embed", path(&run), "--images", "files", "--out", "x.safetensors"];
    sandbox.curricle(embed).assert().success();
    assert!(embeddings(&sandbox.path("x.safetensors")).iter().all(|value| value.is_finite()));
    image::RgbImage::from_pixel(20, 20, image::Rgb([200, 10, 10])).save(sandbox.path("files/b.png")).unwrap();
    let refused = sandbox.curricle(embed).assert().code(2).stderr_text();
    assert!(refused.contains("`b.png` is a colour image") && refused.contains("greyscale"), "{refused}");
}

#[test]
fn an_exported_model_gives_the_same_embeddings_in_python() {
    let python = match python_with_torch() {
        Ok(python) => python,
        Err(why) => return skip("an exported model in Python", &why),
    };
    let sandbox = sandbox();
    write_script(&sandbox, "net.pt");
    let mobilenet: &[&str] = &["backbone.name=mobilenet_v2"];
    for (backbone, sets) in
        [("squeezenet1_1", &[][..]), ("mobilenet_v2", mobilenet), ("vit", VIT), ("script", &[SCRIPT][..])]
    {
        let trained = run(&sandbox, backbone, &[sets, &["train.epochs=1"]].concat());
        let run = path(&trained);
        sandbox.curricle(["embed", run, "--images", "images", "--out", "e.safetensors"]).assert().success();
        sandbox.curricle(["export", run, "--out", "model.pt"]).assert().success();
        let script = root().join("tests/python/torchscript.py");
        let mut command = Command::new(&python);
        command.arg(script).args(["model.pt", "images"]).current_dir(sandbox.path(""));
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let theirs: Vec<f32> = serde_json::from_slice(&output.stdout).unwrap();
        let apart = apart(&embeddings(&sandbox.path("e.safetensors")), &theirs);
        assert!(apart < 1e-5, "{backbone}: embeddings differ by {apart}");
    }
}

/// On the stand-in device, or on a real GPU where there is one and `CURRICLE_TEST_GPU` is set.
fn on(sandbox: &Sandbox, args: &[&str]) -> assert_cmd::Command {
    if std::env::var_os("CURRICLE_TEST_GPU").is_some() {
        sandbox.curricle(args.iter().copied())
    } else {
        sandbox.curricle_on_fakecuda(args.iter().copied())
    }
}

#[test]
fn networks_train_embed_and_export_on_cuda_as_on_the_cpu() {
    let sandbox = sandbox();
    let real = std::env::var_os("CURRICLE_TEST_GPU").is_some();
    write_script(&sandbox, "net.pt");
    let cases: [&[&str]; 4] = [
        // Without dropout, which draws from the device's own generator.
        &[SCRIPT, "backbone.frozen_norm=true", "train.head_epochs=2"],
        &["backbone.name=mobilenet_v2", "backbone.pooling=average_max", "train.head_epochs=1"],
        &["backbone.name=bn_inception", "backbone.frozen=true", "backbone.normalise=caffe_bgr"],
        &["backbone.name=efficientnet_b0", "train.epochs=1", "groups.\"backbone.features.0\".lr_scale=0"],
    ];
    for (number, sets) in cases.into_iter().enumerate() {
        let run = |device: &str| {
            let out = format!("{device}-{number}");
            let mut args = vec!["run", "r.toml", "--out", &out, "--threads", "1", "--device", device, "--json"];
            sets.iter().for_each(|set| args.extend(["--set", set]));
            let result = on(&sandbox, &args).assert().success().json();
            // Not the metrics: embeddings of a network with random weights are so close that rounding ranks them.
            (result["final_loss"].clone(), run_folder(&sandbox.path(&out)))
        };
        let ((on_cpu, _), (on_cuda, folder)) = (run("cpu"), run("cuda"));
        // Stochastic depth draws from the device's own generator, and batch norm over so few pixels amplifies rounding.
        if !real && !["efficientnet", "mobilenet"].iter().any(|name| sets[0].contains(name)) {
            assert!(nearly_equal(&on_cpu, &on_cuda), "{sets:?}: {on_cpu} on the CPU, {on_cuda} on the device");
        }
        let embed = |device: &str, out: &str| {
            let args = ["embed", path(&folder), "--data", "test", "--out", out, "--device", device, "--threads", "1"];
            on(&sandbox, &args).assert().success();
            embeddings(&sandbox.path(out))
        };
        let apart = apart(&embed("cpu", "cpu.safetensors"), &embed("cuda", "cuda.safetensors"));
        assert!(apart < 1e-4, "{sets:?}: {apart}");
        on(&sandbox, &["export", path(&folder), "--out", "model.pt"]).assert().success();
        assert!(sandbox.path("model.pt").metadata().unwrap().len() > 10_000);
    }
}
