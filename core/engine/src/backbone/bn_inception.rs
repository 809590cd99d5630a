//! BN-Inception (Ioffe & Szegedy, ICML 2015), the most common backbone in published results.
//!
//! Layers and names follow the ImageNet weights of pretrainedmodels, which came from Caffe:
//! convolutions have a bias as well as batch norm, and max-pooling rounds up.

use super::layers::{Activation, Block, Scope, conv, halve};
use tch::Tensor;
use tch::nn::{self, ModuleT};

/// Channels of the last feature map.
pub(super) const FEATURES: i64 = 1024;

/// One inception module. A branch is given by the channels of its successive convolutions.
struct Module {
    name: &'static str,
    one: Option<i64>,
    three: [i64; 2],
    double_three: [i64; 3],
    pool: Pool,
}

/// The pooling branch.
#[derive(Debug, Clone, Copy)]
enum Pool {
    /// 3×3 average pooling, then a 1×1 convolution with this number of channels.
    Average(i64),
    /// 3×3 max-pooling, then a 1×1 convolution with this number of channels.
    Maximum(i64),
    /// 3×3 max-pooling with stride 2 and no convolution; the other branches have stride 2 too.
    Halve,
}

const MODULES: [Module; 10] = [
    module("3a", Some(64), [64, 64], [64, 96, 96], Pool::Average(32)),
    module("3b", Some(64), [64, 96], [64, 96, 96], Pool::Average(64)),
    module("3c", None, [128, 160], [64, 96, 96], Pool::Halve),
    module("4a", Some(224), [64, 96], [96, 128, 128], Pool::Average(128)),
    module("4b", Some(192), [96, 128], [96, 128, 128], Pool::Average(128)),
    module("4c", Some(160), [128, 160], [128, 160, 160], Pool::Average(128)),
    module("4d", Some(96), [128, 192], [160, 192, 192], Pool::Average(128)),
    module("4e", None, [128, 192], [192, 256, 256], Pool::Halve),
    module("5a", Some(352), [192, 320], [160, 224, 224], Pool::Average(128)),
    module("5b", Some(352), [192, 320], [192, 224, 224], Pool::Maximum(128)),
];

const fn module(name: &'static str, one: Option<i64>, three: [i64; 2], double_three: [i64; 3], pool: Pool) -> Module {
    Module { name, one, three, double_three, pool }
}

pub(super) fn build(root: &Scope) -> nn::SequentialT {
    let mut network = nn::seq_t()
        .add(block(root, "conv1_7x7_s2", 3, 64, 7, 2))
        .add_fn(|x| halve(x, 0, true))
        .add(block(root, "conv2_3x3_reduce", 64, 64, 1, 1))
        .add(block(root, "conv2_3x3", 64, 192, 3, 1))
        .add_fn(|x| halve(x, 0, true));
    let mut input = 192;
    for module in &MODULES {
        let inception = Inception::new(root, module, input);
        input = inception.output;
        network = network.add(inception);
    }
    network
}

fn block(root: &Scope, name: &str, input: i64, output: i64, kernel: i64, stride: i64) -> Block {
    let layer = conv(input, output, kernel).with_stride(stride).with_bias();
    root.block((name, &format!("{name}_bn")), layer, Activation::Relu)
}

#[derive(Debug)]
struct Inception {
    branches: Vec<Vec<Block>>,
    pool: Pool,
    projection: Option<Block>,
    output: i64,
}

impl Inception {
    fn new(root: &Scope, module: &Module, input: i64) -> Self {
        let Module { name, one, three, double_three, pool } = module;
        let at = |layer: &str, input, output, kernel, stride| {
            block(root, &format!("inception_{name}_{layer}"), input, output, kernel, stride)
        };
        let stride = if matches!(pool, Pool::Halve) { 2 } else { 1 };
        let mut branches = Vec::new();
        branches.extend(one.map(|output| vec![at("1x1", input, output, 1, 1)]));
        let [reduced, output] = *three;
        branches.push(vec![at("3x3_reduce", input, reduced, 1, 1), at("3x3", reduced, output, 3, stride)]);
        let [reduced, middle, output_2] = *double_three;
        branches.push(vec![
            at("double_3x3_reduce", input, reduced, 1, 1),
            at("double_3x3_1", reduced, middle, 3, 1),
            at("double_3x3_2", middle, output_2, 3, stride),
        ]);
        let (projection, pooled) = match *pool {
            Pool::Average(channels) | Pool::Maximum(channels) => {
                (Some(at("pool_proj", input, channels, 1, 1)), channels)
            }
            Pool::Halve => (None, input),
        };
        Self { branches, pool: *pool, projection, output: one.unwrap_or(0) + output + output_2 + pooled }
    }
}

impl ModuleT for Inception {
    fn forward_t(&self, x: &Tensor, train: bool) -> Tensor {
        let run = |branch: &Vec<Block>| branch.iter().fold(x.shallow_clone(), |x, block| block.forward_t(&x, train));
        let mut parts: Vec<Tensor> = self.branches.iter().map(run).collect();
        let pooled = match self.pool {
            // Padding counts towards the average, as in Caffe.
            Pool::Average(_) => x.avg_pool2d(3, 1, 1, true, true, None),
            Pool::Maximum(_) => x.max_pool2d(3, 1, 1, 1, true),
            Pool::Halve => halve(x, 0, true),
        };
        parts.push(self.projection.as_ref().map_or_else(|| pooled.shallow_clone(), |b| b.forward_t(&pooled, train)));
        Tensor::cat(&parts, 1)
    }
}
