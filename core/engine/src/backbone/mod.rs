//! Networks and their embedding layer.

mod bn_inception;
mod conv4;
mod efficientnet_b0;
mod export;
mod init;
mod layers;
mod mlp;
mod mobilenet_v2;
mod network;
mod normalise;
mod resnet;
mod squeezenet1_1;
#[cfg(test)]
mod tests;
mod weights;

pub use weights::WeightsReport;

use crate::data::{Inputs, Layout};
use crate::recipe::{BackboneRecipe, EmbeddingRecipe, NormaliseRecipe};
use crate::{Error, Result};
use init::Scheme;
use network::Network;
use normalise::Normalise;
use std::collections::HashMap;
use tch::nn::{self, Module, ModuleT};
use tch::{Device, Kind, Tensor};

/// What stands before the names of a network's tensors.
const BACKBONE: &str = "backbone.";

/// A network with its embedding layer: inputs in, unit-norm embeddings out.
#[derive(Debug)]
pub struct Model {
    variables: nn::VarStore,
    network: Box<dyn ModuleT>,
    embedding: nn::Linear,
    normalise: Normalise,
    takes_images: bool,
    resting: bool,
    weights: Option<WeightsReport>,
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
    /// Builds a network for inputs of this layout. Its initial parameters depend on `seed` and on
    /// the pretrained weights alone: not on the loss, the device or what was drawn before.
    pub fn build(
        backbone: &BackboneRecipe,
        embedding: &EmbeddingRecipe,
        layout: Layout,
        seed: u64,
        device: Device,
    ) -> Result<Self> {
        let mut model = Self::blank(backbone, embedding, layout)?;
        let tensors = model.variables.variables();
        init::draw(&tensors, "embedding.", Scheme::Default, seed);
        let pretrained = backbone.vision().and_then(|vision| vision.weights.as_deref());
        match pretrained {
            Some(path) => {
                let wanted = tensors.iter().filter_map(|(name, tensor)| {
                    Some((name.strip_prefix(BACKBONE)?.to_string(), tensor.shallow_clone()))
                });
                model.weights = Some(weights::load(path, backbone.name(), &wanted.collect::<HashMap<_, _>>())?);
            }
            None => {
                let scheme = if backbone.vision().is_some() { Scheme::KaimingFanOut } else { Scheme::Default };
                init::draw(&tensors, BACKBONE, scheme, seed);
            }
        }
        model.move_to(device);
        Ok(model)
    }

    /// Builds a network and gives it the tensors of another model, by name.
    pub fn restore(
        backbone: &BackboneRecipe,
        embedding: &EmbeddingRecipe,
        layout: Layout,
        tensors: &HashMap<String, Tensor>,
        device: Device,
    ) -> Result<Self> {
        let mut model = Self::blank(backbone, embedding, layout)?;
        let _no_grad = tch::no_grad_guard();
        for NamedTensor { name, mut tensor } in model.tensors() {
            let saved = tensors.get(&name).ok_or_else(|| Error::Failed(format!("the model has no tensor `{name}`")))?;
            if saved.size() != tensor.size() {
                let (found, wanted) = (saved.size(), tensor.size());
                return Err(Error::Failed(format!("the model's `{name}` has shape {found:?} instead of {wanted:?}")));
            }
            tensor.copy_(saved);
        }
        model.move_to(device);
        Ok(model)
    }

    /// A model on the CPU whose parameters have no values to speak of.
    fn blank(backbone: &BackboneRecipe, embedding: &EmbeddingRecipe, layout: Layout) -> Result<Self> {
        let variables = nn::VarStore::new(Device::Cpu);
        let Network { module, features } = network::build(backbone, layout, &(variables.root() / "backbone"))?;
        let config = nn::LinearConfig { ws_init: nn::Init::Const(0.0), ..Default::default() };
        let embedding = nn::linear(variables.root() / "embedding", features, embedding.size, config);
        let normalise = match backbone.vision() {
            Some(_) => Normalise::new(&normalisation(backbone)),
            None => Normalise::Symmetric,
        };
        let takes_images = matches!(layout, Layout::Images { .. });
        Ok(Self { variables, network: module, embedding, normalise, takes_images, resting: false, weights: None })
    }

    fn move_to(&mut self, device: Device) {
        self.variables.set_device(device);
        self.normalise.move_to(device);
    }

    /// Unit-norm embeddings `[B, D]` of a batch of pictures (u8) or features (f32).
    pub fn forward(&self, inputs: &Tensor, train: bool) -> Tensor {
        self.embedded(&self.features(inputs, train))
    }

    /// What the embedding layer sees of a batch `[B, F]`. Features that were computed before pass
    /// through as they are.
    pub fn features(&self, inputs: &Tensor, train: bool) -> Tensor {
        if !self.takes_images {
            return self.network.forward_t(inputs, train);
        }
        if inputs.kind() != Kind::Uint8 {
            return inputs.shallow_clone();
        }
        let forward = |train| self.network.forward_t(&self.normalise.pixels(inputs), train);
        if self.resting { tch::no_grad(|| forward(false)) } else { forward(train) }
    }

    fn embedded(&self, features: &Tensor) -> Tensor {
        let raw = self.embedding.forward(features);
        let length = raw.norm_scalaropt_dim(2.0, [1i64].as_slice(), true).clamp_min(1e-12);
        raw / length
    }

    /// Lets the network rest, or wakes it up again: at rest none of its parameters and statistics
    /// change, it behaves as in evaluation, and no gradients are computed for it.
    pub fn rest(&mut self, resting: bool) {
        self.resting = resting;
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

    /// The pretrained weights, if there are any.
    pub fn weights(&self) -> Option<&WeightsReport> {
        self.weights.as_ref()
    }

    /// All parameters and running statistics, sorted by name.
    pub fn tensors(&self) -> Vec<NamedTensor> {
        let mut all: Vec<_> =
            self.variables.variables().into_iter().map(|(name, tensor)| NamedTensor { name, tensor }).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}

/// The names of all tensors that a model of this recipe has.
pub fn tensor_names(backbone: &BackboneRecipe, embedding: &EmbeddingRecipe) -> Result<Vec<String>> {
    let layout = match backbone {
        BackboneRecipe::Linear | BackboneRecipe::Mlp { .. } => Layout::Features { size: 1 },
        _ => Layout::Images { channels: 3, height: 64, width: 64 },
    };
    Ok(Model::blank(backbone, embedding, layout)?.tensors().into_iter().map(|named| named.name).collect())
}

/// What a network's pixels go through: as the recipe says, or as its usual weights expect.
pub fn normalisation(backbone: &BackboneRecipe) -> NormaliseRecipe {
    let Some(vision) = backbone.vision() else { return NormaliseRecipe::Symmetric };
    vision.normalise.clone().unwrap_or(match backbone {
        BackboneRecipe::BnInception(_) if vision.weights.is_some() => NormaliseRecipe::CaffeBgr,
        _ => NormaliseRecipe::Imagenet,
    })
}
