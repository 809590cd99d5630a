//! Sets of labelled samples.

use super::files::Files;
use crate::{Error, Result};
use std::fmt;
use tch::{Device, Kind, Tensor};

/// The shape of one sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// An image.
    Images {
        /// 1 for grey, 3 for colour.
        channels: i64,
        /// In pixels.
        height: i64,
        /// In pixels.
        width: i64,
    },
    /// A vector of features.
    Features {
        /// Its length.
        size: i64,
    },
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Layout::Images { channels, height, width } => write!(f, "{channels} x {height} x {width} pixels"),
            Layout::Features { size } => write!(f, "{size} features"),
        }
    }
}

/// The network's inputs, one per sample.
#[derive(Debug)]
pub enum Inputs {
    /// Grey or colour images `[N, C, H, W]`, u8.
    Images(Tensor),
    /// Precomputed features `[N, F]`, f32.
    Features(Tensor),
    /// Colour images in files.
    Files(Files),
}

impl Inputs {
    /// Number of samples.
    pub fn len(&self) -> usize {
        match self {
            Inputs::Images(tensor) | Inputs::Features(tensor) => tensor.size()[0] as usize,
            Inputs::Files(files) => files.len(),
        }
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tensor that holds all samples, if they are in memory.
    pub fn tensor(&self) -> Option<&Tensor> {
        match self {
            Inputs::Images(tensor) | Inputs::Features(tensor) => Some(tensor),
            Inputs::Files(_) => None,
        }
    }

    /// Whether both are the same files in the same order, which the network sees in the same way.
    pub(crate) fn same_files(&self, other: &Self) -> bool {
        matches!((self, other), (Inputs::Files(one), Inputs::Files(two)) if one.is_same(two))
    }

    /// Moves tensors to a device. Files are unaffected; their batches are moved when they are loaded.
    pub fn to_device(&self, device: Device) -> Self {
        self.map(|tensor| tensor.to_device(device))
    }

    /// The shape of one sample.
    pub fn layout(&self) -> Layout {
        match self {
            Inputs::Images(tensor) => {
                let size = tensor.size();
                Layout::Images { channels: size[1], height: size[2], width: size[3] }
            }
            Inputs::Features(tensor) => Layout::Features { size: tensor.size()[1] },
            Inputs::Files(files) => {
                let side = files.settings().size as i64;
                Layout::Images { channels: 3, height: side, width: side }
            }
        }
    }

    /// A copy of some samples, in the given order.
    pub fn select(&self, samples: &[usize]) -> Result<Self> {
        match self {
            Inputs::Images(tensor) => Ok(Inputs::Images(select_rows(tensor, samples)?)),
            Inputs::Features(tensor) => Ok(Inputs::Features(select_rows(tensor, samples)?)),
            Inputs::Files(files) => Ok(Inputs::Files(files.select(samples))),
        }
    }

    /// The same samples in shared memory.
    pub fn share(&self) -> Self {
        self.map(Tensor::shallow_clone)
    }

    /// Thumbnails of some samples: the central square of each as u8 `[n, C, side, side]` on the CPU. `None`
    /// if the samples are not images.
    pub(crate) fn thumbnails(&self, samples: &[usize], side: i64) -> Result<Option<Tensor>> {
        match self {
            Inputs::Images(tensor) => {
                square(&select_rows(tensor, samples)?, side).map(Some).map_err(during("making thumbnails"))
            }
            Inputs::Features(_) => Ok(None),
            Inputs::Files(files) => files.thumbnails(samples, side).map(Some),
        }
    }

    /// The thumbnail size that shows full resolution, but at most `largest`.
    pub(crate) fn thumbnail_side(&self, largest: i64) -> i64 {
        match self {
            Inputs::Images(tensor) => tensor.size()[2].min(tensor.size()[3]).min(largest),
            Inputs::Features(_) | Inputs::Files(_) => largest,
        }
    }

    fn map(&self, change: impl FnOnce(&Tensor) -> Tensor) -> Self {
        match self {
            Inputs::Images(tensor) => Inputs::Images(change(tensor)),
            Inputs::Features(tensor) => Inputs::Features(change(tensor)),
            Inputs::Files(files) => Inputs::Files(files.clone()),
        }
    }
}

fn during(during: &'static str) -> impl FnOnce(tch::TchError) -> Error {
    move |e| Error::Torch { during, source: e.into() }
}

pub(super) fn select_rows(tensor: &Tensor, samples: &[usize]) -> Result<Tensor> {
    let indices: Vec<i64> = samples.iter().map(|s| *s as i64).collect();
    let select = || tensor.f_index_select(0, &Tensor::f_from_slice(&indices)?.f_to(tensor.device())?);
    select().map_err(during("selecting samples"))
}

/// The central squares of images, resized.
fn square(images: &Tensor, side: i64) -> Result<Tensor, tch::TchError> {
    let images = images.f_to_device(Device::Cpu)?;
    let (height, width) = (images.size()[2], images.size()[3]);
    let shorter = height.min(width);
    let images = images.f_narrow(2, (height - shorter) / 2, shorter)?.f_narrow(3, (width - shorter) / 2, shorter)?;
    if shorter == side {
        return Ok(images);
    }
    let resized = images.f_to_kind(Kind::Float)?.f_internal_upsample_bilinear2d_aa([side, side], false, None, None)?;
    resized.f_round()?.f_to_kind(Kind::Uint8)
}

/// A set of labelled samples, such as the training or test split.
#[derive(Debug)]
pub struct Split {
    /// The network's inputs.
    pub inputs: Inputs,
    /// The class of each sample, from 0 to C-1. Every class has at least one sample.
    pub labels: Vec<i64>,
    /// The name of each class.
    pub class_names: Vec<String>,
    /// A name for each sample: its path, or a substitute for it.
    pub paths: Vec<String>,
}

impl Split {
    /// Number of samples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Number of samples in each class.
    pub fn class_sizes(&self) -> Vec<usize> {
        self.members().iter().map(Vec::len).collect()
    }

