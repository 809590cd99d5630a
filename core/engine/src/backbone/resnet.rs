//! ResNet (He et al., CVPR 2016) as in torchvision: in bottlenecks the 3×3 convolution has the stride.

use super::layers::{Activation, Block, Scope, conv, halve};
use tch::Tensor;
use tch::nn::{self, ModuleT};

/// The variant.
#[derive(Debug, Clone, Copy)]
pub(super) enum Depth {
    D18,
    D34,
    D50,
}

impl Depth {
    fn blocks(self) -> [i64; 4] {
        match self {
            Depth::D18 => [2, 2, 2, 2],
            Depth::D34 | Depth::D50 => [3, 4, 6, 3],
        }
    }

    /// Output channels of a block, as a multiple of its width.
    fn expansion(self) -> i64 {
        if matches!(self, Depth::D50) { 4 } else { 1 }
    }

    /// Channels of the last feature map.
    pub(super) fn features(self) -> i64 {
        512 * self.expansion()
    }
}

pub(super) fn build(root: &Scope, depth: Depth) -> nn::SequentialT {
    let stem = root.block(("conv1", "bn1"), conv(3, 64, 7).with_stride(2), Activation::Relu);
    let mut network = nn::seq_t().add(stem).add_fn(|x| halve(x, 1, false));
    let mut input = 64;
    for (stage, blocks) in depth.blocks().into_iter().enumerate() {
        let width = 64 << stage;
        for index in 0..blocks {
            let stride = if index == 0 && stage > 0 { 2 } else { 1 };
            let scope = root.at(format!("layer{}.{index}", stage + 1));
            network = network.add(Residual::new(&scope, depth, input, width, stride));
            input = width * depth.expansion();
        }
    }
    network
}

#[derive(Debug)]
struct Residual {
    blocks: Vec<Block>,
    /// A 1×1 convolution where the shape changes, else the identity.
    shortcut: Option<Block>,
}

impl Residual {
    fn new(scope: &Scope, depth: Depth, input: i64, width: i64, stride: i64) -> Self {
        let output = width * depth.expansion();
        let layers = match depth {
            Depth::D18 | Depth::D34 => vec![conv(input, width, 3).with_stride(stride), conv(width, width, 3)],
            Depth::D50 => {
                vec![conv(input, width, 1), conv(width, width, 3).with_stride(stride), conv(width, output, 1)]
            }
        };
        let last = layers.len();
        let block = |(number, layer)| {
            let activation = if number == last { Activation::None } else { Activation::Relu };
            scope.block((&format!("conv{number}"), &format!("bn{number}")), layer, activation)
        };
        let blocks = (1..).zip(layers).map(block).collect();
        let changes = stride != 1 || input != output;
        let names = ("downsample.0", "downsample.1");
        let shortcut =
            changes.then(|| scope.block(names, conv(input, output, 1).with_stride(stride), Activation::None));
        Self { blocks, shortcut }
    }
}

impl ModuleT for Residual {
    fn forward_t(&self, x: &Tensor, train: bool) -> Tensor {
        let identity = self.shortcut.as_ref().map_or_else(|| x.shallow_clone(), |block| block.forward_t(x, train));
        let out = self.blocks.iter().fold(x.shallow_clone(), |x, block| block.forward_t(&x, train));
        Activation::Relu.apply(out + identity)
    }
}
