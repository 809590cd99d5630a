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
mod recognise;
mod resnet;
mod squeezenet1_1;
#[cfg(test)]
mod tests;
mod torchscript;
mod vit;
mod weights;

pub use compute::Compute;
pub(crate) use groups::{layer_decay, parameter_groups, suggest_group};
pub(crate) use init::standard_normal;
pub(crate) use network::{ImageSize, image_size};
pub use recognise::RecognisedNetwork;
pub(crate) use torchscript::{check_script, script_hash};
pub(crate) use weights::pytorch_tensors;

use crate::data::{Inputs, Layout, View};
use crate::{Error, Result};
use curricle_recipe::{BackboneRecipe, EmbeddingRecipe, EvalRecipe, NormaliseRecipe, VitRecipe};
use curricle_record::WeightsReport;
use curricle_sdk::guard;
use init::Scheme;
use network::Network;
use normalise::Normalise;
use std::collections::HashMap;
use tch::nn::{self, Module, ModuleT};
use tch::{Device, Kind, Tensor};
use torchscript::ScriptModule;
use vit::{TensorSizes, VitWeights};
use weights::WeightsFile;

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
    /// The module of a `torchscript` backbone.
    script: Option<ScriptModule>,
    /// The backbone's settings, complete and without its pretrained weights.
    recipe: BackboneRecipe,
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
        let file = backbone.weights().map(WeightsFile::read).transpose()?;
        let mut model = match (&file, backbone.vit()) {
            (Some(file), Some(vit)) => Self::transformer(file, backbone, vit, embedding, layout)?,
            (Some(file), None) => {
                let mut model = Self::blank(backbone, embedding, layout, None, device)?;
                model.weights = Some(weights::load(file, backbone.name(), &model.backbone_tensors())?);
                model
            }
            (None, _) if backbone.torchscript().is_some() => Self::blank(backbone, embedding, layout, None, device)?,
            (None, _) => {
                let model = Self::blank(backbone, embedding, layout, None, device)?;
                let scheme = match backbone {
                    _ if backbone.vit().is_some() => Scheme::Transformer,
                    _ if backbone.vision().is_some() => Scheme::KaimingFanOut,
                    _ => Scheme::Default,
                };
                init::draw(&model.variables.variables(), BACKBONE, scheme, seed);
                model
            }
        };
        init::draw(&model.variables.variables(), "embedding.", Scheme::Default, seed);
        model.move_to(device);
        Ok(model)
    }

    /// A vision transformer with pretrained weights, which decide about parts of the network.
    fn transformer(
        file: &WeightsFile,
        backbone: &BackboneRecipe,
        vit: &VitRecipe,
        embedding: &EmbeddingRecipe,
        layout: Layout,
    ) -> Result<Self> {
        let network = backbone.name();
        let source = VitWeights::recognise(file, network)?;
        let mut complete = backbone.clone();
        if let Some(settings) = complete.vit_mut() {
            *settings = source.complete(network, vit)?;
        }
        let mut model = Self::blank(&complete, embedding, layout, Some(&source.sizes()), Device::Cpu)?;
        let report = file.copy(network, &model.backbone_tensors(), |name| source.get(name))?;
        let (prefix, publisher) = (source.prefix().to_string(), Some(source.publisher().to_string()));
        model.weights = Some(WeightsReport { prefix, publisher, ..report });
        Ok(model)
    }

    /// The backbone's tensors under their own names.
    fn backbone_tensors(&self) -> HashMap<String, Tensor> {
        let own = |(name, tensor): (String, Tensor)| Some((name.strip_prefix(BACKBONE)?.to_string(), tensor));
        self.variables.variables().into_iter().filter_map(own).collect()
    }

    /// Builds a model and copies saved tensors into it, by name.
    pub fn restore(
        backbone: &BackboneRecipe,
        embedding: &EmbeddingRecipe,
        layout: Layout,
        tensors: &HashMap<String, Tensor>,
        device: Device,
    ) -> Result<Self> {
        let sizes = tensors.iter().filter_map(|(name, tensor)| own_size(name, tensor)).collect();
        let mut model = Self::blank(backbone, embedding, layout, Some(&sizes), device)?;
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

    /// A model on the CPU with uninitialised parameters. Sizes of tensors, if given, decide what settings leave
    /// open. A TorchScript module has the parameters of its file and is on the device.
    fn blank(
        backbone: &BackboneRecipe,
        embedding: &EmbeddingRecipe,
        layout: Layout,
        sizes: Option<&TensorSizes>,
        device: Device,
    ) -> Result<Self> {
        let variables = nn::VarStore::new(Device::Cpu);
        let path = variables.root() / "backbone";
        let mut script = None;
        let Network { module, features } = match (backbone, layout) {
            (BackboneRecipe::Torchscript(recipe), Layout::Images { height, width, .. }) => {
                let (network, module) = torchscript::build(recipe, (height, width), &path, device)?;
                script = Some(module);
                network
            }
            _ => network::build(backbone, layout, sizes, &path)?,
        };
        let config = nn::LinearConfig { ws_init: nn::Init::Const(0.0), ..Default::default() };
        let embedding = nn::linear(variables.root() / "embedding", features, embedding.size, config);
        let mut recipe = backbone.without_weights(normalisation(backbone));
        let normalise = match recipe.normalise() {
            Some(normalise) => Normalise::new(normalise),
            None => Normalise::Symmetric,
        };
        if let BackboneRecipe::Torchscript(script) = &mut recipe {
            torchscript::check_hash(script)?;
        }
        let name = recipe.name();
        if let Some(vit) = recipe.vit_mut() {
            let sizes =
                variables.variables().into_iter().filter_map(|(name, tensor)| own_size(&name, &tensor)).collect();
            *vit = vit::complete(name, vit, &sizes);
        }
        Ok(Self {
            variables,
            network: module,
            embedding,
            normalise,
            compute: Compute::default(),
            takes_images: matches!(layout, Layout::Images { .. }),
            backbone_frozen: false,
            script,
            recipe,
            weights: None,
        })
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

    /// Embeddings of all samples, computed in batches without gradients. Default of the batch size: see
    /// `embedding_batch`.
    pub fn embed(&self, inputs: &Inputs, batch_size: Option<i64>) -> Result<Tensor> {
        self.embed_with(inputs, batch_size, |_, _| ())
    }

    /// The same; `progress` receives the number of samples done and the total.
    pub(crate) fn embed_with(
        &self,
        inputs: &Inputs,
        batch_size: Option<i64>,
        progress: impl FnMut(usize, usize),
    ) -> Result<Tensor> {
        self.evaluated(inputs, batch_size, |batch| self.forward(batch, false), progress)
    }

    /// Precomputes the embedding layer's inputs for all samples. Used as inputs, they skip the backbone. Only
    /// valid while the backbone is frozen.
    pub(crate) fn precompute(
        &self,
        inputs: &Inputs,
        batch_size: Option<i64>,
        progress: impl FnMut(usize, usize),
    ) -> Result<Inputs> {
        self.evaluated(inputs, batch_size, |batch| self.features(batch, false), progress).map(Inputs::Features)
    }

    fn evaluated(
        &self,
        inputs: &Inputs,
        batch_size: Option<i64>,
        compute: impl Fn(&Tensor) -> Tensor,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Tensor> {
        let _no_grad = tch::no_grad_guard();
        let all: Vec<i64> = (0..inputs.len() as i64).collect();
        let batch_size = batch_size.unwrap_or_else(|| embedding_batch(inputs.layout(), self.device()));
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

    /// The backbone's settings: complete, with what its pretrained weights decided, and without their file.
    pub fn backbone(&self) -> &BackboneRecipe {
        &self.recipe
    }

    /// The report on the pretrained weights, if any.
    pub fn weights(&self) -> Option<&WeightsReport> {
        self.weights.as_ref()
    }

    /// Tensors that a forward pass in training changes: running statistics, and buffers of a TorchScript module.
    pub(crate) fn buffers(&self) -> Vec<Tensor> {
        if self.backbone_frozen || self.recipe.vision().is_some_and(|vision| vision.frozen_norm) {
            return Vec::new();
        }
        self.variables.variables().into_values().filter(|tensor| !tensor.requires_grad()).collect()
    }

    /// All parameters and running statistics, sorted by name.
    pub fn tensors(&self) -> Vec<NamedTensor> {
        let mut all: Vec<_> =
            self.variables.variables().into_iter().map(|(name, tensor)| NamedTensor { name, tensor }).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}

/// Pixels to embed at a time on a GPU: 128 images of 224 × 224, whose activations fit into the memory of any.
const GPU_PIXELS: i64 = 128 * 224 * 224;

/// How many samples to embed at a time, unless someone chose. Embeddings depend on it only by rounding.
pub(crate) fn embedding_batch(layout: Layout, device: Device) -> i64 {
    match layout {
        _ if !device.is_cuda() => EvalRecipe::CPU_BATCH,
        Layout::Images { height, width, .. } => (GPU_PIXELS / (height * width).max(1)).clamp(32, 1024),
        Layout::Features { .. } => 1024,
    }
}

/// The names of all tensors that a model of this recipe may have.
pub(crate) fn tensor_names(backbone: &BackboneRecipe, embedding: &EmbeddingRecipe) -> Result<Vec<String>> {
    if let Some(script) = backbone.torchscript() {
        let own = torchscript::names(&script.path)?.into_iter().map(|name| format!("{BACKBONE}{name}"));
        return Ok(own.chain(["embedding.weight".into(), "embedding.bias".into()]).collect());
    }
    let layout = match backbone {
        BackboneRecipe::Linear | BackboneRecipe::Mlp { .. } => Layout::Features { size: 1 },
        _ => Layout::Images { channels: 3, height: 64, width: 64 },
    };
    let mut backbone = backbone.clone();
    let has_file = backbone.weights().is_some();
    if let Some(vit) = backbone.vit_mut().filter(|_| has_file) {
        *vit = vit::with_all_parts(vit);
    }
    let model = Model::blank(&backbone, embedding, layout, None, Device::Cpu)?;
    Ok(model.tensors().into_iter().map(|named| named.name).collect())
}

/// A tensor's name in the backbone and its size; `None` if it is not in the backbone.
fn own_size(name: &str, tensor: &Tensor) -> Option<(String, Vec<i64>)> {
    Some((name.strip_prefix(BACKBONE)?.to_string(), tensor.size()))
}

/// The pixel normalisation: as set in the recipe, or as the backbone's usual weights expect.
pub fn normalisation(backbone: &BackboneRecipe) -> NormaliseRecipe {
    backbone.normalise().cloned().unwrap_or(match backbone {
        BackboneRecipe::BnInception(vision) if vision.weights.is_some() => NormaliseRecipe::CaffeBgr,
        _ if backbone.takes_colour_images() => NormaliseRecipe::Imagenet,
        _ => NormaliseRecipe::Symmetric,
    })
}
