//! Models: a backbone and its embedding layer.

mod bn_inception;
mod compute;
mod conv4;
mod efficientnet_b0;
mod export;
mod groups;
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

pub use compute::Compute;
pub(crate) use groups::{parameter_groups, suggest_group};
pub(crate) use init::standard_normal;
pub(crate) use network::smallest_image;
pub(crate) use weights::pytorch_tensors;

use crate::data::{Inputs, Layout, View};
use crate::{Error, Result};
use curricle_recipe::{BackboneRecipe, EmbeddingRecipe, NormaliseRecipe};
use curricle_record::WeightsReport;
use curricle_sdk::guard;
use init::Scheme;
use network::Network;
use normalise::Normalise;
use std::collections::HashMap;
use tch::nn::{self, Module, ModuleT};
use tch::{Device, Kind, Tensor};

/// Name prefix of the backbone's tensors.
const BACKBONE: &str = "backbone.";

/// A backbone with its embedding layer: inputs in, unit-norm embeddings out.
#[derive(Debug)]
pub struct Model {
    variables: nn::VarStore,
    network: Box<dyn ModuleT>,
    embedding: nn::Linear,
    normalise: Normalise,
    compute: Compute,
    takes_images: bool,
    backbone_frozen: bool,
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
    /// Builds a model for inputs of this layout. Its initial parameters depend only on `seed` and the
    /// pretrained weights, not on the loss, the device or earlier random numbers.
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

