//! `[backbone]` and `[embedding]`

use super::NormaliseRecipe;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The backbone network, which computes the features below the embedding layer.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum BackboneRecipe {
    /// Four blocks of convolution, batch norm, ReLU and pooling, for small images.
    Conv4 {
        /// Channels per block.
        #[serde(default = "conv4_width")]
        #[schemars(range(min = 1, max = 8192))]
        width: i64,
    },
    /// No network: the embedding layer takes the features as they are.
    Linear,
    /// Fully connected layers with ReLU.
    Mlp {
        /// Sizes of the hidden layers.
        #[serde(default = "mlp_hidden")]
        #[schemars(inner(range(min = 1, max = 1_000_000)))]
        hidden: Vec<i64>,
        /// Dropout probability of hidden activations.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 0.99))]
        dropout: f64,
    },
    /// ResNet-18; 512 features.
    Resnet18(VisionRecipe),
    /// ResNet-34; 512 features.
    Resnet34(VisionRecipe),
    /// ResNet-50; 2048 features.
    Resnet50(VisionRecipe),
    /// MobileNet-V2, small and fast; 1280 features.
    MobilenetV2(VisionRecipe),
    /// EfficientNet-B0; 1280 features.
    EfficientnetB0(VisionRecipe),
    /// BN-Inception, used by most published results; 1024 features.
    BnInception(VisionRecipe),
    /// SqueezeNet 1.1, the smallest, without batch norm; 512 features.
    #[serde(rename = "squeezenet1_1")]
    Squeezenet11(VisionRecipe),
    /// ViT-S/16, a vision transformer with patches of 16 pixels; 384 features.
    #[serde(rename = "vit_small_16")]
    VitSmall16(VitRecipe),
    /// ViT-B/16; 768 features.
    #[serde(rename = "vit_base_16")]
    VitBase16(VitRecipe),
    /// ViT-S/14, with patches of 14 pixels; 384 features.
    #[serde(rename = "vit_small_14")]
    VitSmall14(VitRecipe),
    /// ViT-B/14; 768 features.
    #[serde(rename = "vit_base_14")]
    VitBase14(VitRecipe),
    /// A network of your own: a TorchScript module that maps images to features.
    Torchscript(TorchscriptRecipe),
}

impl BackboneRecipe {
    /// The settings of a convolutional backbone for colour images.
    pub fn vision(&self) -> Option<&VisionRecipe> {
        match self {
            Self::Resnet18(vision)
            | Self::Resnet34(vision)
            | Self::Resnet50(vision)
            | Self::MobilenetV2(vision)
            | Self::EfficientnetB0(vision)
            | Self::BnInception(vision)
            | Self::Squeezenet11(vision) => Some(vision),
            _ => None,
        }
    }

    /// Like [`Self::vision`], mutable.
    fn vision_mut(&mut self) -> Option<&mut VisionRecipe> {
        match self {
            Self::Resnet18(vision)
            | Self::Resnet34(vision)
            | Self::Resnet50(vision)
            | Self::MobilenetV2(vision)
            | Self::EfficientnetB0(vision)
            | Self::BnInception(vision)
            | Self::Squeezenet11(vision) => Some(vision),
            _ => None,
        }
    }

    /// The settings of a vision transformer.
    pub fn vit(&self) -> Option<&VitRecipe> {
        match self {
            Self::VitSmall16(vit) | Self::VitBase16(vit) | Self::VitSmall14(vit) | Self::VitBase14(vit) => Some(vit),
            _ => None,
        }
    }

    /// Like [`Self::vit`], mutable.
    pub fn vit_mut(&mut self) -> Option<&mut VitRecipe> {
        match self {
            Self::VitSmall16(vit) | Self::VitBase16(vit) | Self::VitSmall14(vit) | Self::VitBase14(vit) => Some(vit),
            _ => None,
        }
    }

    /// The settings of a TorchScript module.
    pub fn torchscript(&self) -> Option<&TorchscriptRecipe> {
        if let Self::Torchscript(script) = self { Some(script) } else { None }
    }

    /// Whether its input is colour images with a pixel normalisation that can be set.
    pub fn takes_colour_images(&self) -> bool {
        self.vision().is_some() || self.vit().is_some() || self.torchscript().is_some()
    }

    /// The file with its pretrained weights.
    pub fn weights(&self) -> Option<&Path> {
        self.vision().and_then(|vision| vision.weights.as_deref()).or(self.vit().and_then(|vit| vit.weights.as_deref()))
    }

