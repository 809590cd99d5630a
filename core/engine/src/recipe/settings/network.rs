//! `[backbone]` and `[embedding]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The network below the embedding.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum BackboneRecipe {
    /// Four blocks of convolution, batch norm, ReLU and pooling, for small images.
    Conv4 {
        /// Channels of each block.
        #[serde(default = "conv4_width")]
        #[schemars(range(min = 1))]
        width: i64,
    },
    /// No network: the embedding layer sees the features.
    Linear,
    /// Fully connected layers with ReLU.
    Mlp {
        /// Sizes of the hidden layers.
        #[serde(default = "mlp_hidden")]
        #[schemars(inner(range(min = 1)))]
        hidden: Vec<i64>,
        /// Share of hidden activations dropped during training.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 0.99))]
        dropout: f64,
    },
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
    #[schemars(range(min = 2))]
    pub size: i64,
}

impl Default for EmbeddingRecipe {
    fn default() -> Self {
        Self { size: 64 }
    }
}
