//! Compares the networks with their originals; golden data from `tests/golden/backbones.py`.

use super::*;
use curricle_recipe::{PoolingRecipe, Precision, VisionRecipe};
use sha2::{Digest, Sha256};
use std::path::PathBuf;

type Variant = fn(VisionRecipe) -> BackboneRecipe;
const NETWORKS: [Variant; 7] = [
    BackboneRecipe::Resnet18,
    BackboneRecipe::Resnet34,
    BackboneRecipe::Resnet50,
    BackboneRecipe::MobilenetV2,
    BackboneRecipe::EfficientnetB0,
    BackboneRecipe::BnInception,
    BackboneRecipe::Squeezenet11,
];

const LAYOUT: Layout = Layout::Images { channels: 3, height: 64, width: 96 };

fn model(recipe: &BackboneRecipe, layout: Layout) -> Model {
    Model::build(recipe, &EmbeddingRecipe { size: 8 }, layout, 1, Device::Cpu).unwrap()
}

fn golden() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/backbones.safetensors"))
}

/// Numbers in [0, 1) that depend only on a name and an index, as in the script.
fn numbers(name: &str, count: i64) -> Vec<f64> {
    let state = name.bytes().fold(2_166_136_261u32, |state, byte| (state ^ u32::from(byte)).wrapping_mul(16_777_619));
    let number = |index: i64| {
        let mut x = state.wrapping_add((index as u32).wrapping_mul(2_654_435_761));
        x ^= x >> 16;
        x = x.wrapping_mul(0x85eb_ca6b);
        x ^= x >> 13;
        x = x.wrapping_mul(0xc2b2_ae35);
        x ^= x >> 16;
        f64::from(x >> 8) / f64::from(1 << 24)
    };
    (0..count).map(number).collect()
}

pub(super) fn fill(tensor: &Tensor, name: &str) {
    let size = tensor.size();
    let bound = (6.0 / size.iter().skip(1).product::<i64>() as f64).sqrt();
    let value = |u: f64| match size.len() {
        0 => 0.2 * (u - 0.5),
        1 if name.ends_with("running_var") || name.ends_with("weight") => 0.5 + u,
        1 => 0.2 * (u - 0.5),
        _ => (2.0 * u - 1.0) * bound,
    };
    let values: Vec<f32> = numbers(name, tensor.numel() as i64).into_iter().map(|u| value(u) as f32).collect();
    tch::no_grad(|| tensor.shallow_clone().copy_(&Tensor::from_slice(&values).view_as(tensor)));
}

pub(super) fn pixels() -> Tensor {
    let pixels: Vec<u8> = numbers("pictures", 2 * 3 * 64 * 96).into_iter().map(|u| (u * 256.0) as u8).collect();
    Tensor::from_slice(&pixels).view([2, 3, 64, 96])
}

pub(super) fn of_the_network(model: &Model) -> Vec<(String, Tensor)> {
    let own = |named: NamedTensor| Some((named.name.strip_prefix(BACKBONE)?.to_string(), named.tensor));
    model.tensors().into_iter().filter_map(own).collect()
}

#[test]
fn every_network_matches_its_original() {
    let wanted: HashMap<String, Tensor> = Tensor::read_safetensors(golden()).unwrap().into_iter().collect();
    for variant in NETWORKS {
        for (pooling, word) in [(PoolingRecipe::Average, "average"), (PoolingRecipe::AverageMax, "average_max")] {
            let recipe = variant(VisionRecipe { pooling, ..Default::default() });
            let model = model(&recipe, LAYOUT);
            of_the_network(&model).iter().for_each(|(name, tensor)| fill(tensor, name));
            let features = tch::no_grad(|| model.features(&pixels(), false));
            let wanted = &wanted[&format!("{}.{word}", recipe.name())];
            let error = (&features - wanted).abs().max().double_value(&[]);
            let size = wanted.abs().max().double_value(&[]);
            // With these weights PyTorch's f32 has a relative error of 2.5e-5 for `mobilenet_v2`.
            assert!(error < 1e-4 * size.max(1.0), "{} {word}: error {error}, values up to {size}", recipe.name());
        }
    }
}

#[test]
fn every_tensor_has_the_name_and_shape_of_the_original() {
    let bytes = std::fs::read(golden()).unwrap();
    let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    let hashes = header.metadata().as_ref().unwrap();
    for variant in NETWORKS {
        let recipe = variant(VisionRecipe::default());
        let tensors = of_the_network(&model(&recipe, LAYOUT));
        let lines: String = tensors.iter().map(|(name, tensor)| format!("{name} {:?}\n", tensor.size())).collect();
        let hash: String = Sha256::digest(lines.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hashes[recipe.name()], hash, "{}", recipe.name());
    }
}

