//! Compares vision transformers with timm, torchvision and open_clip; golden data from `tests/golden/vit.py`.

use super::super::tests::{fill, of_the_network, pixels};
use super::super::{Compute, Model, NamedTensor, init};
use super::*;
use crate::data::Layout;
use curricle_recipe::{EmbeddingRecipe, MlpActivation, NormaliseRecipe, Precision};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use tch::{Device, Kind};

const LAYOUT: Layout = Layout::Images { channels: 3, height: 64, width: 96 };

fn golden() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/vit.safetensors"))
}

/// Patches of 8 pixels, width 32, two blocks and two heads, as in the script.
fn small() -> VitRecipe {
    VitRecipe { patch: Some(8), width: Some(32), depth: Some(2), heads: Some(2), ..Default::default() }
}

fn try_build(recipe: &VitRecipe, layout: Layout) -> Result<Model> {
    let backbone = BackboneRecipe::VitSmall16(recipe.clone());
    Model::build(&backbone, &EmbeddingRecipe { size: 8 }, layout, 1, Device::Cpu)
}

fn build(recipe: &VitRecipe) -> Model {
    try_build(recipe, LAYOUT).unwrap()
}

/// Writes the file of a layout: every tensor follows the rule that depends on its name.
fn write_file(path: &Path, layout: &str, change: impl Fn(&mut TensorSizes)) {
    let bytes = std::fs::read(golden()).unwrap();
    let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    let mut names = serde_json::from_str(&header.metadata().as_ref().unwrap()[layout]).unwrap();
    change(&mut names);
    let tensors: Vec<_> = names
        .iter()
        .map(|(name, size)| {
            let tensor = Tensor::zeros(size.as_slice(), (Kind::Float, Device::Cpu));
            fill(&tensor, name);
            (name, tensor)
        })
        .collect();
    Tensor::write_safetensors(&tensors, path).unwrap();
}

/// A model with the weights of a layout.
fn pretrained(layout: &str, recipe: VitRecipe) -> Result<Model> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights");
    write_file(&path, layout, |_| ());
    try_build(&VitRecipe { weights: Some(path), ..recipe }, LAYOUT)
}

fn mean() -> VitRecipe {
    VitRecipe { pooling: TokenPooling::Mean, ..small() }
}

#[test]
fn every_layout_of_weights_gives_the_features_of_its_publisher() {
    let wanted: HashMap<String, Tensor> = Tensor::read_safetensors(golden()).unwrap().into_iter().collect();
    let symmetric = |recipe| VitRecipe { normalise: Some(NormaliseRecipe::Symmetric), ..recipe };
    let gelu = |recipe| VitRecipe { activation: Some(MlpActivation::Gelu), ..recipe };
    let unprojected = || VitRecipe { projection: Some(0), ..small() };
    let cases = [
        ("timm", symmetric(small()), "timm", ""),
        ("timm.mean", symmetric(mean()), "timm", ""),
        ("timm_large", small(), "timm", ""),
        ("dino", small(), "timm", "teacher.backbone."),
        ("dinov2", small(), "DINOv2", ""),
        ("dinov2.mean", mean(), "DINOv2", ""),
        ("dinov2_reg4", small(), "DINOv2", ""),
        ("dinov2_reg4.mean", mean(), "DINOv2", ""),
        ("timm_reg4", small(), "timm", ""),
        ("deit_distilled", small(), "distilled DeiT", "model."),
        ("deit3", small(), "timm", "model."),
        ("torchvision", small(), "torchvision", ""),
        ("torchvision_old", small(), "torchvision", ""),
        ("open_clip", gelu(small()), "CLIP", "visual."),
        ("open_clip.unprojected", gelu(unprojected()), "CLIP", "visual."),
        ("openai_clip", small(), "OpenAI CLIP", "visual."),
        ("openai_clip.unprojected", unprojected(), "OpenAI CLIP", "visual."),
    ];
    assert_eq!(cases.len(), wanted.len());
    for (layout, recipe, publisher, prefix) in cases {
        let model = pretrained(layout, recipe).unwrap();
        // Libraries that cannot interpolate positions saw square images.
        let square = layout.contains("torchvision") || layout.contains("clip");
        let images = if square { pixels().narrow(3, 0, 64) } else { pixels() };
        let features = tch::no_grad(|| model.features(&images, false));
        let wanted = &wanted[layout];
        let error = (&features - wanted).abs().max().double_value(&[]);
        assert!(features.size() == wanted.size() && error < 2e-5, "{layout}: error {error}");
        let report = model.weights().unwrap();
        assert_eq!((report.publisher.as_deref(), report.prefix.as_str()), (Some(publisher), prefix), "{layout}");
        assert_eq!(report.matched, of_the_network(&model).len(), "{layout}");
    }
}

