//! What a library and the host show each other: the exported header, components, errors.

use super::{Record, Str};
use crate::abi::Status;
use std::ffi::c_void;

/// What a library exports as [`SYMBOL`](crate::abi::SYMBOL).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Plugin {
    /// [`MAGIC`](crate::abi::MAGIC).
    pub magic: [u8; 8],
    /// [`ABI_MAJOR`](crate::abi::ABI_MAJOR).
    pub abi_major: u32,
    /// [`ABI_MINOR`](crate::abi::ABI_MINOR).
    pub abi_minor: u32,
    /// Size of this struct in the library's version.
    pub size: usize,
    /// The SDK it was built with, e.g. `curricle-sdk 0.1.0`.
    pub sdk: Str,
    /// [`TCH_VERSION`](crate::abi::TCH_VERSION), or empty if the library does not use tch.
    pub tch: Str,
    /// [`LIBTORCH_VERSION`](crate::abi::LIBTORCH_VERSION).
    pub libtorch: Str,
    /// [`TARGET`](crate::abi::TARGET).
    pub target: Str,
    /// Passes every component to the visitor. Called once, before anything else.
    pub visit: Option<
        extern "C-unwind" fn(host: *const Host, visitor: *const ComponentSink, error: *const ErrorSink) -> Status,
    >,
}

impl Plugin {
    /// The size of the fields that every version has. It never changes.
    pub const MINIMUM: usize = 96;
}

// SAFETY: it is immutable and points only to static data and functions.
unsafe impl Sync for Plugin {}

/// One component of a library.
#[repr(C)]
#[derive(Clone, Copy)]
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
    pub schema:
        Option<extern "C-unwind" fn(data: *const c_void, sink: *const TextSink, error: *const ErrorSink) -> Status>,
    /// Creates an instance from settings, a JSON object that fits the schema.
    pub create: Option<
        extern "C-unwind" fn(
            data: *const c_void,
            settings: Str,
            instance: *mut *mut c_void,
            error: *const ErrorSink,
        ) -> Status,
    >,
    /// Destroys an instance.
    pub destroy: Option<extern "C-unwind" fn(instance: *mut c_void)>,
    /// [`LossTable`](super::LossTable), [`SamplerTable`](super::SamplerTable) or
    /// [`WeightsTable`](super::WeightsTable), depending on `kind`.
    pub table: *const c_void,
}

// SAFETY: `repr(C)`, starts with its size, and its functions are options.
unsafe impl Record for Component {
    const NAME: &'static str = "curricle_component";
    const MINIMUM: usize = 112;
}

/// What the host offers until the process ends.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Host {
    /// Size of this struct in the host's version.
    pub size: usize,
    /// Writes a line to the run's log; `level` 0 debug, 1 info, 2 warning. Any thread.
    pub log: Option<extern "C" fn(level: u32, line: Str)>,
}

// SAFETY: as above.
unsafe impl Record for Host {
    const NAME: &'static str = "curricle_host";
    const MINIMUM: usize = 16;
}

/// Defines a record of one callback and its context.
macro_rules! sink {
    ($(#[$about:meta])* $name:ident, $c:literal, $(#[$what:meta])* $callback:ident($($arg:ident: $type:ty),*)) => {
        $(#[$about])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct $name {
            /// Size of this struct in the host's version.
            pub size: usize,
            /// Opaque; passed to the callback.
            pub context: *mut std::ffi::c_void,
            $(#[$what])*
            pub $callback: Option<extern "C" fn(context: *mut std::ffi::c_void, $($arg: $type),*)>,
        }

        // SAFETY: `repr(C)`, starts with its size, and its function is an option.
        unsafe impl $crate::abi::records::Record for $name {
            const NAME: &'static str = $c;
            const MINIMUM: usize = 24;
        }
    };
}
pub(super) use sink;

sink! {
    /// Receives text.
    TextSink, "curricle_text_sink",
    /// Appends the text.
    write(text: Str)
}

sink! {
    /// Receives one error.
    ErrorSink, "curricle_error_sink",
    /// Copies the error.
    write(code: u32, path: Str, message: Str)
}

sink! {
    /// Receives components.
    ComponentSink, "curricle_component_sink",
    /// Registers a component, which stays valid until the process ends.
    component(component: *const Component)
}