#[test]
fn batch_norm_changes_in_training_unless_it_is_frozen() {
    for frozen_norm in [false, true] {
        let recipe = BackboneRecipe::MobilenetV2(VisionRecipe { frozen_norm, ..Default::default() });
        let model = model(&recipe, LAYOUT);
        let tensor = |name: &str| model.tensors().into_iter().find(|named| named.name == name).unwrap().tensor;
        let before = tensor("backbone.features.0.1.running_mean").copy();
        let training = model.forward(&pixels(), true);
        let still = before == tensor("backbone.features.0.1.running_mean");
        assert_eq!(still, frozen_norm);
        assert_eq!(training.allclose(&model.forward(&pixels(), false), 1e-6, 1e-6, false), frozen_norm);
        assert_eq!(tensor("backbone.features.0.1.weight").requires_grad(), !frozen_norm);
        assert!(tensor("backbone.features.0.0.weight").requires_grad());
    }
}

#[test]
fn grey_images_are_equivalent_to_three_equal_channels() {
    let recipe = BackboneRecipe::Squeezenet11(VisionRecipe::default());
    let grey = pixels().narrow(1, 0, 1);
    let layout = Layout::Images { channels: 1, height: 64, width: 96 };
    let (a, b) = (model(&recipe, layout), model(&recipe, LAYOUT));
    let same = a.forward(&grey, false).allclose(&b.forward(&grey.repeat([1, 3, 1, 1]), false), 1e-6, 1e-6, false);
    assert!(same);
}

#[test]
fn a_frozen_backbone_gets_no_gradients() {
    let mut model = model(&BackboneRecipe::Resnet18(VisionRecipe::default()), LAYOUT);
    model.set_backbone_frozen(true);
    model.forward(&pixels(), true).sum(Kind::Float).backward();
    let with_gradient: Vec<_> =
        model.tensors().into_iter().filter(|named| named.tensor.grad().defined()).map(|named| named.name).collect();
    assert_eq!(with_gradient, ["embedding.bias", "embedding.weight"]);
}

#[test]
fn initial_weights_have_the_kaiming_standard_deviation() {
    let recipe = BackboneRecipe::Resnet18(VisionRecipe::default());
    let weights = |seed| {
        let model = Model::build(&recipe, &EmbeddingRecipe { size: 8 }, LAYOUT, seed, Device::Cpu).unwrap();
        model.tensors().into_iter().find(|named| named.name == "backbone.layer2.0.conv1.weight").unwrap().tensor
    };
    let std = weights(1).std(true).double_value(&[]);
    assert!((std - (2.0f64 / (128.0 * 9.0)).sqrt()).abs() < 1e-3, "{std}");
    assert_eq!(weights(1), weights(1));
    assert_ne!(weights(1), weights(2));
}

#[test]
fn small_images_are_refused() {
    let layout = Layout::Images { channels: 3, height: 64, width: 16 };
    let recipe = BackboneRecipe::Resnet18(VisionRecipe::default());
    let refused = Model::build(&recipe, &EmbeddingRecipe { size: 8 }, layout, 0, Device::Cpu);
    assert!(refused.unwrap_err().to_string().contains("at least 32 pixels, not 16"));
}

fn images() -> Inputs {
    Inputs::Images(Tensor::randint(256, [6, 1, 32, 32], (Kind::Uint8, Device::Cpu)))
}

fn small(seed: u64) -> Model {
    let backbone = BackboneRecipe::Conv4 { width: 4 };
    Model::build(&backbone, &EmbeddingRecipe { size: 8 }, images().layout(), seed, Device::Cpu).unwrap()
}

#[test]
fn initial_parameters_depend_only_on_the_seed() {
    let (a, other) = (small(1), small(2));
    let _ = Tensor::rand([100], (Kind::Float, Device::Cpu));
    let b = small(1);
    let same = |x: &Model, y: &Model| {
        x.tensors().iter().zip(y.tensors()).all(|(p, q)| p.name == q.name && p.tensor == q.tensor)
    };
    assert!(same(&a, &b));
    assert!(!same(&a, &other));
}

#[test]
fn embeddings_have_unit_length_and_do_not_depend_on_the_batch_size() {
    let (model, inputs) = (small(0), images());
    let whole = model.embed(&inputs, Some(6)).unwrap();
    let parts = model.embed(&inputs, Some(4)).unwrap();
    assert_eq!(whole.size(), [6, 8]);
    let lengths = whole.norm_scalaropt_dim(2.0, [1i64].as_slice(), false);
    assert!((lengths - 1.0).abs().max().double_value(&[]) < 1e-6);
    assert!((whole - parts).abs().max().double_value(&[]) < 1e-6);
}

#[test]
fn a_backbone_that_does_not_match_the_inputs_is_refused() {
    let layout = images().layout();
    let wrong = Model::build(&BackboneRecipe::Linear, &EmbeddingRecipe { size: 8 }, layout, 0, Device::Cpu);
    assert!(wrong.unwrap_err().to_string().contains("such as `conv4`"));
}