    /// Whether its features are computed once, before training.
    pub fn frozen(&self) -> bool {
        let script = self.torchscript().is_some_and(|script| script.frozen);
        script || self.vision().is_some_and(|vision| vision.frozen) || self.vit().is_some_and(|vit| vit.frozen)
    }

    /// The pixel normalisation, if it is set.
    pub fn normalise(&self) -> Option<&NormaliseRecipe> {
        let own = self.vision().and_then(|vision| vision.normalise.as_ref());
        let own = own.or(self.vit().and_then(|vit| vit.normalise.as_ref()));
        own.or(self.torchscript().and_then(|script| script.normalise.as_ref()))
    }

    /// The same backbone with this normalisation and without its file of pretrained weights.
    pub fn without_weights(&self, normalise: NormaliseRecipe) -> Self {
        let mut recipe = self.clone();
        if let Some(vision) = recipe.vision_mut() {
            (vision.normalise, vision.weights) = (Some(normalise), None);
        } else if let Some(vit) = recipe.vit_mut() {
            (vit.normalise, vit.weights) = (Some(normalise), None);
        } else if let Self::Torchscript(script) = &mut recipe {
            script.normalise = Some(normalise);
        }
        recipe
    }

    /// Its name in recipes.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Conv4 { .. } => "conv4",
            Self::Linear => "linear",
            Self::Mlp { .. } => "mlp",
            Self::Resnet18(_) => "resnet18",
            Self::Resnet34(_) => "resnet34",
            Self::Resnet50(_) => "resnet50",
            Self::MobilenetV2(_) => "mobilenet_v2",
            Self::EfficientnetB0(_) => "efficientnet_b0",
            Self::BnInception(_) => "bn_inception",
            Self::Squeezenet11(_) => "squeezenet1_1",
            Self::VitSmall16(_) => "vit_small_16",
            Self::VitBase16(_) => "vit_base_16",
            Self::VitSmall14(_) => "vit_small_14",
            Self::VitBase14(_) => "vit_base_14",
            Self::Torchscript(_) => "torchscript",
        }
    }
}

/// Settings of the convolutional backbones for colour images.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct VisionRecipe {
    /// A file with pretrained weights (`.pth`, `.safetensors` or `.ot`) with the parameter names of
    /// torchvision, or of pretrainedmodels for `bn_inception`; relative to the recipe that names
    /// it. Default: random initialisation.
    #[schemars(extend("x-path" = true))]
    pub weights: Option<PathBuf>,
    /// Pixel normalisation, which must match the pretrained weights. Default: `caffe_bgr` for
    /// `bn_inception` with weights, else `imagenet`.
    pub normalise: Option<NormaliseRecipe>,
    /// Global pooling of the last feature map.
    pub pooling: PoolingRecipe,
    /// Freeze batch norm: it uses its stored statistics in training too, and neither they nor its
    /// scale and shift change. Common for fine-tuning with small batches.
    pub frozen_norm: bool,
    /// Freeze the backbone: its features are computed once, without augmentation, and only the
    /// embedding layer and the loss's own tensors are trained.
    pub frozen: bool,
}

/// Global pooling of the last feature map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PoolingRecipe {
    /// The average over all positions.
    #[default]
    Average,
    /// The average plus the maximum.
    AverageMax,
}

