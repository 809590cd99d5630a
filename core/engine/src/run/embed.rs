//! Embeddings of pictures by a trained model, in a file.

use super::saved::SavedModel;
use crate::backbone::Compute;
use crate::data::{self, Inputs, Layout, Part};
use crate::{Error, Result, tensor_file};
use curricle_record::files;
use std::path::Path;
use tch::{Device, Kind, Tensor};

/// What to embed.
#[derive(Debug, Clone, Copy)]
pub enum EmbedSource<'a> {
    /// Pictures in a folder, or in a list.
    Images(&'a Path),
    /// The training classes of the run's own data, with their original labels.
    Train,
    /// The test classes of the run's own data.
    Test,
}

/// What was embedded.
#[derive(Debug, serde::Serialize)]
pub struct Embedded {
    /// Samples.
    pub samples: usize,
    /// Size of the embedding.
    pub dimensions: i64,
    /// Different labels, if there are labels.
    pub classes: Option<usize>,
}

/// Samples to embed, with what is known of them.
struct Unembedded {
    inputs: Inputs,
    paths: Vec<String>,
    labels: Option<(Vec<i64>, Vec<String>)>,
    query: Option<Vec<bool>>,
}

/// Computes embeddings and writes them with paths, labels and queries, as far as these are known.
/// `progress` is told how many samples are done, of how many.
pub fn embed(
    saved: &SavedModel,
    source: EmbedSource,
    out: &Path,
    batch_size: i64,
    device: Device,
    progress: impl FnMut(usize, usize),
) -> Result<Embedded> {
    let samples = samples(saved, source)?;
    let mut model = saved.build(device)?;
    model.set_compute(Compute::exact(saved.layout()?, device));
    let embeddings = model.embed_with(&samples.inputs.to_device(device), batch_size, progress)?;
    let embeddings = embeddings.to_kind(Kind::Float);
    let embedded = Embedded {
        samples: samples.inputs.len(),
        dimensions: embeddings.size()[1],
        classes: samples.labels.as_ref().map(|(_, names)| names.len()),
    };
    let json = |names: &[String]| serde_json::to_string(names).map_err(|e| Error::Failed(e.to_string()));
    let mut tensors = vec![("embeddings".to_string(), embeddings)];
    let mut said = tensor_file::Metadata::from([("paths".to_string(), json(&samples.paths)?)]);
    if let Some((labels, names)) = &samples.labels {
        tensors.push(("labels".to_string(), Tensor::from_slice(labels)));
        said.insert("classes".to_string(), json(names)?);
    }
    if let Some(query) = &samples.query {
        tensors.push(("query".to_string(), Tensor::from_slice(query)));
    }
    files::write(out, &tensor_file::to_bytes(&tensors, Some(said))?)?;
    Ok(embedded)
}

fn samples(saved: &SavedModel, source: EmbedSource) -> Result<Unembedded> {
    let path = match source {
        EmbedSource::Images(path) => path,
        EmbedSource::Train | EmbedSource::Test => {
            let recipe = saved.recipe.as_ref().ok_or_else(|| {
                Error::Usage("an exported model does not know its data; name a run's folder, or pictures".into())
            })?;
            let dataset = data::load(&recipe.data, &recipe.images)?;
            let train = matches!(source, EmbedSource::Train);
            let Part { inputs, labels, class_names, paths } = if train { dataset.train } else { dataset.test };
            let query = dataset.query.filter(|_| !train);
            return Ok(Unembedded { inputs, paths, labels: Some((labels, class_names)), query });
        }
    };
    match saved.layout()? {
        Layout::Images { channels: 3, .. } => {}
        Layout::Images { .. } => {
            return Err(Error::Usage("this model was trained on grey pictures and cannot read coloured files".into()));
        }
        Layout::Features { .. } => {
            return Err(Error::Usage("this model was trained on features and cannot read pictures".into()));
        }
    }
    let pictures = data::pictures(path, &saved.settings.images)?;
    let labels = pictures.labels.map(|labels| (labels, pictures.class_names));
    Ok(Unembedded { inputs: pictures.inputs, paths: pictures.paths, labels, query: None })
}