#[test]
fn precision_and_memory_format_change_embeddings_only_by_rounding() {
    // As every command does; 16-bit types need it on some machines.
    crate::device::set_threads(None).unwrap();
    for variant in NETWORKS {
        let recipe = variant(VisionRecipe::default());
        let mut model = model(&recipe, LAYOUT);
        let exact = model.forward(&pixels(), false);
        for (precision, channels_last, tolerance) in [
            (Precision::F32, true, 1e-4),
            (Precision::Bf16, false, 0.1),
            (Precision::Bf16, true, 0.1),
            (Precision::F16, true, 0.02),
            (Precision::F32, false, 1e-7),
        ] {
            model.set_compute(Compute { precision, channels_last });
            let embeddings = model.forward(&pixels(), false);
            assert_eq!(embeddings.kind(), Kind::Float);
            let difference = (embeddings - &exact).abs().max().double_value(&[]);
            assert!(
                difference < tolerance,
                "{} in {precision}, channels last {channels_last}: {difference}",
                recipe.name()
            );
        }
    }
}

#[test]
fn the_memory_format_of_grey_images_changes_gradients_only_by_rounding() {
    let layout = Layout::Images { channels: 1, height: 32, width: 32 };
    let grey: Vec<u8> = numbers("grey", 4 * 32 * 32).into_iter().map(|u| (u * 256.0) as u8).collect();
    let images = Tensor::from_slice(&grey).view([4, 1, 32, 32]);
    let gradients = |channels_last| {
        let mut model = model(&BackboneRecipe::Conv4 { width: 8 }, layout);
        model.set_compute(Compute { channels_last, ..Default::default() });
        let towards = Tensor::arange(32, (Kind::Float, Device::Cpu)).view([4, 8]);
        (model.forward(&images, true) * towards).sum(Kind::Float).backward();
        let trained = model.tensors().into_iter().filter(|named| named.tensor.requires_grad());
        trained.map(|named| (named.name, named.tensor.grad())).collect::<Vec<_>>()
    };
    for ((name, first), (_, last)) in gradients(false).iter().zip(&gradients(true)) {
        let size = first.abs().max().double_value(&[]);
        let difference = (first - last).abs().max().double_value(&[]);
        assert!(size > 0.0 && difference < 1e-4 * size + 1e-6, "{name}: {difference} of {size}");
    }
}

#[test]
fn a_traced_model_gives_the_same_embeddings_for_any_batch_size() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.pt");
    let normalise = Some(NormaliseRecipe::CaffeBgr);
    for recipe in [
        BackboneRecipe::Squeezenet11(VisionRecipe { normalise, ..Default::default() }),
        BackboneRecipe::EfficientnetB0(VisionRecipe { pooling: PoolingRecipe::AverageMax, ..Default::default() }),
        BackboneRecipe::Conv4 { width: 4 },
    ] {
        let mut model = model(&recipe, LAYOUT);
        let wanted = tch::no_grad(|| model.forward(&pixels(), false));
        model.save_torchscript(&path, &[3, 64, 96]).unwrap();
        let traced = tch::CModule::load(&path).unwrap();
        let unit = pixels().to_kind(Kind::Float) / 255.0;
        let parts: Vec<_> = unit.split(1, 0).iter().map(|one| traced.forward_ts(&[one]).unwrap()).collect();
        let error = (Tensor::cat(&parts, 0) - wanted).abs().max().double_value(&[]);
        assert!(error < 1e-5, "{}: {error}", recipe.name());
    }
}

#[test]
fn precomputed_features_give_the_same_embeddings() {
    let recipe = BackboneRecipe::MobilenetV2(VisionRecipe::default());
    let model = model(&recipe, LAYOUT);
    let images = Inputs::Images(pixels());
    let features = model.precompute(&images, Some(1), |_, _| ()).unwrap();
    assert_eq!(features.layout(), Layout::Features { size: 1280 });
    let (a, b) = (model.embed(&features, Some(2)).unwrap(), model.embed(&images, Some(2)).unwrap());
    assert!((a - b).abs().max().double_value(&[]) < 1e-6);
}

#[test]
fn a_model_is_restored_from_its_tensors() {
    let recipe = BackboneRecipe::Resnet18(VisionRecipe::default());
    let first = model(&recipe, LAYOUT);
    let mut tensors: HashMap<_, _> = first.tensors().into_iter().map(|named| (named.name, named.tensor)).collect();
    let embedding = EmbeddingRecipe { size: 8 };
    let second = Model::restore(&recipe, &embedding, LAYOUT, &tensors, Device::Cpu).unwrap();
    assert_eq!(first.forward(&pixels(), false), second.forward(&pixels(), false));
    tensors.remove("backbone.bn1.running_var");
    let missing = Model::restore(&recipe, &embedding, LAYOUT, &tensors, Device::Cpu).unwrap_err();
    assert!(missing.to_string().contains("`backbone.bn1.running_var`"));
}
