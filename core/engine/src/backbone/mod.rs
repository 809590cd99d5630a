//! Networks and their embedding layer.

mod conv4;
mod init;
mod mlp;

use crate::data::{Inputs, Layout};
use crate::device::Compute;
use crate::recipe::{BackboneRecipe, EmbeddingRecipe};
use crate::{Error, Result};
use tch::nn::{self, Module, ModuleT};
use tch::{Device, Kind, Tensor};

/// A network with its embedding layer: inputs in, unit-norm embeddings out.
#[derive(Debug)]
pub struct Model {
    variables: nn::VarStore,
    network: Box<dyn ModuleT>,
    embedding: nn::Linear,
    compute: Compute,
}

/// A network without its embedding layer, and how many features it gives.
struct Network {
    module: Box<dyn ModuleT>,
    features: i64,
}

/// One tensor of a model.
#[derive(Debug)]
pub struct NamedTensor {
    /// Its name, e.g. `backbone.block1.conv.weight`.
    pub name: String,
    /// The tensor, shared with the model.
    pub tensor: Tensor,
}

impl Model {
    /// Builds a network for inputs of this layout with initial parameters that depend on `seed` alone:
    /// not on the loss, the device or what was drawn before.
    pub fn build(
        backbone: &BackboneRecipe,
        embedding: &EmbeddingRecipe,
        layout: Layout,
        seed: u64,
        device: Device,
    ) -> Result<Self> {
        let mut variables = nn::VarStore::new(Device::Cpu);
        let network = network(backbone, layout, &(variables.root() / "backbone"))?;
        let config = nn::LinearConfig::default();
        let embedding = nn::linear(variables.root() / "embedding", network.features, embedding.size, config);
        init::draw(&variables.variables(), seed);
        variables.set_device(device);
        Ok(Self { variables, network: network.module, embedding, compute: Compute::default() })
    }

    /// Changes how the network computes. Names, values and shapes of parameters stay.
    pub fn set_compute(&mut self, compute: Compute) {
        self.compute = compute;
        let _no_grad = tch::no_grad_guard();
        for mut tensor in self.variables.variables().into_values().filter(|tensor| tensor.dim() == 4) {
            let arranged = compute.arrange(&tensor.detach());
            tensor.set_data(&arranged);
        }
    }

    /// Unit-norm embeddings `[B, D]` of a batch of pictures (u8) or features (f32).
    pub fn forward(&self, inputs: &Tensor, train: bool) -> Tensor {
        let raw = {
            let _autocast = self.compute.autocast(self.device());
            let features = self.network.forward_t(&normalised(&self.compute.arrange(inputs)), train);
            self.embedding.forward(&features)
        };
        let raw = raw.to_kind(Kind::Float);
        let length = raw.norm_scalaropt_dim(2.0, [1i64].as_slice(), true).clamp_min(1e-12);
        raw / length
    }

    /// Embeddings of the samples `0..count`, computed batch by batch without gradients.
    pub fn embed(&self, inputs: &Inputs, count: i64, batch_size: i64) -> Tensor {
        let _no_grad = tch::no_grad_guard();
        let indices = Tensor::arange(count, (Kind::Int64, self.device()));
        let parts: Vec<_> =
            indices.split(batch_size, 0).iter().map(|batch| self.forward(&inputs.batch(batch), false)).collect();
        Tensor::cat(&parts, 0)
    }

    /// Where the parameters are.
    pub fn device(&self) -> Device {
        self.variables.device()
    }

