//! Writes a trained model's embeddings of images to a file.

use super::saved::SavedModel;
use crate::backbone::Compute;
use crate::data::{self, Files, Inputs, Layout, LooseImages, Split};
use crate::{Error, Result, tensor_file};
use curricle_record::files;
use std::path::Path;
use tch::{Device, Kind, Tensor};

/// What to embed.
#[derive(Debug, Clone, Copy)]
pub enum EmbedSource<'a> {
    /// Images in a folder or a list file.
    Images(&'a Path),
    /// The training set of the run's data, with its original labels.
    Train,
    /// The test set of the run's data.
    Test,
}

/// Summary of what was embedded.
#[derive(Debug, serde::Serialize)]
pub struct Embedded {
    /// Number of samples.
    pub samples: usize,
    /// Size of the embedding.
    pub dimensions: i64,
    /// Number of classes, if there are labels.
    pub classes: Option<usize>,
}

/// Samples to embed, with their metadata.
struct EmbedInput {
    inputs: Inputs,
    paths: Vec<String>,
    labels: Option<(Vec<i64>, Vec<String>)>,
    query: Option<Vec<bool>>,
}

/// Computes embeddings and writes them with paths, and labels and queries if there are any.
/// `progress` is called with the number of samples done and the total.
pub fn embed(
    saved: &SavedModel,
    source: EmbedSource,
    out: &Path,
    batch_size: Option<i64>,
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
    let json = |names: &[String]| serde_json::to_string(names).map_err(Error::encode("names"));
    let mut tensors = vec![("embeddings".to_string(), embeddings)];
    let mut metadata = tensor_file::Metadata::from([("paths".to_string(), json(&samples.paths)?)]);
    if let Some((labels, names)) = &samples.labels {
        tensors.push(("labels".to_string(), Tensor::from_slice(labels)));
        metadata.insert("classes".to_string(), json(names)?);
    }
    if let Some(query) = &samples.query {
        tensors.push(("query".to_string(), Tensor::from_slice(query)));
    }
    files::write(out, &tensor_file::to_bytes(&tensors, Some(metadata))?)?;
    Ok(embedded)
}

fn samples(saved: &SavedModel, source: EmbedSource) -> Result<EmbedInput> {
    let path = match source {
        EmbedSource::Images(path) => path,
        EmbedSource::Train | EmbedSource::Test => {
            let recipe = saved.recipe.as_ref().ok_or_else(|| {
                Error::Usage("an exported model has no data set; pass a run folder, or images to embed".into())
            })?;
            let dataset = data::load(&recipe.data, &recipe.images)?;
            let train = matches!(source, EmbedSource::Train);
            let Split { inputs, labels, class_names, paths } = if train { dataset.train } else { dataset.test };
            let query = dataset.query.filter(|_| !train);
            return Ok(EmbedInput { inputs, paths, labels: Some((labels, class_names)), query });
        }
    };
    let layout = saved.layout()?;
    if let Layout::Features { .. } = layout {
        return Err(Error::Usage("this model was trained on features and cannot embed images".into()));
    }
    let LooseImages { inputs, paths, labels, class_names } = data::find_images(path, &saved.settings.images)?;
    let inputs = match (layout, inputs) {
        (Layout::Images { channels: 1, height, .. }, Inputs::Files(files)) => grey(&files, &paths, height)?,
        (_, inputs) => inputs,
    };
    Ok(EmbedInput { inputs, paths, labels: labels.map(|labels| (labels, class_names)), query: None })
}

/// Images in files as grey squares `[N, 1, side, side]`, for networks trained on grey images.
fn grey(files: &Files, paths: &[String], side: i64) -> Result<Inputs> {
    let all: Vec<usize> = (0..files.len()).collect();
    let pixels = files.thumbnails(&all, side)?;
    let spread = pixels.amax(1, true) - pixels.amin(1, true);
    let spread = Vec::<i64>::try_from(spread.amax([1, 2, 3], false).to_kind(Kind::Int64))
        .map_err(|e| Error::Torch { during: "reading pixels", source: e.into() })?;
    if let Some(index) = spread.iter().position(|spread| *spread > 0) {
        return Err(Error::Usage(format!(
            "`{}` is a colour image, but this model was trained on grey images\nhelp: convert the images to greyscale",
            paths[index]
        )));
    }
    Ok(Inputs::Images(pixels.narrow(1, 0, 1)))
}