    /// The samples of each class, in ascending order.
    pub fn members(&self) -> Vec<Vec<usize>> {
        let mut members = vec![Vec::new(); self.class_names.len()];
        for (sample, label) in self.labels.iter().enumerate() {
            members[*label as usize].push(sample);
        }
        members
    }

    /// A copy of some samples, in the given order. Classes without samples are dropped, and the others
    /// are renumbered in the same order: losses and weight schemes rely on every class having samples.
    pub fn select(&self, samples: &[usize]) -> Result<Split> {
        if let Some(sample) = samples.iter().find(|s| **s >= self.len()) {
            return Err(Error::Failed(format!("sample {sample} was selected, but there are only {}", self.len())));
        }
        let labels: Vec<i64> = samples.iter().map(|s| self.labels[*s]).collect();
        let (labels, class_names) = close_gaps(&labels, &self.class_names);
        Ok(Split {
            inputs: self.inputs.select(samples)?,
            labels,
            class_names,
            paths: samples.iter().map(|s| self.paths[*s].clone()).collect(),
        })
    }
}

/// Drops the classes without samples and renumbers the others in the same order.
pub(super) fn close_gaps(labels: &[i64], class_names: &[String]) -> (Vec<i64>, Vec<String>) {
    let mut used = vec![false; class_names.len()];
    labels.iter().for_each(|label| used[*label as usize] = true);
    let mut number = vec![0; class_names.len()];
    let mut names = Vec::new();
    for class in (0..class_names.len()).filter(|class| used[*class]) {
        number[class] = names.len() as i64;
        names.push(class_names[class].clone());
    }
    (labels.iter().map(|label| number[*label as usize]).collect(), names)
}

/// Samples whose features are their indices, for tests.
#[cfg(test)]
pub(crate) fn numbered(labels: &[i64]) -> Split {
    let classes = labels.iter().max().map_or(0, |m| m + 1);
    let features: Vec<f32> = (0..labels.len()).map(|s| s as f32).collect();
    Split {
        inputs: Inputs::Features(Tensor::from_slice(&features).unsqueeze(1)),
        labels: labels.to_vec(),
        class_names: (0..classes).map(|c| format!("class {c}")).collect(),
        paths: (0..labels.len()).map(|s| format!("folder/{s}.jpg")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_keeps_the_order_and_drops_empty_classes() {
        let split = numbered(&[0, 0, 1, 1, 2, 2]);
        let selected = split.select(&[5, 0, 4]).unwrap();
        assert_eq!(selected.labels, [1, 0, 1]);
        assert_eq!(selected.class_names, ["class 0", "class 2"]);
        assert_eq!(selected.paths, ["folder/5.jpg", "folder/0.jpg", "folder/4.jpg"]);
        assert_eq!(Vec::<f32>::try_from(selected.inputs.tensor().unwrap().flatten(0, -1)).unwrap(), [5.0, 0.0, 4.0]);
        assert_eq!(selected.class_sizes(), [1, 2]);
        assert!(split.select(&[]).unwrap().is_empty());
    }

    #[test]
    fn a_sample_that_does_not_exist_is_an_error() {
        let message = numbered(&[0, 1]).select(&[2]).unwrap_err().to_string();
        assert_eq!(message, "sample 2 was selected, but there are only 2");
    }
}
