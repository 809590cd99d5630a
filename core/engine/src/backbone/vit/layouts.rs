//! Files with weights of vision transformers, under the names of their publishers.
//!
//! The network's own names are timm's, which DINO, DINOv2 and DeiT follow with few exceptions. Names in a file
//! tell who wrote it, and so how pixels were normalised; where several publishers use the same names, the recipe
//! has to say it.

use super::shape::{TensorSizes, VitShape};
use crate::backbone::weights::WeightsFile;
use crate::{Error, Result};
use curricle_recipe::{MlpActivation, NormaliseRecipe, VitRecipe};
use std::collections::BTreeMap;
use tch::Tensor;

/// The names that a file uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    Timm,
    Torchvision,
    Clip,
}

/// Names, and two tensors that every network with these names has.
const KNOWN: [(Names, [&str; 2]); 3] = [
    (Names::Timm, ["patch_embed.proj.weight", "blocks.0.norm1.weight"]),
    (Names::Torchvision, ["conv_proj.weight", "encoder.layers.encoder_layer_0.ln_1.weight"]),
    (Names::Clip, ["conv1.weight", "transformer.resblocks.0.ln_1.weight"]),
];

/// How parts of names translate to timm's. Torchvision called the layers of its MLPs `linear_1` and `linear_2`
/// before it called them `0` and `3`; DeiT III calls its LayerScale `gamma_1`.
const TIMM: [(&str, &str); 3] =
    [("register_tokens", "reg_token"), (".gamma_1", ".ls1.gamma"), (".gamma_2", ".ls2.gamma")];
const TORCHVISION: [(&str, &str); 13] = [
    ("class_token", "cls_token"),
    ("encoder.pos_embedding", "pos_embed"),
    ("conv_proj.", "patch_embed.proj."),
    ("encoder.layers.encoder_layer_", "blocks."),
    ("encoder.ln.", "norm."),
    (".ln_1.", ".norm1."),
    (".ln_2.", ".norm2."),
    (".self_attention.in_proj_", ".attn.qkv."),
    (".self_attention.out_proj.", ".attn.proj."),
    (".mlp.0.", ".mlp.fc1."),
    (".mlp.3.", ".mlp.fc2."),
    (".mlp.linear_1.", ".mlp.fc1."),
    (".mlp.linear_2.", ".mlp.fc2."),
];
const CLIP: [(&str, &str); 14] = [
    ("class_embedding", "cls_token"),
    ("positional_embedding", "pos_embed"),
    ("conv1.", "patch_embed.proj."),
    ("ln_pre.", "norm_pre."),
    ("ln_post.", "norm."),
    ("transformer.resblocks.", "blocks."),
    (".ln_1.", ".norm1."),
    (".ln_2.", ".norm2."),
    (".attn.in_proj_", ".attn.qkv."),
    (".attn.out_proj.", ".attn.proj."),
    (".mlp.c_fc.", ".mlp.fc1."),
    (".mlp.c_proj.", ".mlp.fc2."),
    (".ls_1.", ".ls1."),
    (".ls_2.", ".ls2."),
];

/// What is assumed of a file that may be DINO's.
const ASSUMED_DINO: &str = "has timm's names and no classifier, as DINO's files have; assuming `backbone.normalise = \
                            \"imagenet\"`, but timm's own weights (`augreg`) need `\"symmetric\"`";

/// A tensor under timm's name, and its name in the file.
#[derive(Debug)]
struct Renamed {
    in_file: String,
    tensor: Tensor,
}

/// A file of weights whose names are known.
#[derive(Debug)]
pub(in crate::backbone) struct VitWeights<'f> {
    file: &'f WeightsFile,
    names: Names,
    prefix: String,
    tensors: BTreeMap<String, Renamed>,
}

impl<'f> VitWeights<'f> {
    /// Recognises the names in a file.
    pub(in crate::backbone) fn recognise(file: &'f WeightsFile, network: &str) -> Result<Self> {
        let found = &file.contents.tensors;
        let prefixes = KNOWN.into_iter().flat_map(|(names, [first, second])| {
            let prefix = move |name: &String| {
                let prefix = name.strip_suffix(first)?;
                let whole = prefix.is_empty() || prefix.ends_with('.');
                (whole && found.contains_key(&format!("{prefix}{second}"))).then(|| (names, prefix.to_string()))
            };
            found.keys().filter_map(prefix)
        });
        // A checkpoint may hold several copies, such as teacher and student: the shortest prefix.
        let (names, prefix) = prefixes
            .min_by(|(_, a), (_, b)| a.len().cmp(&b.len()).then(a.cmp(b)))
            .ok_or_else(|| file.wrong(file.nothing_matched(&format!("a vision transformer such as `{network}`"))))?;
        let own = |(name, tensor): (&String, &Tensor)| {
            let (renamed, tensor) = translate(names, name.strip_prefix(&prefix)?, tensor)?;
            Some((renamed, Renamed { in_file: name.clone(), tensor }))
        };
        let tensors = found.iter().filter_map(own).collect();
        Ok(Self { file, names, prefix, tensors })
    }

    /// Names and sizes of its tensors, without a classifier.
    pub(in crate::backbone) fn sizes(&self) -> TensorSizes {
        // CLIP's projection has no bias, unlike a classifier.
        let classifier = self.has("head.bias");
        let tensors = self.tensors.iter().filter(|(name, _)| !(classifier && *name == "head.weight"));
        tensors.map(|(name, renamed)| (name.clone(), renamed.tensor.size())).collect()
    }

    /// A network's tensor and its name in the file.
    pub(in crate::backbone) fn get(&self, name: &str) -> Option<(String, Tensor)> {
        self.tensors.get(name).map(|renamed| (renamed.in_file.clone(), renamed.tensor.shallow_clone()))
    }

