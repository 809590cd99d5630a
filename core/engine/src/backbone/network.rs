//! Builds the network of a recipe.

use super::layers::Scope;
use super::resnet::Depth;
use super::vit::{self, TensorSizes};
use super::{bn_inception, conv4, efficientnet_b0, mlp, mobilenet_v2, resnet, squeezenet1_1};
use crate::data::Layout;
use crate::{Error, Result};
use curricle_recipe::{BackboneRecipe, PoolingRecipe, VisionRecipe};
use tch::Tensor;
use tch::nn::{self, ModuleT};

/// Five halvings must leave at least one pixel.
const SMALLEST_IMAGE: i64 = 32;

/// A network without its embedding layer, and its number of output features.
pub(super) struct Network {
    pub module: Box<dyn ModuleT>,
    pub features: i64,
}

/// Builds a network. Sizes of tensors, if given, decide what the settings of a vision transformer leave open.
pub(super) fn build(
    recipe: &BackboneRecipe,
    layout: Layout,
    sizes: Option<&TensorSizes>,
    path: &nn::Path,
) -> Result<Network> {
    let name = recipe.name();
    let (sides, channels) = match (recipe, layout) {
        (BackboneRecipe::Linear, Layout::Features { size }) => {
            return Ok(Network { module: Box::new(nn::func_t(|x, _| x.shallow_clone())), features: size });
        }
        (BackboneRecipe::Mlp { hidden, dropout }, Layout::Features { size }) => {
            return Ok(mlp::build(path, size, hidden, *dropout));
        }
        (_, Layout::Features { .. }) => return Err(wrong_inputs(name, layout)),
        (_, Layout::Images { channels, height, width }) => ([height, width], channels),
    };
    let needed = image_size(recipe);
    let wrong = |side: &i64| needed.is_some_and(|needed| needed.fitting(*side) != *side);
    if let (Some(side), Some(needed)) = (sides.into_iter().find(wrong), needed) {
        return Err(Error::Usage(format!("backbone `{name}` needs images of {needed}, not {side}")));
    }
    if recipe.takes_colour_images() && !matches!(channels, 1 | 3) {
        return Err(Error::Usage(format!("backbone `{name}` needs images with 1 or 3 channels, not {channels}")));
    }
    Ok(match recipe {
        BackboneRecipe::Resnet18(v) => resnet(v, path, Depth::D18),
        BackboneRecipe::Resnet34(v) => resnet(v, path, Depth::D34),
        BackboneRecipe::Resnet50(v) => resnet(v, path, Depth::D50),
        BackboneRecipe::MobilenetV2(v) => vision(v, path, mobilenet_v2::build, mobilenet_v2::FEATURES),
        BackboneRecipe::EfficientnetB0(v) => vision(v, path, efficientnet_b0::build, efficientnet_b0::FEATURES),
        BackboneRecipe::BnInception(v) => vision(v, path, bn_inception::build, bn_inception::FEATURES),
        BackboneRecipe::Squeezenet11(v) => vision(v, path, squeezenet1_1::build, squeezenet1_1::FEATURES),
        BackboneRecipe::VitSmall16(v)
        | BackboneRecipe::VitBase16(v)
        | BackboneRecipe::VitSmall14(v)
        | BackboneRecipe::VitBase14(v) => vit::build(name, v, sides[0], sizes, path)?,
        BackboneRecipe::Conv4 { width } => conv4::build(path, channels, *width),
        BackboneRecipe::Linear | BackboneRecipe::Mlp { .. } | BackboneRecipe::Torchscript(_) => {
            return Err(wrong_inputs(name, layout));
        }
    })
}

/// The width and height that images must have for a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImageSize {
    /// At least this many pixels, because it halves them repeatedly.
    AtLeast(i64),
    /// A multiple of the patch size.
    MultipleOf(i64),
}

impl ImageSize {
    /// The nearest size that the network takes.
    pub(crate) fn fitting(self, size: i64) -> i64 {
        match self {
            Self::AtLeast(smallest) => size.max(smallest),
            Self::MultipleOf(patch) => ((size + patch / 2) / patch).max(1) * patch,
        }
    }
}

impl std::fmt::Display for ImageSize {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Self::AtLeast(smallest) => write!(f, "at least {smallest} pixels"),
            Self::MultipleOf(patch) => write!(f, "a multiple of {patch} pixels, its patch size"),
        }
    }
}

/// The image size that a network needs; `None` if it takes features or if only the network knows.
pub(crate) fn image_size(recipe: &BackboneRecipe) -> Option<ImageSize> {
    match recipe {
        // A trial image shows whether a module takes a size.
        BackboneRecipe::Linear | BackboneRecipe::Mlp { .. } | BackboneRecipe::Torchscript(_) => None,
        BackboneRecipe::Conv4 { .. } => Some(ImageSize::AtLeast(conv4::SMALLEST_IMAGE)),
        _ => Some(recipe.vit().map_or(ImageSize::AtLeast(SMALLEST_IMAGE), |vit| {
            ImageSize::MultipleOf(vit::patch_size(recipe.name(), vit))
        })),
    }
}

fn wrong_inputs(name: &str, layout: Layout) -> Error {
    Error::Usage(match layout {
        Layout::Images { .. } => format!(
            "backbone `{name}` needs features, but this data source has images; use an image backbone such as \
             `conv4` or `mobilenet_v2`"
        ),
        Layout::Features { .. } => {
            format!("backbone `{name}` needs images, but this data source has features; use `linear` or `mlp`")
        }
    })
}

fn resnet(recipe: &VisionRecipe, path: &nn::Path, depth: Depth) -> Network {
    vision(recipe, path, |scope| resnet::build(scope, depth), depth.features())
}

fn vision(
    recipe: &VisionRecipe,
    path: &nn::Path,
    build: impl FnOnce(&Scope) -> nn::SequentialT,
    features: i64,
) -> Network {
    let maps = build(&Scope::new(path.clone(), recipe.frozen_norm));
    let pooling = recipe.pooling;
    let module = nn::func_t(move |x, train| pooled(&maps.forward_t(x, train), pooling));
    Network { module: Box::new(module), features }
}

fn pooled(map: &Tensor, pooling: PoolingRecipe) -> Tensor {
    let average = map.adaptive_avg_pool2d([1, 1]).flatten(1, -1);
    match pooling {
        PoolingRecipe::Average => average,
        // `adaptive_max_pool2d` has no deterministic gradient on CUDA.
        PoolingRecipe::AverageMax => average + map.flatten(2, -1).max_dim(2, false).0,
    }
}
