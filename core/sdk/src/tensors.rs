//! Tensors that a component declares and the engine owns.

use std::borrow::Cow;
use std::collections::BTreeMap;
use tch::{Kind, Tensor};

/// The sizes a declaration may depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Number of training classes; labels run from 0 to `classes - 1`.
    pub classes: i64,
    /// Number of training samples; sample ids run from 0 to `samples - 1`.
    pub samples: i64,
    /// Size of the embedding.
    pub embedding: i64,
}

/// How a declared tensor is initialised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    /// Every element has this value.
    Constant(f64),
    /// Independent normal values with mean 0.
    Normal {
        /// Their standard deviation.
        std: f64,
    },
    /// Independent values from a uniform distribution.
    Uniform {
        /// The lowest value.
        low: f64,
        /// The upper bound.
        high: f64,
    },
}

/// One tensor a component needs.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorSpec {
    /// Its name, unique within the component.
    pub name: Cow<'static, str>,
    /// Its shape.
    pub shape: Vec<i64>,
    /// The type of its elements: `Float`, `Double`, `Int64`, `Int`, `Uint8` or `Bool`. Trainable tensors are `Float`.
    pub kind: Kind,
    /// How it is initialised. Random values are for floating-point types only.
    pub init: Init,
    /// Whether the optimiser updates it.
    pub trainable: bool,
    /// The optimiser's parameter group, whose learning rate a recipe can scale
    /// (`groups.<group>.lr_scale`). Unused for tensors that are not trainable.
    pub group: Cow<'static, str>,
    /// The group's learning-rate scale unless the recipe sets one.
    pub lr_scale: f64,
}

impl TensorSpec {
    /// A tensor that the optimiser updates, in a parameter group of the same name.
    pub fn trainable(name: &'static str, shape: impl Into<Vec<i64>>, init: Init) -> Self {
        Self { trainable: true, group: name.into(), ..Self::state(name, shape, init) }
    }

    /// A tensor that only keeps its values from call to call.
    pub fn state(name: &'static str, shape: impl Into<Vec<i64>>, init: Init) -> Self {
        let (name, shape, kind) = (name.into(), shape.into(), Kind::Float);
        Self { name, shape, kind, init, trainable: false, group: "".into(), lr_scale: 1.0 }
    }

    /// The same tensor with elements of another type.
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// The same tensor with another default learning-rate scale.
    pub fn lr_scale(mut self, scale: f64) -> Self {
        self.lr_scale = scale;
        self
    }
}

/// The declared tensors of one component, by name.
#[derive(Debug, Default)]
pub struct Tensors(BTreeMap<String, Tensor>);

impl Tensors {
    /// The tensor of that name.
    ///
    /// # Panics
    /// If the component did not declare it, which is a bug in the component.
    pub fn get(&self, name: &str) -> &Tensor {
        self.0.get(name).unwrap_or_else(|| panic!("tensor `{name}` was used but not declared; add it to `tensors`"))
    }

    /// Adds a tensor or replaces it.
    pub fn insert(&mut self, name: impl Into<String>, tensor: Tensor) {
        self.0.insert(name.into(), tensor);
    }

    /// All of them, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.0.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }
}
