//! `[backbone]` and `[embedding]`

use super::NormaliseRecipe;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The network below the embedding.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum BackboneRecipe {
    /// Four blocks of convolution, batch norm, ReLU and pooling, for small images.
    Conv4 {
        /// Channels of each block.
        #[serde(default = "conv4_width")]
        #[schemars(range(min = 1, max = 8192))]
        width: i64,
    },
    /// No network: the embedding layer sees the features.
    Linear,
    /// Fully connected layers with ReLU.
    Mlp {
        /// Sizes of the hidden layers.
        #[serde(default = "mlp_hidden")]
        #[schemars(inner(range(min = 1, max = 1_000_000)))]
        hidden: Vec<i64>,
        /// Share of hidden activations dropped during training.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 0.99))]
        dropout: f64,
    },
    /// ResNet of 18 layers; 512 features.
    Resnet18(VisionRecipe),
    /// ResNet of 34 layers; 512 features.
    Resnet34(VisionRecipe),
    /// ResNet of 50 layers; 2048 features.
    Resnet50(VisionRecipe),
    /// MobileNet-V2, small and fast; 1280 features.
    MobilenetV2(VisionRecipe),
    /// EfficientNet-B0; 1280 features.
    EfficientnetB0(VisionRecipe),
    /// BN-Inception, the network of most published tables; 1024 features.
    BnInception(VisionRecipe),
    /// SqueezeNet 1.1, the smallest, without batch norm; 512 features.
    #[serde(rename = "squeezenet1_1")]
    Squeezenet11(VisionRecipe),
}

impl BackboneRecipe {
    /// The settings of a network for colour pictures, which may have pretrained weights.
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

    /// The same, to be changed.
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

/// Settings of the networks for colour pictures.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct VisionRecipe {
    /// A file with pretrained weights (`.pth`, `.safetensors` or `.ot`) under the names of
    /// torchvision, or of pretrainedmodels for `bn_inception`; relative to the recipe that names
    /// it. Without it, training starts from random numbers.
    #[schemars(extend("x-path" = true))]
    pub weights: Option<PathBuf>,
    /// What is done to pixels before the network sees them; it belongs to the weights. Default:
    /// `caffe_bgr` for `bn_inception` with weights, else `imagenet`.
    pub normalise: Option<NormaliseRecipe>,
    /// How the last map becomes a vector.
    pub pooling: PoolingRecipe,
    /// Batch norm uses its stored statistics in training too, and neither they nor its scale and
    /// shift change: usual for fine-tuning with small batches.
    pub frozen_norm: bool,
    /// The network stays as it is: its features are computed once, without augmentation, and only
    /// the embedding (and the loss's own tensors) are trained on them.
    pub frozen: bool,
}

/// How the last map of a network becomes a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PoolingRecipe {
    /// The mean over all places.
    #[default]
    Average,
    /// The mean plus the maximum.
    AverageMax,
}

fn conv4_width() -> i64 {
    32
}

fn mlp_hidden() -> Vec<i64> {
    vec![512]
}

/// The embedding layer; its output is scaled to unit length.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EmbeddingRecipe {
    /// Number of dimensions.
    #[schemars(range(min = 2, max = 65536))]
    pub size: i64,
}

impl Default for EmbeddingRecipe {
    fn default() -> Self {
        Self { size: 64 }
    }
}
