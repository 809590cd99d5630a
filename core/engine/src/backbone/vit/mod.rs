//! Vision transformers (Dosovitskiy et al., ICLR 2021) under timm's names.

mod block;
mod layouts;
mod positions;
mod shape;
#[cfg(test)]
mod tests;

pub(super) use layouts::VitWeights;
pub(super) use shape::{TensorSizes, patch_size, recognise};

use super::network::Network;
use crate::{Error, Result};
use block::{DropPath, LayerNorm, VitBlock, draw_drop_path};
use curricle_recipe::{BackboneRecipe, TokenPooling, VitRecipe};
use positions::Positions;
use shape::VitShape;
use tch::Tensor;
use tch::nn::{self, Init, ModuleT};

/// Builds a network for images of this many pixels or, if given, for tensors of these sizes.
pub(super) fn build(
    network: &str,
    recipe: &VitRecipe,
    pixels: i64,
    sizes: Option<&TensorSizes>,
    path: &nn::Path,
) -> Result<Network> {
    let shape = match sizes {
        Some(sizes) => VitShape::of_tensors(network, recipe, sizes),
        None => VitShape::of_recipe(network, recipe, pixels),
    };
    let shape = shape.map_err(|message| Error::Usage(format!("backbone `{network}`: {message}")))?;
    let features = shape.features();
    Ok(Network { module: Box::new(Vit::new(path, &shape, recipe)), features })
}

/// The recipe with every setting that shapes the network.
pub(super) fn complete(network: &str, recipe: &VitRecipe, sizes: &TensorSizes) -> VitRecipe {
    VitShape::of_tensors(network, recipe, sizes).map_or_else(|_| recipe.clone(), |shape| shape.complete(recipe))
}

/// The recipe with all parts that a file of weights may add, to find out which names they have.
pub(super) fn with_all_parts(recipe: &VitRecipe) -> VitRecipe {
    VitRecipe {
        registers: recipe.registers.or(Some(1)),
        layer_scale: recipe.layer_scale.or(Some(1.0)),
        pre_norm: recipe.pre_norm.or(Some(true)),
        projection: recipe.projection.or(Some(1)),
        ..recipe.clone()
    }
}

/// Layer-wise decay: the factor on the learning rate of a tensor of the backbone, and the part of the network it
/// holds for, such as `blocks.3`. As in MAE and BEiT, embeddings are the lowest layer, and what follows the
/// blocks has the full learning rate.
pub(super) fn decay<'n>(backbone: &BackboneRecipe, name: &'n str) -> Option<(&'n str, f64)> {
    let vit = backbone.vit().filter(|vit| vit.layer_decay < 1.0)?;
    let depth = i32::try_from(vit.depth?).ok()?;
    let first = name.split('.').next().unwrap_or(name);
    let (part, below) = match first {
        "blocks" => {
            let number = name.split('.').nth(1)?;
            (&name[..first.len() + 1 + number.len()], depth - number.parse::<i32>().ok()?)
        }
        "norm" | "head" => (first, 0),
        _ => (first, depth + 1),
    };
    Some((part, vit.layer_decay.powi(below)))
}

#[derive(Debug)]
struct Vit {
    patch: i64,
    patches: (Tensor, Option<Tensor>),
    /// Class token and, in a distilled DeiT, distillation token.
    tokens: Vec<Tensor>,
    registers: Option<Tensor>,
    positions: Positions,
    pre_norm: Option<LayerNorm>,
    blocks: Vec<VitBlock>,
    norm: LayerNorm,
    projection: Option<Tensor>,
    pooling: TokenPooling,
    /// The probability with which a sample skips each block's branches.
    drop_path: Vec<f64>,
    checkpointing: bool,
}

