//! Fully connected layers with ReLU, for precomputed features.

use super::network::Network;
use tch::nn;

pub(super) fn build(path: &nn::Path, features: i64, hidden: &[i64], dropout: f64) -> Network {
    let mut layers = nn::seq_t();
    let mut input = features;
    for (index, &size) in hidden.iter().enumerate() {
        layers = layers.add(nn::linear(path / format!("layer{}", index + 1), input, size, Default::default()));
        layers = layers.add_fn_t(move |x, train| x.relu().dropout(dropout, train));
        input = size;
    }
    Network { module: Box::new(layers), features: input }
}
