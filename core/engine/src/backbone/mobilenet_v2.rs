//! MobileNet-V2 (Sandler et al., CVPR 2018), width multiplier 1.

use super::layers::{Activation, Block, Scope, conv};
use tch::Tensor;
use tch::nn::{self, ModuleT};

/// Channels of the last feature map.
pub(super) const FEATURES: i64 = 1280;

/// Expansion, channels, blocks and first stride of each stage.
const STAGES: [(i64, i64, i64, i64); 7] =
    [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)];

pub(super) fn build(root: &Scope) -> nn::SequentialT {
    let mut number = 0;
    let mut next = || {
        number += 1;
        root.at(format!("features.{}", number - 1))
    };
    let mut network = nn::seq_t().add(next().block(("0", "1"), conv(3, 32, 3).with_stride(2), Activation::Relu6));
    let mut input = 32;
    for (expansion, output, blocks, stride) in STAGES {
        for index in 0..blocks {
            let stride = if index == 0 { stride } else { 1 };
            network = network.add(InvertedResidual::new(&next(), input, output, expansion, stride));
            input = output;
        }
    }
    network.add(next().block(("0", "1"), conv(input, FEATURES, 1), Activation::Relu6))
}

#[derive(Debug)]
struct InvertedResidual {
    blocks: Vec<Block>,
    residual: bool,
}

impl InvertedResidual {
    fn new(scope: &Scope, input: i64, output: i64, expansion: i64, stride: i64) -> Self {
        let scope = scope.at("conv");
        let hidden = input * expansion;
        let mut blocks = Vec::new();
        if expansion != 1 {
            blocks.push(scope.block(("0.0", "0.1"), conv(input, hidden, 1), Activation::Relu6));
        }
        let at = blocks.len();
        let depthwise = conv(hidden, hidden, 3).with_stride(stride).depthwise();
        blocks.push(scope.block((&format!("{at}.0"), &format!("{at}.1")), depthwise, Activation::Relu6));
        let names = (&*format!("{}", at + 1), &*format!("{}", at + 2));
        blocks.push(scope.block(names, conv(hidden, output, 1), Activation::None));
        Self { blocks, residual: stride == 1 && input == output }
    }
}

impl ModuleT for InvertedResidual {
    fn forward_t(&self, x: &Tensor, train: bool) -> Tensor {
        let out = self.blocks.iter().fold(x.shallow_clone(), |x, block| block.forward_t(&x, train));
        if self.residual { x + out } else { out }
    }
}
