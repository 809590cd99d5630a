//! Modules that PyTorch wrote (`tests/golden/torchscript.py`).

use super::super::Model;
use super::*;
use crate::data::Layout;
use curricle_recipe::{BackboneRecipe, EmbeddingRecipe, NormaliseRecipe};
use std::collections::HashMap;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/torchscript")).join(name)
}

fn recipe(path: PathBuf) -> TorchscriptRecipe {
    TorchscriptRecipe { path, sha256: None, normalise: Some(NormaliseRecipe::Unit), frozen_norm: false, frozen: false }
}

fn build(recipe: &TorchscriptRecipe, side: i64) -> Result<Model> {
    let backbone = BackboneRecipe::Torchscript(recipe.clone());
    let layout = Layout::Images { channels: 3, height: side, width: side };
    Model::build(&backbone, &EmbeddingRecipe { size: 4 }, layout, 0, Device::Cpu)
}

fn net() -> Model {
    build(&recipe(golden("net.pt")), 32).unwrap()
}

fn wanted() -> HashMap<String, Tensor> {
    Tensor::read_safetensors(golden("wanted.safetensors")).unwrap().into_iter().collect()
}

fn tensor(model: &Model, name: &str) -> Tensor {
    model.tensors().into_iter().find(|named| named.name == format!("backbone.{name}")).unwrap().tensor
}

fn close(a: &Tensor, b: &Tensor) -> bool {
    a.size() == b.size() && a.allclose(b, 1e-5, 1e-6, false)
}

#[test]
fn parameters_and_buffers_have_their_names_in_python() {
    let model = net();
    let names: Vec<_> = model.tensors().into_iter().map(|named| named.name).collect();
    let own = ["head.bias", "head.weight", "scale", "stem.0.weight", "stem.1.bias", "stem.1.num_batches_tracked"];
    let statistics = ["stem.1.running_mean", "stem.1.running_var", "stem.1.weight"];
    let own = own.into_iter().chain(statistics).map(|name| format!("backbone.{name}"));
    assert_eq!(names, own.chain(["embedding.bias".into(), "embedding.weight".into()]).collect::<Vec<_>>());
    let trained = |name: &str| tensor(&model, name).requires_grad();
    assert!(trained("stem.0.weight") && !trained("stem.1.running_mean") && !trained("scale"));
}

#[test]
fn features_statistics_and_gradients_are_those_of_pytorch() {
    let (model, wanted) = (net(), wanted());
    let run = |train| model.network.forward_t(&wanted["images"], train);
    assert!(close(&run(false), &wanted["eval"]));
    assert_eq!(i64::try_from(tensor(&model, "stem.1.num_batches_tracked")).unwrap(), 1, "evaluation changes nothing");
    curricle_torch::seed(7).unwrap();
    let features = run(true);
    assert!(close(&features, &wanted["train"]), "dropout draws the same numbers");
    (features * Tensor::arange(5, (Kind::Float, Device::Cpu))).sum(Kind::Float).backward();
    assert!(close(&tensor(&model, "stem.1.running_mean"), &wanted["running_mean"]));
    assert!(close(&tensor(&model, "stem.0.weight").grad(), &wanted["gradient"]));
}

#[test]
fn frozen_batch_norm_stays_in_evaluation_mode_and_is_not_trained() {
    let model = build(&TorchscriptRecipe { frozen_norm: true, ..recipe(golden("net.pt")) }, 32).unwrap();
    let before = tensor(&model, "stem.1.running_mean").copy();
    let images = &wanted()["images"];
    curricle_torch::seed(7).unwrap();
    let (first, second) = (model.network.forward_t(images, true), model.network.forward_t(images, true));
    assert_eq!(before, tensor(&model, "stem.1.running_mean"));
    assert_ne!(first, second, "dropout is active");
    assert!(!tensor(&model, "stem.1.weight").requires_grad() && tensor(&model, "head.weight").requires_grad());
}

#[test]
fn results_do_not_depend_on_how_often_the_module_was_called() {
    let (fresh, used, images) = (net(), net(), wanted().remove("images").unwrap());
    let gradient = |model: &Model| {
        curricle_torch::seed(1).unwrap();
        let loss = model.network.forward_t(&images, true).square().sum(Kind::Float);
        let weight = tensor(model, "stem.0.weight");
        Tensor::run_backward(&[loss], &[&weight], false, false).remove(0)
    };
    for _ in 0..4 {
        let _ = gradient(&used);
    }
    assert_eq!(gradient(&fresh), gradient(&used));
}

#[test]
fn a_model_is_restored_and_exported_with_its_module() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.pt");
    let mut first = net();
    tch::no_grad(|| drop(tensor(&first, "stem.1.running_mean").fill_(0.25)));
    let tensors = first.tensors().into_iter().map(|named| (named.name, named.tensor)).collect();
    let layout = Layout::Images { channels: 3, height: 32, width: 32 };
    let second = Model::restore(first.backbone(), &EmbeddingRecipe { size: 4 }, layout, &tensors, Device::Cpu).unwrap();
    let pixels = Tensor::randint(256, [3, 3, 32, 32], (Kind::Uint8, Device::Cpu));
    let wanted = tch::no_grad(|| first.forward(&pixels, false));
    assert_eq!(wanted, tch::no_grad(|| second.forward(&pixels, false)));
    first.save_torchscript(&path, &[3, 32, 32]).unwrap();
    let exported = tch::CModule::load(&path).unwrap();
    assert!(close(&exported.forward_ts(&[pixels.to_kind(Kind::Float) / 255.0]).unwrap(), &wanted));
    assert!((wanted.norm_scalaropt_dim(2, 1, false) - 1.0).abs().max().double_value(&[]) < 1e-5);
}

