//! EfficientNet-B0 (Tan & Le, ICML 2019).

use super::layers::{Activation, Block, Scope, conv};
use tch::nn::{self, Module, ModuleT};
use tch::{Kind, Tensor};

/// Channels of the last feature map.
pub(super) const FEATURES: i64 = 1280;

/// Stochastic depth: the drop probability of the last block, which decreases linearly towards the first.
const DROPPED: f64 = 0.2;

/// Expansion, kernel, first stride, channels and blocks of each stage.
const STAGES: [(i64, i64, i64, i64, i64); 7] = [
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
];

pub(super) fn build(root: &Scope) -> nn::SequentialT {
    let total: i64 = STAGES.iter().map(|stage| stage.4).sum();
    let stem = root.at("features.0").block(("0", "1"), conv(3, 32, 3).with_stride(2), Activation::Silu);
    let mut network = nn::seq_t().add(stem);
    let (mut input, mut number) = (32, 0);
    for (stage, (expansion, kernel, stride, output, blocks)) in STAGES.into_iter().enumerate() {
        for index in 0..blocks {
            let shape = StageShape { input, output, expansion, kernel, stride: if index == 0 { stride } else { 1 } };
            let dropped = DROPPED * number as f64 / total as f64;
            network = network.add(MbConv::new(&root.at(format!("features.{}.{index}", stage + 1)), shape, dropped));
            input = output;
            number += 1;
        }
    }
    network.add(root.at("features.8").block(("0", "1"), conv(input, FEATURES, 1), Activation::Silu))
}

#[derive(Clone, Copy)]
struct StageShape {
    input: i64,
    output: i64,
    expansion: i64,
    kernel: i64,
    stride: i64,
}

/// Expansion, depthwise convolution, squeeze and excitation, projection.
#[derive(Debug)]
struct MbConv {
    before: Vec<Block>,
    excitation: [nn::Conv2D; 2],
    project: Block,
    residual: bool,
    dropped: f64,
}

impl MbConv {
    fn new(scope: &Scope, shape: StageShape, dropped: f64) -> Self {
        let scope = scope.at("block");
        let StageShape { input, output, expansion, kernel, stride } = shape;
        let hidden = input * expansion;
        let mut before = Vec::new();
        if expansion != 1 {
            before.push(scope.at("0").block(("0", "1"), conv(input, hidden, 1), Activation::Silu));
        }
        let depthwise = conv(hidden, hidden, kernel).with_stride(stride).depthwise();
        before.push(scope.at(before.len()).block(("0", "1"), depthwise, Activation::Silu));
        let squeezed = (input / 4).max(1);
        let excitation = scope.at(before.len());
        let excitation = [
            excitation.at("fc1").conv(conv(hidden, squeezed, 1).with_bias()),
            excitation.at("fc2").conv(conv(squeezed, hidden, 1).with_bias()),
        ];
        let project = scope.at(before.len() + 1).block(("0", "1"), conv(hidden, output, 1), Activation::None);
        Self { before, excitation, project, residual: stride == 1 && input == output, dropped }
    }
}

impl ModuleT for MbConv {
    fn forward_t(&self, x: &Tensor, train: bool) -> Tensor {
        let hidden = self.before.iter().fold(x.shallow_clone(), |x, block| block.forward_t(&x, train));
        let [squeeze, excite] = &self.excitation;
        let scale = excite.forward(&squeeze.forward(&hidden.adaptive_avg_pool2d([1, 1])).silu()).sigmoid();
        let out = self.project.forward_t(&(hidden * scale), train);
        match self.residual {
            true if train && self.dropped > 0.0 => x + stochastic_depth(&out, self.dropped),
            true => x + out,
            false => out,
        }
    }
}

/// Drops the whole block for some samples, and scales the others up to preserve the mean.
fn stochastic_depth(x: &Tensor, dropped: f64) -> Tensor {
    let kept = 1.0 - dropped;
    let mut mask = Tensor::empty([x.size()[0], 1, 1, 1], (Kind::Float, x.device()));
    x * (mask.bernoulli_float_(kept) / kept).to_kind(x.kind())
}
