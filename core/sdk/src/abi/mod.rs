//! The C interface between curricle and components in dynamic libraries.
//!
//! Every type in [`records`] mirrors one in `include/curricle.h`, whose comments are the reference for ownership,
//! threads and lifetimes. In short: text and arrays are borrowed for the duration of the call; results are passed to
//! callbacks that copy them; tensors are libtorch's `at::Tensor*`, borrowed as arguments and owned by the receiver as
//! results; nothing unwinds across the boundary.
//!
//! [`export`] turns the components registered in a library into these types, [`host`] turns them back. Both are in
//! this crate so that tests can connect them directly.

#![expect(unsafe_code, reason = "this module is the foreign-function boundary")]

pub mod export;
pub mod host;
pub mod records;

pub use records::{Plugin, Str};

/// First bytes of [`Plugin`].
pub const MAGIC: [u8; 8] = *b"CURRICLE";
/// Incremented with every incompatible change, as is the number in [`SYMBOL`].
pub const ABI_MAJOR: u32 = 2;
/// Incremented with every field appended to a record.
pub const ABI_MINOR: u32 = 1;
/// The exported symbol.
pub const SYMBOL: &str = "CURRICLE_PLUGIN_V2";
/// The symbols of earlier versions of the interface, which are no longer loaded.
pub const OLD_SYMBOLS: [&str; 1] = ["CURRICLE_PLUGIN_V1"];
/// The tch version that both sides must use.
pub const TCH_VERSION: &str = "0.26.0";
/// The libtorch version that both sides must use. The build fails with the headers of any other.
pub const LIBTORCH_VERSION: &str = env!("CURRICLE_LIBTORCH");
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