#[test]
fn tied_parameters_are_one_tensor_with_the_gradient_of_both_uses() {
    let model = build(&recipe(golden("tied.pt")), 32).unwrap();
    let names: Vec<_> = model.tensors().into_iter().map(|named| named.name).collect();
    assert_eq!(names[..3], ["backbone.a.bias", "backbone.a.weight", "backbone.b.bias"]);
    assert_eq!(names[3..], ["embedding.bias", "embedding.weight"]);
    let images = &wanted()["images"];
    let leaf = |name: &str| tensor(&model, name).detach().copy().set_requires_grad(true);
    let (weight, first, second) = (leaf("a.weight"), leaf("a.bias"), leaf("b.bias"));
    let pooled = images.mean_dim(&[2i64, 3][..], false, Kind::Float);
    let expected = pooled.linear(&weight, Some(&first)).linear(&weight, Some(&second));
    let features = model.network.forward_t(images, true);
    assert!(close(&features, &expected));
    features.square().sum(Kind::Float).backward();
    expected.square().sum(Kind::Float).backward();
    assert!(close(&tensor(&model, "a.weight").grad(), &weight.grad()));
}

#[test]
fn a_changed_file_is_refused() {
    let changed = TorchscriptRecipe { sha256: Some("0".repeat(64)), ..recipe(golden("net.pt")) };
    let message = build(&changed, 32).unwrap_err().to_string();
    assert!(message.contains("is not the network of this run: its SHA-256 is "), "{message}");
    let recorded = net().backbone().torchscript().unwrap().sha256.clone().unwrap();
    assert!(build(&TorchscriptRecipe { sha256: Some(recorded), ..changed }, 32).is_ok());
}

#[test]
fn a_run_whose_file_is_missing_asks_for_it() {
    let missing = TorchscriptRecipe { sha256: Some("0".repeat(64)), ..recipe(golden("missing.pt")) };
    let message = build(&missing, 32).unwrap_err().to_string();
    assert!(message.ends_with("has the code of this run's network; restore the file"), "{message}");
}

#[test]
fn incomplete_files_and_other_archives_are_refused_in_words_about_them() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |bytes: &[u8]| {
        let path = folder.path().join("net.pt");
        std::fs::write(&path, bytes).unwrap();
        build(&recipe(path), 32).unwrap_err().to_string()
    };
    let whole = std::fs::read(golden("net.pt")).unwrap();
    let message = refused(&whole[..whole.len() / 2]);
    assert!(message.ends_with("is incomplete; copy it again, or write it again from Python"), "{message}");
    // As in a file of `torch.export`, there are no pickles.
    let mut other = whole;
    let ending = b".pkl";
    for start in 0..other.len() - ending.len() {
        if other[start..].starts_with(ending) {
            other[start..start + ending.len()].copy_from_slice(b".bin");
        }
    }
    let message = refused(&other);
    assert!(message.contains("is an archive without TorchScript, such as `torch.export.save` writes"), "{message}");
}

#[test]
fn modules_that_cannot_be_used_are_refused_with_the_reason() {
    let refused = |name: &str, side| build(&recipe(golden(name)), side).unwrap_err().to_string();
    for (name, reason) in [
        ("state_dict.pth", "holds tensors or a pickled model (`torch.save`), not TorchScript"),
        ("wanted.safetensors", "is not a TorchScript file"),
        ("maps.pt", "returns feature maps [2, 4, 30, 30] instead of features [B, F]; pool them"),
        ("one_batch.pt", "returns shape [1, 6] for 2 images instead of [2, F]"),
        ("overlapping.pt", "has `a` and `b` in the same memory; give each its own tensor"),
        ("pair.pt", "returns Tuple instead of one tensor; wrap it in a module that returns the features alone"),
        ("constant.pt", "has no parameters (`torch.jit.freeze` makes them constants?), so it cannot be trained"),
        ("detached.pt", "returns features that are detached from its parameters (`no_grad` or `detach`"),
        ("half.pt", "of type Half; save the network with `model.float()`"),
        ("missing.pt", "missing.pt"),
    ] {
        let message = refused(name, 32);
        assert!(message.contains(reason), "{name}: {message}");
    }
    assert!(build(&recipe(golden("fixed.pt")), 32).is_ok());
    let message = refused("fixed.pt", 48);
    assert!(message.contains("fails on two images of 48 × 48 pixels: "), "{message}");
    assert!(message.contains("shapes cannot be multiplied (2x6912 and 3072x2)"), "{message}");
    assert!(message.ends_with("if it was made for another size, set `images.size`"), "{message}");
    for name in ["constant.pt", "detached.pt"] {
        assert!(build(&TorchscriptRecipe { frozen: true, ..recipe(golden(name)) }, 32).is_ok(), "{name}");
    }
}
