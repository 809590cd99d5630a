//! The shape of a vision transformer: what its name, its settings and the weights say together.

use curricle_recipe::{MlpActivation, VitRecipe};
use std::collections::BTreeMap;

/// Names and sizes of tensors, under timm's names.
pub(in crate::backbone) type TensorSizes = BTreeMap<String, Vec<i64>>;

/// The parts of a vision transformer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct VitShape {
    pub patch: i64,
    pub width: i64,
    pub depth: i64,
    pub heads: i64,
    /// Width of the MLPs.
    pub hidden: i64,
    /// Side of the grid of position embeddings.
    pub grid: i64,
    /// Whether the class token has a position embedding.
    pub embeds_class: bool,
    /// Whether there is a distillation token.
    pub distilled: bool,
    pub registers: i64,
    /// Initial value of LayerScale.
    pub layer_scale: Option<f64>,
    pub pre_norm: bool,
    /// Whether the patch embedding has a bias.
    pub patch_bias: bool,
    pub projection: Option<i64>,
    pub activation: MlpActivation,
    pub norm_eps: f64,
}

/// Blocks of all networks, unless set otherwise.
const DEPTH: i64 = 12;

/// Name, patch size and width of the networks.
pub(super) const NETWORKS: [(&str, i64, i64); 4] =
    [("vit_small_16", 16, 384), ("vit_base_16", 16, 768), ("vit_small_14", 14, 384), ("vit_base_14", 14, 768)];

/// Patch size and width by which a network is named.
pub(super) fn named(network: &str) -> (i64, i64) {
    NETWORKS.into_iter().find(|(name, ..)| *name == network).map_or((16, 384), |(_, patch, width)| (patch, width))
}

/// A network's name, and the settings by which it differs from the network of that name.
type NamedShape = (&'static str, Vec<(&'static str, i64)>);

/// The network that these tensors belong to.
pub(in crate::backbone) fn recognise(tensors: &TensorSizes) -> Result<NamedShape, String> {
    let size = tensors.get("patch_embed.proj.weight").map(Vec::as_slice);
    let Some(&[width, _, patch, _]) = size else { return Err("`patch_embed.proj.weight` is not a convolution".into()) };
    let named = NETWORKS.into_iter().find(|(_, p, w)| (*p, *w) == (patch, width)).unwrap_or(NETWORKS[0]);
    let depth = depth(tensors);
    let settings = [("patch", patch, named.1), ("width", width, named.2), ("depth", depth, DEPTH)];
    Ok((named.0, settings.into_iter().filter(|(_, is, usual)| is != usual).map(|(name, is, _)| (name, is)).collect()))
}

/// Number of blocks.
fn depth(tensors: &TensorSizes) -> i64 {
    let block = |name: &str| name.strip_prefix("blocks.")?.split('.').next()?.parse::<i64>().ok();
    tensors.keys().filter_map(|name| block(name)).max().map_or(0, |last| last + 1)
}

/// The patch size.
pub(in crate::backbone) fn patch_size(network: &str, recipe: &VitRecipe) -> i64 {
    recipe.patch.unwrap_or(named(network).0)
}

impl VitShape {
    /// The shape of a new network for square images of this many pixels.
    pub(super) fn of_recipe(network: &str, recipe: &VitRecipe, pixels: i64) -> Result<Self, String> {
        let (patch, width) = (patch_size(network, recipe), recipe.width.unwrap_or(named(network).1));
        let pre_norm = recipe.pre_norm.unwrap_or(false);
        let shape = Self {
            patch,
            width,
            depth: recipe.depth.unwrap_or(DEPTH),
            heads: recipe.heads.unwrap_or((width / 64).max(1)),
            hidden: 4 * width,
            grid: (pixels / patch).max(1),
            embeds_class: true,
            distilled: false,
            registers: recipe.registers.unwrap_or(0),
            layer_scale: recipe.layer_scale.filter(|start| *start > 0.0),
            pre_norm,
            // A bias before a layer norm has little effect.
            patch_bias: !pre_norm,
            projection: recipe.projection.filter(|size| *size > 0),
            activation: recipe.activation.unwrap_or(MlpActivation::Gelu),
            norm_eps: recipe.norm_eps.unwrap_or(if pre_norm { 1e-5 } else { 1e-6 }),
        };
        shape.check_heads()?;
        Ok(shape)
    }

