//! The C interface between curricle and components in dynamic libraries.
//!
//! Every type mirrors one in `include/curricle.h`, whose comments are the reference for ownership, threads and
//! lifetimes. In short: text and arrays are borrowed for the duration of the call; results are passed to callbacks
//! that copy them; tensors are libtorch's `at::Tensor*`, borrowed as arguments and owned by the receiver as results;
//! nothing unwinds across the boundary.
//!
//! [`export`] turns the components registered in a library into these types, [`host`] turns them back. Both are in
//! this crate so that tests can connect them directly.

#![expect(unsafe_code, reason = "this module is the foreign-function boundary")]

pub mod export;
pub mod host;

use std::ffi::c_void;
use torch_sys::C_tensor;

/// First bytes of [`Plugin`].
pub const MAGIC: [u8; 8] = *b"CURRICLE";
/// Incremented with every incompatible change, as is the number in [`SYMBOL`].
pub const ABI_MAJOR: u32 = 1;
/// Incremented with every field appended to a struct.
pub const ABI_MINOR: u32 = 0;
/// The exported symbol.
pub const SYMBOL: &str = "CURRICLE_PLUGIN_V1";
/// The tch version that both sides must use.
pub const TCH_VERSION: &str = "0.26.0";
/// The libtorch version that both sides must use.
pub const LIBTORCH_VERSION: &str = "2.13.0";
/// The platform of this build; both sides must agree.
pub const TARGET: &str = if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
    "x86_64-linux"
} else if cfg!(all(target_os = "linux", target_arch = "aarch64")) {
    "aarch64-linux"
} else if cfg!(all(target_os = "macos", target_arch = "aarch64")) {
    "aarch64-macos"
} else {
    "other"
};

/// The result of a function; unless it is `OK`, the error callback was called once.
pub type Status = u32;
/// Success.
pub const OK: Status = 0;
/// Failure.
pub const FAILED: Status = 1;

/// Any error that is none of the following.
pub const ERROR_OTHER: u32 = 1;
/// A setting has an unusable value; `path` names it.
pub const ERROR_SETTING: u32 = 2;
/// libtorch rejected an operation.
pub const ERROR_TORCH: u32 = 3;
/// The component panicked or threw.
pub const ERROR_PANIC: u32 = 4;

/// UTF-8 text without a terminator.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Str {
    /// First byte; may be null if `len` is 0.
    pub data: *const u8,
    /// Number of bytes.
    pub len: usize,
}

/// Receives text.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TextSink {
    /// Opaque; passed to the callback.
    pub context: *mut c_void,
    /// Copies the text.
    pub write: extern "C" fn(context: *mut c_void, text: Str),
}

/// Receives one error.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ErrorSink {
    /// Opaque; passed to the callback.
    pub context: *mut c_void,
    /// Copies the error.
    pub write: extern "C" fn(context: *mut c_void, code: u32, path: Str, message: Str),
}

/// What the host offers until the process ends.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Host {
    /// Size of this struct in the host's version.
    pub size: usize,
    /// Writes a line to the run's log; `level` 0 debug, 1 info, 2 warning. Any thread.
    pub log: extern "C" fn(level: u32, line: Str),
}

/// What a library exports as [`SYMBOL`].
#[repr(C)]
pub struct Plugin {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`ABI_MAJOR`].
    pub abi_major: u32,
    /// [`ABI_MINOR`].
    pub abi_minor: u32,
    /// Size of this struct in the library's version.
    pub size: usize,
    /// The SDK it was built with, e.g. `curricle-sdk 0.1.0`.
    pub sdk: Str,
    /// [`TCH_VERSION`], or empty if the library does not use tch.
    pub tch: Str,
    /// [`LIBTORCH_VERSION`].
    pub libtorch: Str,
    /// [`TARGET`].
    pub target: Str,
    /// Passes every component to the visitor. Called once, before anything else.
    pub visit: extern "C" fn(host: *const Host, visitor: ComponentSink, error: ErrorSink) -> Status,
}

// SAFETY: it is immutable and points only to static data and functions.
unsafe impl Sync for Plugin {}

/// Receives components.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ComponentSink {
    /// Opaque; passed to the callback.
    pub context: *mut c_void,
    /// Registers a component, which stays valid until the process ends.
    pub component: extern "C" fn(context: *mut c_void, component: *const Component),
}

/// One component of a library.
#[repr(C)]
pub struct Component {
    /// Size of this struct in the library's version.
    pub size: usize,
    /// `loss`, `sampler` or `weights`.
    pub kind: Str,
    /// The name recipes use.
    pub name: Str,
    /// Its version.
    pub version: Str,
    /// One line for listings.
    pub summary: Str,
    /// Passed to `schema` and `create`.
    pub data: *const c_void,
    /// Writes the JSON Schema (draft-07) of the settings.
    pub schema: extern "C" fn(data: *const c_void, sink: TextSink, error: ErrorSink) -> Status,
    /// Creates an instance from settings, a JSON object that fits the schema.
    pub create:
        extern "C" fn(data: *const c_void, settings: Str, instance: *mut *mut c_void, error: ErrorSink) -> Status,
    /// Destroys an instance.
    pub destroy: extern "C" fn(instance: *mut c_void),
    /// [`LossTable`], [`SamplerTable`] or [`WeightsTable`], depending on `kind`.
    pub table: *const c_void,
}