/// Settings of the vision transformers. What a file of pretrained weights decides, such as LayerScale and register
/// tokens, need not be set with one.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct VitRecipe {
    /// A file with pretrained weights (`.pth`, `.pt`, `.safetensors` or `.ot`) with the parameter names of timm,
    /// DINO, DINOv2, DeiT, torchvision, or CLIP from OpenAI or open_clip; relative to the recipe that names it.
    /// Default: random initialisation.
    #[schemars(extend("x-path" = true))]
    pub weights: Option<PathBuf>,
    /// Pixel normalisation, which must match the pretrained weights. Default: that of the file's publisher, or
    /// `imagenet` without a file.
    pub normalise: Option<NormaliseRecipe>,
    /// Which output tokens become the features.
    pub pooling: TokenPooling,
    /// Freeze the backbone: its features are computed once, without augmentation, and only the
    /// embedding layer and the loss's own tensors are trained.
    pub frozen: bool,
    /// Patch size in pixels. Default: that in the network's name.
    #[schemars(range(min = 1, max = 512))]
    pub patch: Option<i64>,
    /// Embedding dimension of the tokens. Default: 384 for small, 768 for base.
    #[schemars(range(min = 1, max = 8192))]
    pub width: Option<i64>,
    /// Number of blocks. Default: 12.
    #[schemars(range(min = 1, max = 256))]
    pub depth: Option<i64>,
    /// Attention heads per block, a divisor of the width. Default: one for every 64 of the width.
    #[schemars(range(min = 1, max = 256))]
    pub heads: Option<i64>,
    /// Number of register tokens (Darcet et al., ICLR 2024). Default: as in the weights, else 0.
    #[schemars(range(min = 0, max = 1024))]
    pub registers: Option<i64>,
    /// Initial value of LayerScale (Touvron et al., ICCV 2021), a learned factor for each channel of a block's
    /// output; 0 for none. Default: as in the weights, else 0.
    #[schemars(range(min = 0.0, max = 10.0))]
    pub layer_scale: Option<f64>,
    /// Layer norm before the first block, as in CLIP. Default: as in the weights, else `false`.
    pub pre_norm: Option<bool>,
    /// Activation of the MLPs. Default: as in the weights, if they tell, else `gelu`.
    pub activation: Option<MlpActivation>,
    /// Outputs of a linear projection of the features, as in CLIP; 0 for none. Default: as in the weights, else 0.
    #[schemars(range(min = 0, max = 8192))]
    pub projection: Option<i64>,
    /// Epsilon of layer norm. Default: 1e-5 with `pre_norm`, as in CLIP, else 1e-6.
    #[schemars(range(min = 1e-12, max = 1.0))]
    pub norm_eps: Option<f64>,
    /// Stochastic depth (drop path): the probability that a sample skips the last block's branches in training,
    /// which decreases linearly to 0 for the first block.
    #[schemars(range(min = 0.0, max = 0.99))]
    pub drop_path: f64,
    /// Layer-wise learning-rate decay: the learning rate of each block is that of the block above it times this
    /// factor, that of the last block is the backbone's times this factor, and patch and position embeddings are
    /// below the first block. 1 for none; 0.65 to 0.75 is usual.
    #[schemars(range(min = 0.01, max = 1.0))]
    pub layer_decay: f64,
    /// Gradient checkpointing: keep only the blocks' inputs, and compute the blocks a second time in the backward
    /// pass. Saves most of the memory for a third more time; gradients are the same.
    pub checkpointing: bool,
}

impl Default for VitRecipe {
    fn default() -> Self {
        Self {
            weights: None,
            normalise: None,
            pooling: TokenPooling::default(),
            frozen: false,
            patch: None,
            width: None,
            depth: None,
            heads: None,
            registers: None,
            layer_scale: None,
            pre_norm: None,
            activation: None,
            projection: None,
            norm_eps: None,
            drop_path: 0.0,
            layer_decay: 1.0,
            checkpointing: false,
        }
    }
}

/// Settings of a TorchScript module.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TorchscriptRecipe {
    /// The file that `torch.jit.script(model).save(path)` or `torch.jit.trace` wrote; relative to the recipe that
    /// names it. Its `forward` maps images `[B, 3, H, W]` to features `[B, F]`.
    #[schemars(extend("x-path" = true))]
    pub path: PathBuf,
    /// SHA-256 of the file, which is part of the run's identity. Default: that of the file.
    #[schemars(regex(pattern = "^[0-9a-fA-F]{64}$"))]
    #[serde(default)]
    pub sha256: Option<String>,
    /// Pixel normalisation of the network's input. Default: `imagenet`.
    #[serde(default)]
    pub normalise: Option<NormaliseRecipe>,
    /// Freeze batch norm: it uses its stored statistics in training too, and neither they nor its
    /// scale and shift change. Common for fine-tuning with small batches.
    #[serde(default)]
    pub frozen_norm: bool,
    /// Freeze the backbone: its features are computed once, without augmentation, and only the
    /// embedding layer and the loss's own tensors are trained.
    #[serde(default)]
    pub frozen: bool,
}

/// Which output tokens of a vision transformer become the features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenPooling {
    /// The class token; in a distilled DeiT the mean of class and distillation token.
    #[default]
    Class,
    /// The mean of the patch tokens.
    Mean,
}

/// The activation in the MLPs of a vision transformer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MlpActivation {
    /// The exact GELU.
    Gelu,
    /// `x σ(1.702 x)`, as in OpenAI's CLIP.
    QuickGelu,
}

fn conv4_width() -> i64 {
    32
}

fn mlp_hidden() -> Vec<i64> {
    vec![512]
}

/// The embedding layer; its output is normalised to unit length.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EmbeddingRecipe {
    /// Embedding dimension.
    #[schemars(range(min = 2, max = 65536))]
    pub size: i64,
}

impl Default for EmbeddingRecipe {
    fn default() -> Self {
        Self { size: 64 }
    }
}
