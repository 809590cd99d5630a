//! The examples of losses with declared tensors: their numbers are those of pytorch-metric-learning.

use crate::support::plugins::{cpp_example, rust_plugin};
use crate::support::{Printed, Sandbox, root};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView, serialize_to_file};
use std::path::{Path, PathBuf};

fn memory() -> PathBuf {
    rust_plugin("examples/cross-batch-memory", "cross_batch_memory")
}

fn memory_cpp() -> PathBuf {
    cpp_example("cross-batch-memory-cpp", "cross_batch_memory_cpp")
}

fn floats(file: &SafeTensors, name: &str) -> Vec<f64> {
    let bytes = file.tensor(name).unwrap_or_else(|e| panic!("`{name}`: {e}")).data().to_vec();
    bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect()
}

fn bytes(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Evaluates a loss on a case of `tests/golden/examples.safetensors`; `more` are further inputs.
fn probe(library: &Path, loss: &str, case: &str, more: Vec<(&str, TensorView)>, set: &[&str]) -> Vec<u8> {
    let golden = std::fs::read(root().join("tests/golden/examples.safetensors")).unwrap();
    let golden = SafeTensors::deserialize(&golden).unwrap();
    let inputs = ["embeddings", "labels", "centers", "memory", "memory_labels"];
    let mut views: Vec<_> =
        inputs.iter().filter_map(|name| Some((*name, golden.tensor(&format!("{case}.{name}")).ok()?))).collect();
    views.extend(more);
    let sandbox = Sandbox::new();
    serialize_to_file(views, None, &sandbox.path("in.safetensors")).unwrap();
    let library = library.to_str().unwrap();
    let args = ["probe", "loss", loss, "--plugin", library, "--in", "in.safetensors", "--out", "out.safetensors"];
    sandbox.curricle(args.iter().chain(set).copied()).assert().success();
    std::fs::read(sandbox.path("out.safetensors")).unwrap()
}

/// Compares with the reference, which normalises its embeddings: of `grad`, the part across each embedding.
fn assert_golden(computed: &[u8], case: &str, names: &[&str]) {
    let golden = std::fs::read(root().join("tests/golden/examples.safetensors")).unwrap();
    let golden = SafeTensors::deserialize(&golden).unwrap();
    let computed = SafeTensors::deserialize(computed).unwrap();
    let x = floats(&golden, &format!("{case}.embeddings"));
    for name in names {
        let (mut ours, expected) = (floats(&computed, name), floats(&golden, &format!("{case}.{name}")));
        if *name == "grad" {
            for (row, x) in ours.chunks_exact_mut(5).zip(x.chunks_exact(5)) {
                let along: f64 = row.iter().zip(x).map(|(g, x)| g * x).sum();
                row.iter_mut().zip(x).for_each(|(g, x)| *g -= along * x);
            }
        }
        assert_eq!(ours.len(), expected.len(), "{case} {name}");
        let worst = ours.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(worst < 1e-6, "{case} {name}: {ours:?} and not {expected:?}");
    }
}

#[test]
fn soft_triple_matches_the_reference() {
    let library = rust_plugin("examples/soft-triple", "soft_triple_example");
    let computed = probe(&library, "soft_triple_example", "soft_triple", vec![], &["--set", "centers_per_class=3"]);
    assert_golden(&computed, "soft_triple", &["loss", "grad", "grad.centers"]);
}

#[test]
fn a_memory_in_rust_and_in_cpp_matches_the_reference() {
    let (ids, next) = (bytes(&(100..112).collect::<Vec<_>>()), bytes(&[8]));
    let weights: Vec<u8> = [1.0f64; 12].iter().flat_map(|w| w.to_le_bytes()).collect();
    let more = || {
        vec![
            ("memory_ids", TensorView::new(Dtype::I64, vec![12], &ids).unwrap()),
            ("memory_weights", TensorView::new(Dtype::F64, vec![12], &weights).unwrap()),
            ("next", TensorView::new(Dtype::I64, vec![1], &next).unwrap()),
        ]
    };
    let set = ["--set", "size=12"];
    let rust = probe(&memory(), "cross_batch_memory", "memory", more(), &set);
    assert_golden(&rust, "memory", &["loss", "grad"]);
    assert_eq!(rust, probe(&memory_cpp(), "cross_batch_memory_cpp", "memory", more(), &set));
}

fn recipe(loss: &str) -> String {
    format!(
        "[data]\nsource = \"strokes\"\nclasses = 8\nper_class = 8\nsize = 16\n\
         [backbone]\nname = \"conv4\"\nwidth = 4\n[embedding]\nsize = 4\n\
         [sampler]\nname = \"pk\"\nclasses = 3\nper_class = 2\n[loss]\n{loss}\n\
         [optimizer]\nname = \"sgd\"\nlr = 0.001\n[train]\nepochs = 2\n\
         [eval]\ncluster = \"never\"\n[track]\nhistograms = false\nimages = false\nprojector = false\n"
    )
}

#[test]
fn numbers_per_sample_reach_the_table_of_samples() {
    for (library, name) in [(memory(), "cross_batch_memory"), (memory_cpp(), "cross_batch_memory_cpp")] {
        let sandbox = Sandbox::new();
        sandbox.write("r.toml", recipe(&format!("name = \"{name}\"\nsize = 16")));
        sandbox.curricle(["run", "r.toml", "--plugin", library.to_str().unwrap(), "--out", "out"]).assert().success();
        let mut folder = sandbox.path("out");
        while !folder.join("samples.csv").exists() {
            folder = std::fs::read_dir(&folder).unwrap().next().expect("a run").unwrap().path();
        }
        let header = std::fs::read_to_string(folder.join("samples.csv")).unwrap();
        assert!(header.lines().next().unwrap().contains("nearest_negative"), "{header}");
    }
}

#[test]
fn a_memory_smaller_than_the_batch_is_an_error() {
    let sandbox = Sandbox::new();
    sandbox.write("r.toml", recipe("name = \"cross_batch_memory\"\nsize = 4"));
    let failed = sandbox.curricle(["run", "r.toml", "--plugin", memory().to_str().unwrap()]).assert();
    let shown = crate::support::unwrapped(&failed.stderr_text());
    assert!(shown.contains("must be at least the batch size, 6"), "{shown}");
}
