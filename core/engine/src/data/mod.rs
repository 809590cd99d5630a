//! Data sets, splits and label noise.

use tch::{Device, Kind, Tensor};

/// What the network sees of each sample.
#[derive(Debug)]
pub enum Inputs {
    /// Grey or colour pictures `[N, C, H, W]`, u8.
    Images(Tensor),
    /// Precomputed features `[N, F]`, f32.
    Features(Tensor),
}

impl Inputs {
    /// The same on another device.
    pub fn to_device(&self, device: Device) -> Self {
        match self {
            Inputs::Images(t) => Inputs::Images(t.to_device(device)),
            Inputs::Features(t) => Inputs::Features(t.to_device(device)),
        }
    }

    /// The network's input for these samples (`[B]`, i64, on the same device): f32, pictures
    /// scaled to [-1, 1].
    pub fn batch(&self, indices: &Tensor) -> Tensor {
        match self {
            Inputs::Images(t) => t.index_select(0, indices).to_kind(Kind::Float) / 127.5 - 1.0,
            Inputs::Features(t) => t.index_select(0, indices),
        }
    }
}

/// One side of a class-disjoint split.
#[derive(Debug)]
pub struct Part {
    /// What the network sees.
    pub inputs: Inputs,
    /// The class of each sample, from 0 to C-1.
    pub labels: Vec<i64>,
    /// The name of each class.
    pub class_names: Vec<String>,
    /// A name for each sample: its path, or what stands for it.
    pub paths: Vec<String>,
}

/// A data set, split into training and test classes.
#[derive(Debug)]
pub struct Dataset {
    /// The classes that train.
    pub train: Part,
    /// The classes that test.
    pub test: Part,
    /// Hash of everything above: runs with the same hash saw the same data.
    pub hash: String,
}
