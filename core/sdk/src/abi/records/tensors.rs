//! Declared tensors.

use super::library::sink;
use super::{Record, Str};
use tch::Kind;
use torch_sys::C_tensor;

/// Sizes that declared tensors may depend on.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Shape {
    /// Size of this struct in the host's version.
    pub size: usize,
    /// Number of training classes.
    pub classes: i64,
    /// Number of training samples.
    pub samples: i64,
    /// Size of the embedding.
    pub embedding: i64,
}

// SAFETY: `repr(C)`, starts with its size, and has no functions.
unsafe impl Record for Shape {
    const NAME: &'static str = "curricle_shape";
    const MINIMUM: usize = 32;
}

/// Types of declared tensors; a code is an index into this list.
pub const KINDS: [Kind; 6] = [Kind::Float, Kind::Double, Kind::Int64, Kind::Int, Kind::Uint8, Kind::Bool];

/// The code of a type. A type that cannot be declared has a code that the host refuses.
pub fn kind_code(kind: Kind) -> u32 {
    KINDS.iter().position(|known| *known == kind).map_or(u32::MAX, |code| code as u32)
}

/// The type of a code.
pub fn kind_of(code: u32) -> Option<Kind> {
    KINDS.get(code as usize).copied()
}

/// Every element is `init_a`.
pub const INIT_CONSTANT: u32 = 0;
/// Normal with mean 0 and standard deviation `init_a`.
pub const INIT_NORMAL: u32 = 1;
/// Uniform from `init_a` to `init_b`.
pub const INIT_UNIFORM: u32 = 2;

/// A declared tensor.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TensorSpec {
    /// Size of this struct in the library's version.
    pub size: usize,
    /// Its name.
    pub name: Str,
    /// Its dimensions.
    pub shape: *const i64,
    /// Number of elements in the array above.
    pub dimensions: usize,
    /// Index into [`KINDS`].
    pub kind: u32,
    /// [`INIT_CONSTANT`], [`INIT_NORMAL`] or [`INIT_UNIFORM`].
    pub init: u32,
    /// See `init`.
    pub init_a: f64,
    /// See `init`.
    pub init_b: f64,
    /// Not 0 if the optimiser updates it.
    pub trainable: u64,
    /// The parameter group.
    pub group: Str,
    /// The group's learning-rate scale unless the recipe sets one.
    pub lr_scale: f64,
}

// SAFETY: as above.
unsafe impl Record for TensorSpec {
    const NAME: &'static str = "curricle_tensor_spec";
    const MINIMUM: usize = 96;
}

sink! {
    /// Receives declared tensors.
    TensorSink, "curricle_tensor_sink",
    /// Copies the declaration.
    declare(spec: *const TensorSpec)
}

/// The declared tensors of a component, borrowed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TensorList {
    /// Size of this struct in the host's version.
    pub size: usize,
    /// Number of tensors.
    pub count: usize,
    /// Their names.
    pub names: *const Str,
    /// The tensors, in the same order.
    pub tensors: *const *mut C_tensor,
}

// SAFETY: as above.
unsafe impl Record for TensorList {
    const NAME: &'static str = "curricle_tensors";
    const MINIMUM: usize = 32;
}