    /// Builds a model and copies saved tensors into it, by name.
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
            let saved = tensors.get(&name).ok_or_else(|| Error::MissingTensor(name.clone()))?;
            if saved.size() != tensor.size() {
                let (found, wanted) = (saved.size(), tensor.size());
                return Err(Error::TensorShape { name, found, wanted });
            }
            tensor.copy_(saved);
        }
        model.move_to(device);
        Ok(model)
    }

    /// A model on the CPU with uninitialised parameters.
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
        let compute = Compute::default();
        let (backbone_frozen, weights) = (false, None);
        Ok(Self { variables, network: module, embedding, normalise, compute, takes_images, backbone_frozen, weights })
    }

    fn move_to(&mut self, device: Device) {
        self.variables.set_device(device);
        self.normalise.move_to(device);
    }

    /// Changes how the network computes. Names, values and shapes of parameters do not change.
    pub fn set_compute(&mut self, compute: Compute) {
        self.compute = compute;
        let _no_grad = tch::no_grad_guard();
        for mut tensor in self.variables.variables().into_values().filter(|tensor| tensor.dim() == 4) {
            let arranged = compute.arrange(&tensor.detach());
            tensor.set_data(&arranged);
        }
    }

    /// Unit-norm embeddings `[B, D]` of a batch of images (u8) or features (f32).
    pub fn forward(&self, inputs: &Tensor, train: bool) -> Tensor {
        self.embedded(&self.features(inputs, train))
    }

    /// The embedding layer's inputs for a batch, `[B, F]` in f32. Precomputed features pass through
    /// unchanged.
    pub fn features(&self, inputs: &Tensor, train: bool) -> Tensor {
        let _autocast = self.compute.autocast(self.device());
        if !self.takes_images {
            return self.network.forward_t(inputs, train).to_kind(Kind::Float);
        }
        if inputs.kind() != Kind::Uint8 {
            return inputs.shallow_clone();
        }
        // Bytes are rearranged first, which is cheaper than rearranging floats.
        let pixels = self.compute.arrange(&self.normalise.pixels(&self.compute.arrange(inputs)));
        let forward = |train| self.network.forward_t(&pixels, train).to_kind(Kind::Float);
        if self.backbone_frozen { tch::no_grad(|| forward(false)) } else { forward(train) }
    }

    fn embedded(&self, features: &Tensor) -> Tensor {
        let raw = {
            let _autocast = self.compute.autocast(self.device());
            self.embedding.forward(features)
        };
        let raw = raw.to_kind(Kind::Float);
        let length = raw.norm_scalaropt_dim(2.0, [1i64].as_slice(), true).clamp_min(1e-12);
        raw / length
    }

    /// Freezes or unfreezes the backbone: while frozen, its parameters and statistics do not change, it runs
    /// in evaluation mode, and it gets no gradients.
    pub(crate) fn set_backbone_frozen(&mut self, backbone_frozen: bool) {
        self.backbone_frozen = backbone_frozen;
    }

    /// Freezes the backbone permanently.
    pub(crate) fn freeze(&mut self) {
        self.backbone_frozen = true;
        for named in self.tensors().iter().filter(|named| named.name.starts_with(BACKBONE)) {
            let _ = named.tensor.set_requires_grad(false);
        }
    }

    /// Embeddings of all samples, computed in batches without gradients.
    pub fn embed(&self, inputs: &Inputs, batch_size: i64) -> Result<Tensor> {
        self.embed_with(inputs, batch_size, |_, _| ())
    }

    /// The same; `progress` receives the number of samples done and the total.
    pub(crate) fn embed_with(
        &self,
        inputs: &Inputs,
        batch_size: i64,
        progress: impl FnMut(usize, usize),
    ) -> Result<Tensor> {
        self.evaluated(inputs, batch_size, |batch| self.forward(batch, false), progress)
    }

    /// Precomputes the embedding layer's inputs for all samples. Used as inputs, they skip the backbone. Only
    /// valid while the backbone is frozen.
    pub(crate) fn precompute(&self, inputs: &Inputs, batch_size: i64) -> Result<Inputs> {
        self.evaluated(inputs, batch_size, |batch| self.features(batch, false), |_, _| ()).map(Inputs::Features)
    }

    fn evaluated(
        &self,
        inputs: &Inputs,
        batch_size: i64,
        compute: impl Fn(&Tensor) -> Tensor,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Tensor> {
        let _no_grad = tch::no_grad_guard();
        let all: Vec<i64> = (0..inputs.len() as i64).collect();
        let batches: Vec<Vec<i64>> = all.chunks(batch_size.max(1) as usize).map(<[i64]>::to_vec).collect();
        let torch = |source| Error::Torch { during: "computing embeddings", source };
        let mut parts = Vec::with_capacity(batches.len());
        let (mut done, total) = (0, inputs.len());
        for samples in inputs.feed(&batches, 0, View::Eval, self.device())? {
            let inputs = samples?.inputs;
            done += inputs.size()[0] as usize;
            parts.push(guard(|| Ok(compute(&inputs))).map_err(torch)?);
            progress(done, total);
        }
        Tensor::f_cat(&parts, 0).map_err(|e| torch(e.into()))
    }

    /// The device of the parameters.
    pub fn device(&self) -> Device {
        self.variables.device()
    }

    /// The report on the pretrained weights, if any.
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

/// The names of all tensors in a model of this recipe.
pub(crate) fn tensor_names(backbone: &BackboneRecipe, embedding: &EmbeddingRecipe) -> Result<Vec<String>> {
    let layout = match backbone {
        BackboneRecipe::Linear | BackboneRecipe::Mlp { .. } => Layout::Features { size: 1 },
        _ => Layout::Images { channels: 3, height: 64, width: 64 },
    };
    Ok(Model::blank(backbone, embedding, layout)?.tensors().into_iter().map(|named| named.name).collect())
}

/// The pixel normalisation: as set in the recipe, or as the backbone's usual weights expect.
pub fn normalisation(backbone: &BackboneRecipe) -> NormaliseRecipe {
    let Some(vision) = backbone.vision() else { return NormaliseRecipe::Symmetric };
    vision.normalise.clone().unwrap_or(match backbone {
        BackboneRecipe::BnInception(_) if vision.weights.is_some() => NormaliseRecipe::CaffeBgr,
        _ => NormaliseRecipe::Imagenet,
    })
}
