//! `[backbone]` and `[embedding]`

use super::NormaliseRecipe;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

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
}

impl BackboneRecipe {
    /// The settings of a backbone for colour images, which may have pretrained weights.
    pub fn vision(&self) -> Option<&VisionRecipe> {
        match self {
            Self::Resnet18(vision)
            | Self::Resnet34(vision)
            | Self::Resnet50(vision)
            | Self::MobilenetV2(vision)
            | Self::EfficientnetB0(vision)
            | Self::BnInception(vision)
            | Self::Squeezenet11(vision) => Some(vision),
            Self::Conv4 { .. } | Self::Linear | Self::Mlp { .. } => None,
        }
    }

    /// Like [`Self::vision`], mutable.
    pub fn vision_mut(&mut self) -> Option<&mut VisionRecipe> {
        match self {
            Self::Resnet18(vision)
            | Self::Resnet34(vision)
            | Self::Resnet50(vision)
            | Self::MobilenetV2(vision)
            | Self::EfficientnetB0(vision)
            | Self::BnInception(vision)
            | Self::Squeezenet11(vision) => Some(vision),
            Self::Conv4 { .. } | Self::Linear | Self::Mlp { .. } => None,
        }
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
        }
    }
}

/// Settings of the backbones for colour images.
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