#[test]
fn torchscript_archives_such_as_openais_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, archive) = (folder.path().join("plain"), folder.path().join("archive.pt"));
    write_file(&plain, "openai_clip", |_| ());
    let half = |(name, tensor): (String, Tensor)| (name, tensor.to_kind(Kind::Half));
    let tensors: Vec<_> = Tensor::read_safetensors(&plain).unwrap().into_iter().map(half).collect();
    Tensor::save_multi(&tensors, &archive).unwrap();
    let model = try_build(&VitRecipe { weights: Some(archive), ..small() }, LAYOUT).unwrap();
    assert_eq!(model.weights().unwrap().publisher.as_deref(), Some("OpenAI CLIP"));
    assert_eq!(model.backbone().vit().unwrap().activation, Some(MlpActivation::QuickGelu));
}

#[test]
fn what_a_file_leaves_over_is_reported() {
    let left = |layout, recipe| pretrained(layout, recipe).unwrap().weights().unwrap().left_over.clone();
    assert_eq!(left("deit_distilled", small()).len(), 4, "two classifiers");
    assert_eq!(left("dinov2", small()), ["mask_token"]);
    let quick = VitRecipe { projection: Some(0), ..small() };
    assert!(left("openai_clip", quick).contains(&"visual.proj".to_string()));
    let sentence = pretrained("dinov2_reg4", small()).unwrap().weights().unwrap().sentence();
    assert!(sentence.contains("names of DINOv2, all 35 tensors matched; unused: `mask_token` (1)"), "{sentence}");
}

#[test]
fn a_file_decides_normalisation_and_parts_and_a_model_is_rebuilt_without_it() {
    for (layout, normalise) in [
        ("dino", NormaliseRecipe::Imagenet),
        ("dinov2_reg4", NormaliseRecipe::Imagenet),
        ("deit_distilled", NormaliseRecipe::Imagenet),
        ("torchvision", NormaliseRecipe::Imagenet),
        ("openai_clip", NormaliseRecipe::Clip),
    ] {
        let first = pretrained(layout, small()).unwrap();
        assert_eq!(first.backbone().normalise(), Some(&normalise), "{layout}");
        assert_eq!(first.backbone().weights(), None);
        let tensors = first.tensors().into_iter().map(|named| (named.name, named.tensor)).collect();
        // Through JSON, as in a run's manifest, and for images of another size.
        let stored = serde_json::to_value(first.backbone()).unwrap();
        let backbone = serde_json::from_value(stored).unwrap();
        let other = Layout::Images { channels: 3, height: 224, width: 224 };
        let second = Model::restore(&backbone, &EmbeddingRecipe { size: 8 }, other, &tensors, Device::Cpu).unwrap();
        assert_eq!(first.forward(&pixels(), false), second.forward(&pixels(), false), "{layout}");
    }
}

#[test]
fn what_a_file_does_not_tell_must_be_set() {
    let refused = |layout, recipe| pretrained(layout, recipe).unwrap_err().to_string();
    let message = refused("timm", small());
    assert!(message.contains("how pixels were normalised; set `backbone.normalise = \"symmetric\"`"), "{message}");
    let message = refused("open_clip", small());
    assert!(message.contains("set `backbone.activation = \"quick_gelu\"` for OpenAI's"), "{message}");
}

#[test]
fn settings_that_contradict_the_file_are_refused() {
    let refused = |layout, recipe| pretrained(layout, recipe).unwrap_err().to_string();
    let message = refused("dino", VitRecipe { patch: None, width: None, ..small() });
    assert!(message.contains("has patches of 8 pixels and width 32, unlike `vit_small_16`; set"), "{message}");
    let message = refused("dino", VitRecipe { depth: None, ..small() });
    assert!(message.contains("has 2 blocks, but `backbone.depth` is 12; set `backbone.depth = 2`"), "{message}");
    let message = refused("dino", VitRecipe { layer_scale: Some(1e-5), ..small() });
    assert!(message.contains("has no LayerScale; remove `backbone.layer_scale`"), "{message}");
    let message = refused("dinov2", VitRecipe { registers: Some(4), ..small() });
    assert!(message.contains("has 0 register tokens, but `backbone.registers` is 4"), "{message}");
    let message = refused("dino", VitRecipe { heads: Some(3), ..small() });
    assert!(message.contains("3 attention heads do not divide the width, 32"), "{message}");
}