    /// All parameters and running statistics, sorted by name.
    pub fn tensors(&self) -> Vec<NamedTensor> {
        let mut all: Vec<_> =
            self.variables.variables().into_iter().map(|(name, tensor)| NamedTensor { name, tensor }).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}

/// Pictures scaled to [-1, 1]; features as they are.
fn normalised(inputs: &Tensor) -> Tensor {
    if inputs.kind() == Kind::Uint8 { inputs.to_kind(Kind::Float) / 127.5 - 1.0 } else { inputs.shallow_clone() }
}

fn network(recipe: &BackboneRecipe, layout: Layout, path: &nn::Path) -> Result<Network> {
    match (recipe, layout) {
        (BackboneRecipe::Conv4 { width: filters }, Layout::Images { channels, height, width }) => {
            let smallest = height.min(width);
            if smallest < conv4::SMALLEST_IMAGE {
                return Err(Error::Usage(format!(
                    "backbone `conv4` halves its input four times and needs images of at least {} pixels, not {smallest}",
                    conv4::SMALLEST_IMAGE
                )));
            }
            Ok(conv4::build(path, channels, *filters))
        }
        (BackboneRecipe::Linear, Layout::Features { size }) => {
            Ok(Network { module: Box::new(nn::func_t(|x, _| x.shallow_clone())), features: size })
        }
        (BackboneRecipe::Mlp { hidden, dropout }, Layout::Features { size }) => {
            Ok(mlp::build(path, size, hidden, *dropout))
        }
        (BackboneRecipe::Conv4 { .. }, Layout::Features { .. }) => Err(Error::Usage(
            "backbone `conv4` needs images, and this data source gives features; use `linear` or `mlp`".into(),
        )),
        (BackboneRecipe::Linear | BackboneRecipe::Mlp { .. }, Layout::Images { .. }) => Err(Error::Usage(
            "backbones `linear` and `mlp` need features, and this data source gives images; use `conv4`".into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::Precision;

    fn images() -> Inputs {
        Inputs::Images(Tensor::randint(256, [6, 1, 32, 32], (Kind::Uint8, Device::Cpu)))
    }

    fn model(seed: u64) -> Model {
        let backbone = BackboneRecipe::Conv4 { width: 4 };
        Model::build(&backbone, &EmbeddingRecipe { size: 8 }, images().layout(), seed, Device::Cpu).unwrap()
    }

    #[test]
    fn initial_parameters_depend_on_the_seed_alone() {
        let (a, other) = (model(1), model(2));
        let _ = Tensor::rand([100], (Kind::Float, Device::Cpu));
        let b = model(1);
        let same = |x: &Model, y: &Model| {
            x.tensors().iter().zip(y.tensors()).all(|(p, q)| p.name == q.name && p.tensor == q.tensor)
        };
        assert!(same(&a, &b));
        assert!(!same(&a, &other));
    }

    #[test]
    fn embeddings_have_unit_length_and_do_not_depend_on_the_batch_size() {
        let (model, inputs) = (model(0), images());
        let whole = model.embed(&inputs, 6, 6);
        let parts = model.embed(&inputs, 6, 4);
        assert_eq!(whole.size(), [6, 8]);
        let lengths = whole.norm_scalaropt_dim(2.0, [1i64].as_slice(), false);
        assert!((lengths - 1.0).abs().max().double_value(&[]) < 1e-6);
        assert!((whole - parts).abs().max().double_value(&[]) < 1e-6);
    }

    #[test]
    fn short_numbers_and_layout_change_embeddings_by_rounding_only() {
        // As programs do; short numbers need it on some machines.
        crate::device::set_threads(None).unwrap();
        let (mut model, inputs) = (model(0), images());
        let exact = model.embed(&inputs, 6, 6);
        for (precision, channels_last, tolerance) in [
            (Precision::F32, true, 1e-5),
            (Precision::Bf16, false, 0.05),
            (Precision::Bf16, true, 0.05),
            (Precision::F16, true, 0.01),
            (Precision::F32, false, 1e-9),
        ] {
            model.set_compute(Compute { precision, channels_last });
            let embeddings = model.embed(&inputs, 6, 6);
            assert_eq!(embeddings.kind(), Kind::Float);
            let difference = (embeddings - &exact).abs().max().double_value(&[]);
            assert!(difference < tolerance, "{precision}, channels last {channels_last}: {difference}");
        }
    }

    #[test]
    fn a_network_that_does_not_fit_its_inputs_is_refused() {
        let layout = images().layout();
        let wrong = Model::build(&BackboneRecipe::Linear, &EmbeddingRecipe { size: 8 }, layout, 0, Device::Cpu);
        assert!(wrong.unwrap_err().to_string().contains("use `conv4`"));
    }
}
