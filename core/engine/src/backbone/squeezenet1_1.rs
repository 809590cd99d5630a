//! SqueezeNet 1.1 (Iandola et al., 2016): small, and without batch norm.

use super::layers::{Scope, conv, halve};
use tch::Tensor;
use tch::nn::{self, Module, ModuleT};

/// Channels of the last feature map.
pub(super) const FEATURES: i64 = 512;

/// Layer number, and input, squeezed and expanded channels of the fire modules.
const FIRES: [(i64, i64, i64, i64); 8] = [
    (3, 64, 16, 64),
    (4, 128, 16, 64),
    (6, 128, 32, 128),
    (7, 256, 32, 128),
    (9, 256, 48, 192),
    (10, 384, 48, 192),
    (11, 384, 64, 256),
    (12, 512, 64, 256),
];

pub(super) fn build(root: &Scope) -> nn::SequentialT {
    let root = root.at("features");
    let stem = conv(3, 64, 3).with_stride(2).with_padding(0).with_bias();
    let mut network = nn::seq_t().add(root.at(0).conv(stem)).add_fn(Tensor::relu);
    for (number, input, squeezed, expanded) in FIRES {
        if matches!(number, 3 | 6 | 9) {
            network = network.add_fn(|x| halve(x, 0, true));
        }
        network = network.add(Fire::new(&root.at(number), input, squeezed, expanded));
    }
    network
}

#[derive(Debug)]
struct Fire {
    squeeze: nn::Conv2D,
    expand: [nn::Conv2D; 2],
}

impl Fire {
    fn new(scope: &Scope, input: i64, squeezed: i64, expanded: i64) -> Self {
        let layer = |name: &str, input, output, kernel| scope.at(name).conv(conv(input, output, kernel).with_bias());
        Self {
            squeeze: layer("squeeze", input, squeezed, 1),
            expand: [layer("expand1x1", squeezed, expanded, 1), layer("expand3x3", squeezed, expanded, 3)],
        }
    }
}

impl ModuleT for Fire {
    fn forward_t(&self, x: &Tensor, _train: bool) -> Tensor {
        let squeezed = self.squeeze.forward(x).relu();
        Tensor::cat(&self.expand.each_ref().map(|conv| conv.forward(&squeezed).relu()), 1)
    }
}