#[test]
fn a_file_of_another_network_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights");
    let refused = |change: &dyn Fn(&mut TensorSizes)| {
        write_file(&path, "dinov2", change);
        try_build(&VitRecipe { weights: Some(path.clone()), ..small() }, LAYOUT).unwrap_err().to_string()
    };
    let message = refused(&|names| drop(names.insert("blocks.1.attn.q_norm.weight".into(), vec![16])));
    assert!(message.contains("has a tensor `blocks.1.attn.q_norm.weight`, which `vit_small_16` does not"), "{message}");
    let message = refused(&|names| drop(names.remove("norm.bias")));
    assert!(message.contains("lacks 1 of the 34 tensors of `vit_small_16`: `norm.bias`"), "{message}");
    let message = refused(&|names| names.retain(|name, _| name.contains("norm")));
    assert!(message.contains("has none of a vision transformer such as `vit_small_16`"), "{message}");
}

/// Loss and all gradients of a batch.
fn gradients(model: &Model) -> (Tensor, Vec<(String, Tensor)>) {
    curricle_torch::seed(3).unwrap();
    let loss = (model.forward(&pixels(), true) * Tensor::arange(8, (Kind::Float, Device::Cpu))).sum(Kind::Float);
    let trained: Vec<_> = model.tensors().into_iter().filter(|named| named.tensor.requires_grad()).collect();
    trained.iter().for_each(|named| named.tensor.shallow_clone().zero_grad());
    loss.backward();
    let gradient = |named: &NamedTensor| (named.name.clone(), named.tensor.grad().copy());
    (loss.detach(), trained.iter().map(gradient).collect())
}

#[test]
fn checkpointing_changes_neither_outputs_nor_gradients() {
    crate::device::set_threads(None).unwrap();
    for (precision, frozen) in [(Precision::F32, ""), (Precision::Bf16, ""), (Precision::F32, "backbone.p")] {
        let trained = |checkpointing| {
            let recipe = VitRecipe { checkpointing, drop_path: 0.5, layer_scale: Some(1.0), ..small() };
            let mut model = build(&recipe);
            model.set_compute(Compute { precision, channels_last: true });
            // Frozen embeddings: the first block's input has no gradient.
            let below = |name: &str| !frozen.is_empty() && !name.contains("blocks") && !name.contains("embedding.");
            model.tensors().iter().filter(|named| below(&named.name)).for_each(|named| {
                let _ = named.tensor.set_requires_grad(false);
            });
            gradients(&model)
        };
        let (plain, again) = (trained(false), trained(true));
        assert!(plain == again, "{precision}, frozen {frozen:?}");
        assert!(again.1.iter().all(|(_, gradient)| gradient.defined()));
    }
}

#[test]
fn every_parameter_gets_a_gradient_of_the_right_size() {
    let model = build(&VitRecipe { registers: Some(2), pre_norm: Some(true), ..mean() });
    let (_, found) = gradients(&model);
    let (name, gradient) = found.iter().find(|(name, _)| name == "backbone.pos_embed").unwrap();
    // The derivative along one direction by finite differences. The mean depends on the class token through attention.
    let direction = tch::no_grad(|| gradient / gradient.norm());
    let tensor = model.tensors().into_iter().find(|named| named.name == *name).unwrap().tensor;
    let moved = |step: f64| {
        tch::no_grad(|| tensor.shallow_clone().copy_(&(&tensor + &direction * step)));
        gradients(&model).0.double_value(&[])
    };
    let slope = (moved(2e-3) - moved(-4e-3)) / 4e-3;
    let norm = gradient.norm().double_value(&[]);
    assert!((slope - norm).abs() < 0.02 * norm, "{slope} is not {norm}");
    assert!(found.iter().all(|(_, gradient)| gradient.defined()));
}

#[test]
fn drop_path_skips_branches_only_in_training() {
    let model = build(&VitRecipe { drop_path: 0.9, ..small() });
    let forward = |train, seed| {
        curricle_torch::seed(seed).unwrap();
        tch::no_grad(|| model.forward(&pixels(), train))
    };
    assert_eq!(forward(false, 1), forward(false, 2));
    assert_eq!(forward(true, 1), forward(true, 1));
    assert!((0..4).any(|seed| forward(true, seed) != forward(true, seed + 4)));
    let kept = draw_drop_path(&Tensor::zeros([4000, 1, 1], (Kind::Float, Device::Cpu)), 0.25).unwrap();
    let mean = kept[0].mean(Kind::Float).double_value(&[]);
    assert!((mean - 1.0).abs() < 0.05, "{mean}");
}