impl Vit {
    fn new(path: &nn::Path, shape: &VitShape, recipe: &VitRecipe) -> Self {
        let VitShape { patch, width, depth, .. } = *shape;
        let variable = |path: &nn::Path, name: &str, size: &[i64]| path.var(name, size, Init::Const(0.0));
        let embed = path / "patch_embed" / "proj";
        let norm = |name: &str| LayerNorm::new(&(path / name), width, shape.norm_eps);
        let mut tokens = vec![variable(path, "cls_token", &[1, 1, width])];
        tokens.extend(shape.distilled.then(|| variable(path, "dist_token", &[1, 1, width])));
        let before = if shape.embeds_class { shape.class_tokens() } else { 0 };
        let drop_path = |block| if depth > 1 { recipe.drop_path * block as f64 / (depth - 1) as f64 } else { 0.0 };
        Self {
            patch,
            patches: (
                variable(&embed, "weight", &[width, 3, patch, patch]),
                shape.patch_bias.then(|| variable(&embed, "bias", &[width])),
            ),
            tokens,
            registers: (shape.registers > 0).then(|| variable(path, "reg_token", &[1, shape.registers, width])),
            positions: Positions::new(path, before, shape.grid, width),
            pre_norm: shape.pre_norm.then(|| norm("norm_pre")),
            blocks: (0..depth).map(|block| VitBlock::new(&(path / "blocks" / block), shape)).collect(),
            norm: norm("norm"),
            projection: shape.projection.map(|size| variable(&(path / "head"), "weight", &[size, width])),
            pooling: recipe.pooling,
            drop_path: (0..depth).map(drop_path).collect(),
            checkpointing: recipe.checkpointing,
        }
    }

    /// Images `[B, 3, H, W]` to tokens `[B, N, D]`: class tokens, registers, patches.
    fn embedded(&self, images: &Tensor) -> Tensor {
        let (weight, bias) = &self.patches;
        let map = images.conv2d(weight, bias.as_ref(), [self.patch; 2], [0; 2], [1; 2], 1);
        let size = map.size();
        let patches = map.flatten(2, 3).transpose(1, 2) + self.positions.of_patches(size[2], size[3]);
        // A batch of tokens without the size of the batch, which tracing would make a constant.
        let batch = patches.narrow(1, 0, 1).zeros_like().detach();
        let tokens = Tensor::cat(&self.tokens, 1);
        let tokens = self.positions.of_tokens().map_or_else(|| tokens.shallow_clone(), |own| &tokens + own);
        let mut all = vec![tokens + &batch];
        all.extend(self.registers.as_ref().map(|registers| registers + &batch));
        all.push(patches);
        Tensor::cat(&all, 1)
    }

    fn run(&self, number: usize, x: &Tensor, train: bool) -> Tensor {
        let block = &self.blocks[number];
        let drop: DropPath = if train { draw_drop_path(x, self.drop_path[number]) } else { None };
        // Below the first trained parameter there is nothing to keep for the backward pass.
        if self.checkpointing && train && x.requires_grad() {
            let block = block.share();
            let again = curricle_torch::recompute(x, move |x| block.forward(x, &drop));
            // As tch's own methods do; callers turn it into an error.
            return again.unwrap_or_else(|error| panic!("{error}"));
        }
        block.forward(x, &drop)
    }

    /// The output tokens that become the features, averaged.
    fn pooled(&self, x: &Tensor) -> Tensor {
        let classes = self.tokens.len() as i64;
        let chosen = match self.pooling {
            TokenPooling::Class => x.narrow(1, 0, classes),
            TokenPooling::Mean => {
                let before = classes + self.registers.as_ref().map_or(0, |registers| registers.size()[1]);
                x.narrow(1, before, x.size()[1] - before)
            }
        };
        let normed = self.norm.forward(&chosen);
        if normed.size()[1] == 1 { normed.squeeze_dim(1) } else { normed.mean_dim(1, false, normed.kind()) }
    }
}

impl ModuleT for Vit {
    fn forward_t(&self, images: &Tensor, train: bool) -> Tensor {
        let mut x = self.embedded(images);
        if let Some(norm) = &self.pre_norm {
            x = norm.forward(&x);
        }
        for number in 0..self.blocks.len() {
            x = self.run(number, &x, train);
        }
        let features = self.pooled(&x);
        self.projection.as_ref().map_or_else(|| features.shallow_clone(), |own| features.linear(own, None::<&Tensor>))
    }
}
