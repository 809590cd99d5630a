//! Conv4, the usual network for small images in few-shot and metric learning: four blocks of 3×3
//! convolution, batch norm, ReLU and 2×2 max-pooling.

use super::layers::{Activation, Scope, conv};
use super::network::Network;
use tch::Tensor;
use tch::nn::{self, ModuleT};

/// Four halvings must leave at least one pixel.
pub(super) const SMALLEST_IMAGE: i64 = 16;

/// Side of the feature map that is flattened; 2 is what 32-pixel images end with.
const MAP: i64 = 2;

pub(super) fn build(path: &nn::Path, channels: i64, width: i64) -> Network {
    let scope = Scope::new(path.clone(), false);
    let mut blocks = nn::seq_t();
    for block in 1..=4 {
        let input = if block == 1 { channels } else { width };
        let block = scope.at(format!("block{block}"));
        blocks = blocks
            .add(block.block(("conv", "norm"), conv(input, width, 3), Activation::None))
            // Equivalent to ReLU before pooling, gradients included, on a quarter of the values.
            .add_fn(|x| x.max_pool2d(2, 2, 0, 1, false).relu_());
    }
    let module = nn::func_t(move |x, train| pool(&blocks.forward_t(x, train)).flatten(1, -1));
    Network { module: Box::new(module), features: width * MAP * MAP }
}

/// Averages a feature map to `MAP` x `MAP`. Adaptive pooling has no deterministic gradient on CUDA, so it is left to
/// images whose size is not a multiple of 32.
fn pool(map: &Tensor) -> Tensor {
    match map.size()[..] {
        [.., MAP, MAP] => map.shallow_clone(),
        [.., height, width] if height % MAP == 0 && width % MAP == 0 => {
            let kernel = [height / MAP, width / MAP];
            map.avg_pool2d(kernel, kernel, [0, 0], false, true, None::<i64>)
        }
        _ => map.adaptive_avg_pool2d([MAP, MAP]),
    }
}