#[test]
fn layer_decay_lowers_the_learning_rate_block_by_block() {
    let model = build(&VitRecipe { layer_decay: 0.5, ..small() });
    let decay = |name| super::super::layer_decay(model.backbone(), name);
    assert_eq!(decay("backbone.norm.weight"), Some(("backbone.norm", 1.0)));
    assert_eq!(decay("backbone.blocks.1.attn.qkv.weight"), Some(("backbone.blocks.1", 0.5)));
    assert_eq!(decay("backbone.blocks.0.norm1.bias"), Some(("backbone.blocks.0", 0.25)));
    assert_eq!(decay("backbone.pos_embed"), Some(("backbone.pos_embed", 0.125)));
    assert_eq!(decay("embedding.weight"), None);
    assert_eq!(super::super::layer_decay(build(&small()).backbone(), "backbone.norm.weight"), None);
}

#[test]
fn initial_parameters_are_those_of_timm() {
    let model = build(&VitRecipe { layer_scale: Some(0.1), registers: Some(3), ..small() });
    let std = |name: &str| {
        let found = of_the_network(&model).into_iter().find(|(own, _)| own == name).unwrap().1;
        found.std(true).double_value(&[])
    };
    assert!((std("blocks.0.mlp.fc1.weight") - 0.02).abs() < 1e-3);
    assert!((std("pos_embed") - 0.02).abs() < 1e-3);
    assert!(std("cls_token") < 1e-5 && std("reg_token") > 0.0);
    // Uniform on ±1/√192, as of a convolution.
    assert!((std("patch_embed.proj.weight") - 1.0 / (3.0f64 * 192.0).sqrt()).abs() < 1e-3);
    assert!(std("blocks.1.ls2.gamma") < 1e-7);
    assert_eq!(std("blocks.1.attn.qkv.bias"), 0.0);
}

#[test]
fn the_named_networks_have_their_published_numbers_of_parameters() {
    // Of timm's networks of these names with `num_classes=0`, for patches of 14 pixels DINOv2's without LayerScale.
    type Variant = fn(VitRecipe) -> BackboneRecipe;
    let networks: [(Variant, i64, usize); 4] = [
        (BackboneRecipe::VitSmall16, 224, 21_665_664),
        (BackboneRecipe::VitBase16, 224, 85_798_656),
        (BackboneRecipe::VitSmall14, 518, 22_056_192 - 2 * 12 * 384),
        (BackboneRecipe::VitBase14, 518, 86_579_712 - 2 * 12 * 768),
    ];
    for (variant, side, wanted) in networks {
        let layout = Layout::Images { channels: 3, height: side, width: side };
        let backbone = variant(VitRecipe::default());
        let model = Model::blank(&backbone, &EmbeddingRecipe { size: 8 }, layout, None, Device::Cpu).unwrap();
        let count: usize = of_the_network(&model).iter().map(|(_, tensor)| tensor.numel()).sum();
        assert_eq!(count, wanted, "{}", backbone.name());
    }
}

#[test]
fn precision_and_memory_format_change_embeddings_only_by_rounding() {
    crate::device::set_threads(None).unwrap();
    let mut model = build(&VitRecipe { registers: Some(1), ..small() });
    init::draw(&model.variables.variables(), "backbone.blocks", init::Scheme::Default, 5);
    let exact = model.forward(&pixels(), false);
    for (precision, channels_last, tolerance) in [
        (Precision::F32, true, 1e-5),
        (Precision::Bf16, false, 0.05),
        (Precision::Bf16, true, 0.05),
        (Precision::F16, true, 0.01),
    ] {
        model.set_compute(Compute { precision, channels_last });
        let difference = (model.forward(&pixels(), false) - &exact).abs().max().double_value(&[]);
        assert!(difference < tolerance, "{precision}, channels last {channels_last}: {difference}");
    }
}

#[test]
fn a_traced_model_gives_the_same_embeddings_for_any_batch_size() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.pt");
    let mut model = pretrained("dinov2_reg4", small()).unwrap();
    let wanted = tch::no_grad(|| model.forward(&pixels(), false));
    model.save_torchscript(&path, &[3, 64, 96]).unwrap();
    let traced = tch::CModule::load(&path).unwrap();
    let unit = pixels().to_kind(Kind::Float) / 255.0;
    let parts: Vec<_> = unit.split(1, 0).iter().map(|one| traced.forward_ts(&[one]).unwrap()).collect();
    let error = (Tensor::cat(&parts, 0) - wanted).abs().max().double_value(&[]);
    assert!(error < 1e-5, "{error}");
}

#[test]
fn images_must_be_a_multiple_of_the_patch_size() {
    let layout = Layout::Images { channels: 3, height: 64, width: 60 };
    let message = try_build(&small(), layout).unwrap_err().to_string();
    assert!(message.contains("needs images of a multiple of 8 pixels, its patch size, not 60"), "{message}");
}