/// The functions of a loss.
#[repr(C)]
pub struct LossTable {
    /// Size of this struct in the library's version.
    pub size: usize,
    /// Declares the tensors the instance needs.
    pub tensors:
        extern "C" fn(instance: *const c_void, shape: *const Shape, sink: TensorSink, error: ErrorSink) -> Status,
    /// Computes the loss of a batch; the host owns the result.
    pub forward: extern "C" fn(
        instance: *const c_void,
        batch: *const Batch,
        log: *const Log,
        loss: *mut *mut C_tensor,
        error: ErrorSink,
    ) -> Status,
    /// Reports warnings about settings that are valid but degenerate.
    pub advice:
        extern "C" fn(instance: *const c_void, data: *const DataFacts, sink: AdviceSink, error: ErrorSink) -> Status,
}

/// The functions of a sampler.
#[repr(C)]
pub struct SamplerTable {
    /// Size of this struct in the library's version.
    pub size: usize,
    /// Returns the batches of an epoch.
    pub batches:
        extern "C" fn(instance: *const c_void, epoch: *const Epoch, sink: BatchSink, error: ErrorSink) -> Status,
    /// Samples in a full batch. Called once.
    pub batch_size: extern "C" fn(instance: *const c_void, size: *mut usize, error: ErrorSink) -> Status,
    /// Reports warnings about settings that are valid but degenerate.
    pub advice:
        extern "C" fn(instance: *const c_void, data: *const DataFacts, sink: AdviceSink, error: ErrorSink) -> Status,
}

/// The functions of a weight scheme.
#[repr(C)]
pub struct WeightsTable {
    /// Size of this struct in the library's version.
    pub size: usize,
    /// Declares the tensors the instance needs.
    pub tensors:
        extern "C" fn(instance: *const c_void, shape: *const Shape, sink: TensorSink, error: ErrorSink) -> Status,
    /// Returns the weights of the next round.
    pub update:
        extern "C" fn(instance: *const c_void, round: *const Round, sink: WeightSink, error: ErrorSink) -> Status,
    /// Not 0 if `update` reads the embeddings. Called once.
    pub needs_embeddings: extern "C" fn(instance: *const c_void, answer: *mut u32, error: ErrorSink) -> Status,
    /// Not 0 if all weights are always 1. Called once.
    pub is_uniform: extern "C" fn(instance: *const c_void, answer: *mut u32, error: ErrorSink) -> Status,
    /// Reports warnings about settings that are valid but degenerate.
    pub advice: extern "C" fn(
        instance: *const c_void,
        data: *const DataFacts,
        loss: LossInfo,
        sink: AdviceSink,
        error: ErrorSink,
    ) -> Status,
}

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
    /// 0: every element is `init_value`; 1: normal with standard deviation `init_value`.
    pub init: u32,
    /// Not 0 if the optimiser updates it.
    pub trainable: u32,
    /// See `init`.
    pub init_value: f64,
    /// The parameter group.
    pub group: Str,
    /// The group's learning-rate scale unless the recipe sets one.
    pub lr_scale: f64,
}

/// Receives declared tensors.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TensorSink {
    /// Opaque; passed to the callback.
    pub context: *mut c_void,
    /// Copies the declaration.
    pub declare: extern "C" fn(context: *mut c_void, spec: *const TensorSpec),
}

/// A tensor by name.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NamedTensor {
    /// Its name.
    pub name: Str,
    /// The tensor, borrowed.
    pub tensor: *mut C_tensor,
}

/// A batch as a loss sees it; all tensors are borrowed.
#[repr(C)]
pub struct Batch {
    /// Size of this struct in the host's version.
    pub size: usize,
    /// `[B, D]`, f32 or f64.
    pub embeddings: *mut C_tensor,
    /// `[B]`, i64.
    pub labels: *mut C_tensor,
    /// `[B]`, i64.
    pub ids: *mut C_tensor,
    /// `[B]`, or null if all are 1.
    pub weights: *mut C_tensor,
    /// The declared tensors.
    pub tensors: *const NamedTensor,
    /// Number of elements in the array above.
    pub tensor_count: usize,
}

/// Receives named scalars during one call.
#[repr(C)]
pub struct Log {
    /// Size of this struct in the host's version.
    pub size: usize,
    /// Opaque; passed to the callback.
    pub context: *mut c_void,
    /// Not 0 if scalars are kept during this call.
    pub enabled: u32,
    /// Takes ownership of a one-element tensor.
    pub scalar: extern "C" fn(context: *mut c_void, name: Str, value: *mut C_tensor),
}

