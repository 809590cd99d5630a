//! Model export: TorchScript, and tensors under their original names.

use super::torchscript::ScriptModule;
use super::{BACKBONE, Model};
use crate::{Error, Result};
use curricle_record::files;
use curricle_sdk::guard;
use std::path::Path;
use tch::{CModule, Device, Kind, Tensor};

/// What follows the normalisation, as `Model::embedded` computes it.
const EMBEDDED: &str = "    x = torch.linear(self.backbone.forward(x), self.weight, self.bias)
    return x / torch.clamp_min(torch.norm(x, 2, [1], True), 1e-12)
";

impl Model {
    /// Unit-norm embeddings of images in [0, 1] (f32, RGB), or of features.
    pub(crate) fn forward_unit(&self, inputs: &Tensor) -> Tensor {
        let inputs = if self.takes_images { self.normalise.unit(inputs) } else { inputs.shallow_clone() };
        self.embedded(&self.network.forward_t(&inputs, false))
    }

    /// Writes the whole model, including pixel normalisation, as TorchScript: f32 images
    /// `[B, C, H, W]` in [0, 1] (or features) in, unit-norm embeddings out. `example` is the shape of
    /// one input; the exported model accepts any batch size.
    ///
    /// The model must be on the CPU, and cannot be trained afterwards.
    pub(crate) fn save_torchscript(&mut self, path: &Path, example: &[i64]) -> Result<()> {
        // Tracing turns parameters into constants, which must not require gradients.
        self.variables.freeze();
        let _no_grad = tch::no_grad_guard();
        let traced = |source| Error::Torch { during: "writing TorchScript", source };
        if let Some(module) = &self.script {
            let bytes = bytes_written_by(|temporary| {
                self.save_around(module, temporary).map_err(|error| traced(error.into()))
            })?;
            return Ok(files::write(path, &bytes)?);
        }
        let module = guard(|| {
            let shape: Vec<i64> = [2].iter().chain(example).copied().collect();
            let example = Tensor::full(shape, 0.5, (Kind::Float, Device::Cpu));
            let mut forward = |inputs: &[Tensor]| vec![self.forward_unit(&inputs[0])];
            Ok(CModule::create_by_tracing("curricle", "forward", &[example], &mut forward)?)
        })
        .map_err(traced)?;
        let bytes = bytes_written_by(|temporary| module.save(temporary).map_err(|e| traced(e.into())))?;
        Ok(files::write(path, &bytes)?)
    }

    /// Writes a module that has another one in it, which tracing cannot inline.
    fn save_around(&self, module: &ScriptModule, path: &Path) -> Result<(), tch::TchError> {
        let source = self.normalise.source() + EMBEDDED;
        let mut tensors = self.normalise.tensors();
        tensors.push(("weight", &self.embedding.ws));
        tensors.extend(self.embedding.bs.as_ref().map(|bias| ("bias", bias)));
        module.with(|script| script.save_around(&source, &tensors, path))
    }

    /// All tensors, those of the backbone under their original names.
    pub(crate) fn original_tensors(&self) -> Vec<(String, Tensor)> {
        let original = |name: &str| name.strip_prefix(BACKBONE).unwrap_or(name).to_string();
        self.tensors().into_iter().map(|named| (original(&named.name), named.tensor)).collect()
    }
}

/// The bytes that libtorch writes to a path. On a full disk libtorch would end the program, so it
/// writes to a temporary folder rather than where the file is wanted.
fn bytes_written_by(write: impl FnOnce(&Path) -> Result<()>) -> Result<Vec<u8>> {
    // TorchScript takes its name from the file's, which must not begin with a dot.
    let temporary = tempfile::Builder::new().prefix("curricle-").suffix(".tmp").tempfile();
    let temporary = temporary.map_err(Error::file("create", std::env::temp_dir()))?;
    write(temporary.path())?;
    std::fs::read(temporary.path()).map_err(Error::file("read", temporary.path()))
}