    /// The prefix of all names, such as `visual.`.
    pub(in crate::backbone) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Who uses these names.
    pub(in crate::backbone) fn publisher(&self) -> &'static str {
        match self.names {
            Names::Torchvision => "torchvision",
            Names::Clip if self.is_openai() => "OpenAI CLIP",
            Names::Clip => "CLIP",
            Names::Timm if self.has("mask_token") => "DINOv2",
            Names::Timm if self.has("dist_token") => "distilled DeiT",
            Names::Timm => "timm",
        }
    }

    /// The recipe with everything that the file decides.
    pub(in crate::backbone) fn complete(&self, network: &str, recipe: &VitRecipe) -> Result<VitRecipe> {
        let shape = VitShape::of_tensors(network, recipe, &self.sizes()).map_err(|message| self.file.wrong(message))?;
        let unknown = |name: &&String| name.starts_with("blocks.") && !known_in_block(name);
        if let Some(name) = self.tensors.keys().find(unknown) {
            let in_file = &self.tensors[name].in_file;
            return Err(self.file.wrong(format!("has a tensor `{in_file}`, which `{network}` does not have")));
        }
        let activation = recipe.activation.map_or_else(|| self.activation(shape.pre_norm), Ok)?;
        let normalise = recipe.normalise.clone().map_or_else(|| self.normalise(shape.pre_norm), Ok)?;
        Ok(VitRecipe { normalise: Some(normalise), activation: Some(activation), ..shape.complete(recipe) })
    }

    fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// OpenAI's own files have this number next to the networks.
    fn is_openai(&self) -> bool {
        self.file.contents.tensors.contains_key("input_resolution")
    }

    fn activation(&self, pre_norm: bool) -> Result<MlpActivation> {
        match pre_norm || self.names == Names::Clip {
            false => Ok(MlpActivation::Gelu),
            true if self.names == Names::Clip && self.is_openai() => Ok(MlpActivation::QuickGelu),
            true => Err(self.unclear(
                "which activation this CLIP was trained with",
                "`backbone.activation = \"quick_gelu\"` for OpenAI's weights and networks with `quickgelu` in their \
                 name, else `\"gelu\"`",
            )),
        }
    }

    fn normalise(&self, pre_norm: bool) -> Result<NormaliseRecipe> {
        let trained_here = self.prefix.ends_with("model.backbone.") || self.prefix.ends_with("ema.backbone.");
        let by_timm_or_deit = self.has("head.weight") && !self.prefix.ends_with("model.");
        match self.names {
            Names::Torchvision => Ok(NormaliseRecipe::Imagenet),
            Names::Clip => Ok(NormaliseRecipe::Clip),
            Names::Timm if trained_here => {
                Err(self.unclear("the normalisation of the run it is from", "`backbone.normalise` as in that run"))
            }
            Names::Timm if pre_norm => Ok(NormaliseRecipe::Clip),
            Names::Timm if self.has("dist_token") || self.has("mask_token") || self.has("blocks.0.ls1.gamma") => {
                Ok(NormaliseRecipe::Imagenet)
            }
            Names::Timm if by_timm_or_deit => Err(self.unclear(
                "how pixels were normalised",
                "`backbone.normalise = \"symmetric\"` for timm's own weights (`augreg`), `\"imagenet\"` for DeiT's and \
                 DINO's",
            )),
            Names::Timm => {
                // DINO's files have the tensors of timm's networks without a classifier. Their full checkpoints have a
                // teacher, and the files of MAE, which DeiT's follow, a `model`.
                if !self.prefix.contains("teacher.") && !self.prefix.ends_with("model.") {
                    tracing::warn!("{}", self.file.wrong(ASSUMED_DINO.into()));
                }
                Ok(NormaliseRecipe::Imagenet)
            }
        }
    }

    fn unclear(&self, what: &str, remedy: &str) -> Error {
        self.file.wrong(format!("does not tell {what}; set {remedy}"))
    }
}

/// The name in timm and the tensor in timm's layout.
fn translate(names: Names, name: &str, tensor: &Tensor) -> Option<(String, Tensor)> {
    let replace = |rules: &[(&str, &str)]| {
        rules.iter().fold(name.to_string(), |name, (theirs, timm)| {
            // Rules that do not begin with a dot are about the beginning of names.
            match name.strip_prefix(theirs) {
                Some(rest) if !theirs.starts_with('.') => format!("{timm}{rest}"),
                _ if theirs.starts_with('.') => name.replacen(theirs, timm, 1),
                _ => name,
            }
        })
    };
    match names {
        Names::Timm => Some((replace(&TIMM), tensor.shallow_clone())),
        Names::Torchvision => Some((replace(&TORCHVISION), tensor.shallow_clone())),
        // Stored for a product from the right.
        Names::Clip if name == "proj" && tensor.dim() == 2 => Some(("head.weight".into(), tensor.tr())),
        Names::Clip => {
            let renamed = replace(&CLIP);
            let flat = matches!(renamed.as_str(), "cls_token" | "pos_embed");
            let tensor = if flat { tensor.reshape([1, -1, *tensor.size().last()?]) } else { tensor.shallow_clone() };
            Some((renamed, tensor))
        }
    }
}

/// Whether the network has a tensor of this name in its blocks.
fn known_in_block(name: &str) -> bool {
    let inner = name.splitn(3, '.').nth(2).unwrap_or_default();
    let layer = inner.strip_suffix(".weight").or(inner.strip_suffix(".bias"));
    matches!(layer, Some("norm1" | "norm2" | "attn.qkv" | "attn.proj" | "mlp.fc1" | "mlp.fc2"))
        || matches!(inner, "ls1.gamma" | "ls2.gamma")
}