/// What is known about the training data.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DataFacts {
    /// Size of this struct in the host's version.
    pub size: usize,
    /// Samples in each class.
    pub class_sizes: *const usize,
    /// Number of classes.
    pub classes: usize,
    /// Size of the embedding.
    pub embedding_size: usize,
    /// Samples in one batch, 0 if not known yet.
    pub batch_size: usize,
}

/// Receives advice.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AdviceSink {
    /// Opaque; passed to the callback.
    pub context: *mut c_void,
    /// Copies one warning.
    pub advise: extern "C" fn(context: *mut c_void, path: Str, message: Str),
}

/// What a sampler knows about an epoch.
#[repr(C)]
pub struct Epoch {
    /// Size of this struct in the host's version.
    pub size: usize,
    /// The label of every sample.
    pub labels: *const i64,
    /// Number of samples.
    pub samples: usize,
    /// The run's seed.
    pub seed: u64,
    /// The epoch, from 0.
    pub epoch: u64,
}

/// Receives batches.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BatchSink {
    /// Opaque; passed to the callback.
    pub context: *mut c_void,
    /// Copies the indices of one batch.
    pub batch: extern "C" fn(context: *mut c_void, ids: *const i64, count: usize),
}

/// The recipe's loss.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LossInfo {
    /// Its name.
    pub name: Str,
    /// Its settings, a JSON object.
    pub settings: Str,
}

/// What a weight scheme sees.
#[repr(C)]
pub struct Round {
    /// Size of this struct in the host's version.
    pub size: usize,
    /// The round, from 1.
    pub round: u64,
    /// Rounds in the whole run.
    pub rounds: u64,
    /// The run's seed.
    pub seed: u64,
    /// `[N, D]`, or null if the scheme does not need them.
    pub embeddings: *mut C_tensor,
    /// The label of every sample.
    pub labels: *const i64,
    /// The weight of every sample.
    pub weights: *const f64,
    /// Number of samples.
    pub samples: usize,
    /// The declared tensors.
    pub tensors: *const NamedTensor,
    /// Number of elements in the array above.
    pub tensor_count: usize,
    /// The recipe's loss.
    pub loss: LossInfo,
    /// The age that overrides the one of the scheme's schedule, or NaN.
    pub age: f64,
}

/// Receives the result of a weight scheme.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct WeightSink {
    /// Opaque; passed to the callback.
    pub context: *mut c_void,
    /// Copies the new weights.
    pub weights: extern "C" fn(context: *mut c_void, values: *const f64, count: usize),
    /// Copies a named number.
    pub scalar: extern "C" fn(context: *mut c_void, name: Str, value: f64),
    /// Copies a named column with one value per sample.
    pub column: extern "C" fn(context: *mut c_void, name: Str, values: *const f64, count: usize),
}

impl Str {
    /// Borrows text for a call across the boundary.
    pub const fn new(text: &str) -> Self {
        Self { data: text.as_ptr(), len: text.len() }
    }

    /// Copies the text; invalid UTF-8 is an error that says what the text is for.
    ///
    /// # Safety
    /// `data` must point to `len` readable bytes, or `len` be 0.
    pub unsafe fn read(self, what: &str) -> crate::Result<String> {
        // SAFETY: the caller's obligation.
        let bytes = unsafe { slice(self.data, self.len) };
        String::from_utf8(bytes.to_vec()).map_err(|_| crate::Error::other(format!("{what} is not valid UTF-8")))
    }

    /// Copies the text, with replacement characters for invalid UTF-8.
    ///
    /// # Safety
    /// As for [`Str::read`].
    pub unsafe fn read_lossy(self) -> String {
        // SAFETY: the caller's obligation.
        String::from_utf8_lossy(unsafe { slice(self.data, self.len) }).into_owned()
    }
}

/// A slice from C, where null means no elements.
///
/// # Safety
/// `data` must point to `len` readable elements that outlive `'a`, or `len` be 0.
unsafe fn slice<'a, T>(data: *const T, len: usize) -> &'a [T] {
    if len == 0 || data.is_null() {
        return &[];
    }
    // SAFETY: not null; the caller guarantees the length and the lifetime.
    unsafe { std::slice::from_raw_parts(data, len) }
}

// include/curricle.h has the same assertions.
#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::size_of;
    assert!(size_of::<Str>() == 16);
    assert!(size_of::<Plugin>() == 96);
    assert!(size_of::<Component>() == 112);
    assert!(size_of::<LossTable>() == 32);
    assert!(size_of::<SamplerTable>() == 32);
    assert!(size_of::<WeightsTable>() == 48);
    assert!(size_of::<Shape>() == 32);
    assert!(size_of::<TensorSpec>() == 80);
    assert!(size_of::<Batch>() == 56);
    assert!(size_of::<Log>() == 32);
    assert!(size_of::<DataFacts>() == 40);
    assert!(size_of::<Epoch>() == 40);
    assert!(size_of::<Round>() == 120);
    assert!(size_of::<WeightSink>() == 32);
};
