//! Errors and panics of components, as the host gets them.

use crate::abi::records::{ErrorSink, Str, read};
use crate::abi::{ERROR_OTHER, ERROR_PANIC, ERROR_SETTING, ERROR_TORCH, FAILED, OK, Status};
use crate::{Error, Result, guard};

/// Runs `work`; its error or panic goes to the sink and never crosses the boundary.
pub(super) fn shield(sink: *const ErrorSink, work: impl FnOnce() -> Result<()>) -> Status {
    let Err(error) = guard(work) else { return OK };
    let (code, path, message) = match error {
        Error::Setting { path, message } => (ERROR_SETTING, path, message),
        Error::Torch(message) => (ERROR_TORCH, String::new(), message),
        Error::Panic(message) => (ERROR_PANIC, String::new(), message),
        Error::Other(message) => (ERROR_OTHER, String::new(), message),
    };
    // SAFETY: the host passes a sink that is valid for this call.
    if let Ok(ErrorSink { context, write: Some(write), .. }) = unsafe { read(sink) } {
        write(context, code, Str::new(&path), Str::new(&message));
    }
    FAILED
}
