//! A set of labelled samples, and subsets of it.

use crate::{Error, Result};
use tch::{Device, Tensor};

/// The shape of one sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// A picture.
    Images {
        /// 1 for grey, 3 for colour.
        channels: i64,
        /// Pixels.
        height: i64,
        /// Pixels.
        width: i64,
    },
    /// A vector of features.
    Features {
        /// Its length.
        size: i64,
    },
}

/// What the network sees of each sample.
#[derive(Debug)]
pub enum Inputs {
    /// Grey or colour pictures `[N, C, H, W]`, u8.
    Images(Tensor),
    /// Precomputed features `[N, F]`, f32.
    Features(Tensor),
}

impl Inputs {
    /// The tensor that holds all samples.
    pub fn tensor(&self) -> &Tensor {
        match self {
            Inputs::Images(t) | Inputs::Features(t) => t,
        }
    }

    /// The same on another device.
    pub fn to_device(&self, device: Device) -> Self {
        self.with(self.tensor().to_device(device))
    }

    /// The shape of one sample.
    pub fn layout(&self) -> Layout {
        let size = self.tensor().size();
        match self {
            Inputs::Images(_) => Layout::Images { channels: size[1], height: size[2], width: size[3] },
            Inputs::Features(_) => Layout::Features { size: size[1] },
        }
    }

    /// These samples (`[B]`, i64, on the same device) as they are: pictures in u8, features in f32.
    /// The model turns pictures into what its network expects.
    pub fn batch(&self, indices: &Tensor) -> Tensor {
        self.tensor().index_select(0, indices)
    }

    /// A copy of some samples, in the order given.
    pub fn select(&self, samples: &[usize]) -> Result<Self> {
        let indices: Vec<i64> = samples.iter().map(|s| *s as i64).collect();
        let select = || self.tensor().f_index_select(0, &Tensor::f_from_slice(&indices)?.f_to(self.tensor().device())?);
        select().map(|t| self.with(t)).map_err(|e| Error::Torch { during: "selecting samples", source: e.into() })
    }

    /// The same samples without a copy: both share their memory.
    pub fn share(&self) -> Self {
        self.with(self.tensor().shallow_clone())
    }

    fn with(&self, tensor: Tensor) -> Self {
        match self {
            Inputs::Images(_) => Inputs::Images(tensor),
            Inputs::Features(_) => Inputs::Features(tensor),
        }
    }
}

/// A set of labelled samples, such as one side of a class-disjoint split.
#[derive(Debug)]
pub struct Part {
    /// What the network sees.
    pub inputs: Inputs,
    /// The class of each sample, from 0 to C-1. Every class has at least one sample.
    pub labels: Vec<i64>,
    /// The name of each class.
    pub class_names: Vec<String>,
    /// A name for each sample: its path, or what stands for it.
    pub paths: Vec<String>,
}

impl Part {
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

    /// A copy of some samples, in the order given. Classes that are left without a sample
    /// disappear and the labels of the others close the gap, in the same order: losses and weight
    /// schemes rely on every class having samples.
    pub fn select(&self, samples: &[usize]) -> Result<Part> {
        if let Some(sample) = samples.iter().find(|s| **s >= self.len()) {
            return Err(Error::Failed(format!("sample {sample} was selected, but there are only {}", self.len())));
        }
        let labels: Vec<i64> = samples.iter().map(|s| self.labels[*s]).collect();
        let (labels, class_names) = close_gaps(&labels, &self.class_names);
        Ok(Part {
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

/// A part whose features are the sample numbers, for tests.
#[cfg(test)]
pub(crate) fn numbered(labels: &[i64]) -> Part {
    let classes = labels.iter().max().map_or(0, |m| m + 1);
    let features: Vec<f32> = (0..labels.len()).map(|s| s as f32).collect();
    Part {
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
    fn a_selection_keeps_order_and_closes_gaps() {
        let part = numbered(&[0, 0, 1, 1, 2, 2]);
        let selected = part.select(&[5, 0, 4]).unwrap();
        assert_eq!(selected.labels, [1, 0, 1]);
        assert_eq!(selected.class_names, ["class 0", "class 2"]);
        assert_eq!(selected.paths, ["folder/5.jpg", "folder/0.jpg", "folder/4.jpg"]);
        assert_eq!(Vec::<f32>::try_from(selected.inputs.tensor().flatten(0, -1)).unwrap(), [5.0, 0.0, 4.0]);
        assert_eq!(selected.class_sizes(), [1, 2]);
        assert!(part.select(&[]).unwrap().is_empty());
    }

    #[test]
    fn a_sample_that_does_not_exist_is_an_error() {
        let message = numbered(&[0, 1]).select(&[2]).unwrap_err().to_string();
        assert_eq!(message, "sample 2 was selected, but there are only 2");
    }
}