    /// The shape of the network that has these tensors; an error if the settings contradict them.
    pub(super) fn of_tensors(network: &str, recipe: &VitRecipe, tensors: &TensorSizes) -> Result<Self, String> {
        let size = |name: &str| tensors.get(name).map(Vec::as_slice);
        let needed = |name: &str| size(name).ok_or_else(|| format!("has no tensor `{name}`"));
        let &[width, _, patch, _] = needed("patch_embed.proj.weight")? else {
            return Err("`patch_embed.proj.weight` is not a convolution".into());
        };
        let (wanted_patch, wanted_width) = named(network);
        if (patch, width) != (recipe.patch.unwrap_or(wanted_patch), recipe.width.unwrap_or(wanted_width)) {
            let fits = NETWORKS.iter().find(|(_, p, w)| (*p, *w) == (patch, width));
            let remedy = fits.map_or_else(
                || format!("set `backbone.patch = {patch}` and `backbone.width = {width}`"),
                |(name, ..)| format!("use `{name}`"),
            );
            return Err(format!("has patches of {patch} pixels and width {width}, unlike `{network}`; {remedy}"));
        }
        let depth = depth(tensors);
        let distilled = size("dist_token").is_some();
        let positions = needed("pos_embed")?.get(1).copied().unwrap_or(0);
        // Squares are never 1 or 2 apart, except for grids without patches.
        let side = |count: i64| Some((count as f64).sqrt() as i64).filter(|side| *side > 0 && side * side == count);
        let tokens = 1 + i64::from(distilled);
        let (grid, embeds_class) = match (side(positions - tokens), side(positions)) {
            (Some(grid), _) => (grid, true),
            (None, Some(grid)) => (grid, false),
            (None, None) => return Err(format!("has {positions} position embeddings, which is not a square grid")),
        };
        let heads = recipe.heads.unwrap_or((width / 64).max(1));
        let pre_norm = size("norm_pre.weight").is_some();
        let shape = Self {
            patch,
            width,
            depth: agreed("depth", "blocks", recipe.depth.unwrap_or(DEPTH), depth)?,
            heads,
            hidden: needed("blocks.0.mlp.fc1.weight")?.first().copied().unwrap_or(0),
            grid,
            embeds_class,
            distilled,
            registers: agreed_or("registers", "register tokens", recipe.registers, count(size("reg_token")))?,
            layer_scale: layer_scale(recipe, size("blocks.0.ls1.gamma").is_some())?,
            pre_norm: agreed_or("pre_norm", "a norm before the first block:", recipe.pre_norm, pre_norm)?,
            patch_bias: size("patch_embed.proj.bias").is_some(),
            projection: projection(recipe, size("head.weight"))?,
            activation: recipe.activation.unwrap_or(MlpActivation::Gelu),
            norm_eps: recipe.norm_eps.unwrap_or(if pre_norm { 1e-5 } else { 1e-6 }),
        };
        shape.check_heads()?;
        Ok(shape)
    }

    fn check_heads(&self) -> Result<(), String> {
        if self.width % self.heads == 0 {
            return Ok(());
        }
        Err(format!("{} attention heads do not divide the width, {}; set `backbone.heads`", self.heads, self.width))
    }

    /// Tokens that are neither registers nor patches.
    pub(super) fn class_tokens(&self) -> i64 {
        1 + i64::from(self.distilled)
    }

    /// Number of output features.
    pub(super) fn features(&self) -> i64 {
        self.projection.unwrap_or(self.width)
    }

    /// The recipe with everything that this shape adds to it.
    pub(super) fn complete(&self, recipe: &VitRecipe) -> VitRecipe {
        VitRecipe {
            patch: Some(self.patch),
            width: Some(self.width),
            depth: Some(self.depth),
            heads: Some(self.heads),
            registers: Some(self.registers),
            layer_scale: Some(self.layer_scale.unwrap_or(0.0)),
            pre_norm: Some(self.pre_norm),
            activation: Some(self.activation),
            projection: Some(self.projection.unwrap_or(0)),
            norm_eps: Some(self.norm_eps),
            ..recipe.clone()
        }
    }
}

fn count(size: Option<&[i64]>) -> i64 {
    size.and_then(|size| size.get(1).copied()).unwrap_or(0)
}

fn agreed<T: PartialEq + std::fmt::Display + Copy>(setting: &str, what: &str, set: T, found: T) -> Result<T, String> {
    if set == found {
        return Ok(found);
    }
    Err(format!("has {found} {what}, but `backbone.{setting}` is {set}; set `backbone.{setting} = {found}`"))
}

fn agreed_or<T>(setting: &str, what: &str, set: Option<T>, found: T) -> Result<T, String>
where
    T: PartialEq + std::fmt::Display + Copy,
{
    agreed(setting, what, set.unwrap_or(found), found)
}

fn layer_scale(recipe: &VitRecipe, found: bool) -> Result<Option<f64>, String> {
    match (recipe.layer_scale, found) {
        (Some(start), true) if start > 0.0 => Ok(Some(start)),
        // The file has the values.
        (None, true) => Ok(Some(1.0)),
        (None, false) => Ok(None),
        (Some(0.0), false) => Ok(None),
        (Some(_), true) => Err("has LayerScale, but `backbone.layer_scale` is 0; remove this setting".into()),
        (Some(_), false) => Err("has no LayerScale; remove `backbone.layer_scale`".into()),
    }
}

fn projection(recipe: &VitRecipe, found: Option<&[i64]>) -> Result<Option<i64>, String> {
    let found = found.and_then(|size| size.first().copied());
    match (recipe.projection, found) {
        (None, found) => Ok(found),
        (Some(0), _) => Ok(None),
        (Some(size), Some(found)) if size == found => Ok(Some(found)),
        (Some(size), Some(found)) => Err(format!("projects to {found} features, but `backbone.projection` is {size}")),
        (Some(_), None) => Err("has no projection of its features; remove `backbone.projection`".into()),
    }
}
