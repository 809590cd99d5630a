//! The library's side: Rust components as C records.
//!
//! [`export_plugin!`](crate::export_plugin) adds the symbol to a `cdylib`. `inventory` is per binary image, so a
//! library sees only its own components, and `register_loss!` works for built-in and for loaded components.

mod borrow;
mod loss;
mod sampler;
mod shield;
mod weights;

use super::records::{Component, ComponentSink, ErrorSink, Host, Plugin, Str, TextSink, read};
use super::{ABI_MAJOR, ABI_MINOR, LIBTORCH_VERSION, MAGIC, Status, TARGET, TCH_VERSION};
use crate::{ComponentKind, Error, guard, registered};
use shield::shield;
use std::ffi::c_void;

/// Exports the components registered in this library. Use it once, in the crate root of a `cdylib`:
///
/// ```ignore
/// curricle_sdk::export_plugin!();
/// ```
#[macro_export]
macro_rules! export_plugin {
    () => {
        #[cfg(panic = "abort")]
        compile_error!(
            "a curricle plugin must be built with `panic = \"unwind\"`, so that a panic ends a run and not the program"
        );

        /// The symbol that curricle looks up in a plugin.
        // SAFETY: the name is reserved for curricle, and only a leaf `cdylib` exports it.
        #[unsafe(no_mangle)]
        pub static CURRICLE_PLUGIN_V2: $crate::abi::Plugin = $crate::abi::export::PLUGIN;
    };
}

/// What [`export_plugin!`](crate::export_plugin) exports.
pub const PLUGIN: Plugin = Plugin {
    magic: MAGIC,
    abi_major: ABI_MAJOR,
    abi_minor: ABI_MINOR,
    size: size_of::<Plugin>(),
    sdk: Str::new(concat!("curricle-sdk ", env!("CARGO_PKG_VERSION"))),
    tch: Str::new(TCH_VERSION),
    libtorch: Str::new(LIBTORCH_VERSION),
    target: Str::new(TARGET),
    visit: Some(visit),
};

extern "C-unwind" fn visit(host: *const Host, visitor: *const ComponentSink, error: *const ErrorSink) -> Status {
    shield(error, || {
        // SAFETY: the host passes records that are valid for this call.
        let (host, visitor) = unsafe { (read(host)?, read(visitor)?) };
        if let Some(log) = host.log {
            crate::host::set_log_sink(move |level, line| log(level as u32, Str::new(line)));
        }
        if let Some(show) = visitor.component {
            for component in registered() {
                // Leaked: the host keeps the pointer until the process ends.
                let record: &'static Component = Box::leak(Box::new(describe(component)));
                show(visitor.context, record);
            }
        }
        Ok(())
    })
}

/// A registered component as a C record.
pub fn describe(component: &'static crate::Component) -> Component {
    let (destroy, table): (extern "C-unwind" fn(*mut c_void), *const c_void) = match component.kind {
        ComponentKind::Loss => (destroy::<dyn crate::Loss>, (&raw const loss::TABLE).cast()),
        ComponentKind::Sampler => (destroy::<dyn crate::Sampler>, (&raw const sampler::TABLE).cast()),
        ComponentKind::Weights => (destroy::<dyn crate::WeightScheme>, (&raw const weights::TABLE).cast()),
    };
    Component {
        size: size_of::<Component>(),
        kind: Str::new(component.kind.as_str()),
        name: Str::new(component.name),
        version: Str::new(component.version),
        summary: Str::new(component.summary),
        data: std::ptr::from_ref(component).cast(),
        schema: Some(schema),
        create: Some(create),
        destroy: Some(destroy),
        table,
    }
}

/// The component behind a record's `data`.
///
/// # Safety
/// `data` must come from [`describe`].
unsafe fn component(data: *const c_void) -> &'static crate::Component {
    // SAFETY: `describe` stores a pointer to a static record there.
    unsafe { &*data.cast::<crate::Component>() }
}

extern "C-unwind" fn schema(data: *const c_void, sink: *const TextSink, error: *const ErrorSink) -> Status {
    shield(error, || {
        // SAFETY: the host passes `data` of a record made by `describe`, and a valid sink.
        let (component, sink) = unsafe { (component(data), read(sink)?) };
        if let Some(write) = sink.write {
            write(sink.context, Str::new(&component.factory.schema().to_string()));
        }
        Ok(())
    })
}

extern "C-unwind" fn create(
    data: *const c_void,
    settings: Str,
    instance: *mut *mut c_void,
    error: *const ErrorSink,
) -> Status {
    shield(error, || {
        // SAFETY: the host passes `data` of a record made by `describe`, and valid text.
        let (component, text) = unsafe { (component(data), settings.read_up_to(usize::MAX, "the settings text")?) };
        let settings = serde_json::from_str(&text).map_err(|e| Error::other(e.to_string()))?;
        // A thin pointer to a fat one: only thin pointers cross.
        let made: *mut c_void = match component.kind {
            ComponentKind::Loss => Box::into_raw(Box::new(component.factory.loss(&settings)?)).cast(),
            ComponentKind::Sampler => Box::into_raw(Box::new(component.factory.sampler(&settings)?)).cast(),
            ComponentKind::Weights => Box::into_raw(Box::new(component.factory.weights(&settings)?)).cast(),
        };
        // SAFETY: the host passes a valid output pointer.
        unsafe { *instance = made };
        Ok(())
    })
}

extern "C-unwind" fn destroy<T: ?Sized>(instance: *mut c_void) {
    // A panic in a destructor cannot be reported.
    let _ = guard(|| {
        // SAFETY: `create` made it from a `Box<Box<T>>` of this kind, and it is not used again.
        drop(unsafe { Box::from_raw(instance.cast::<Box<T>>()) });
        Ok(())
    });
}

/// Functions that answer a question about an instance of this kind.
macro_rules! questions {
    ($kind:ty: $($question:ident)*) => {
        $(extern "C-unwind" fn $question(this: *const c_void, answer: *mut u32, error: *const ErrorSink) -> Status {
            // SAFETY: the host passes an instance of this kind and a valid output pointer.
            shield(error, || unsafe {
                *answer = u32::from(instance::<$kind>(this).$question());
                Ok(())
            })
        })*
    };
}
use questions;

/// The instance behind a pointer made by [`create`].
///
/// # Safety
/// `instance` must come from `create` of a component of this kind and not have been destroyed.
unsafe fn instance<'a, T: ?Sized>(instance: *const c_void) -> &'a T {
    // SAFETY: the caller's obligation.
    unsafe { &*instance.cast::<Box<T>>() }
}
