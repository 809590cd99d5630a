//! Calls into a library: errors, exceptions and callbacks.

use crate::abi::records::{ErrorSink, Str};
use crate::abi::{ERROR_PANIC, ERROR_SETTING, ERROR_TORCH, OK, Status};
use crate::{Error, Result, guard};
use std::ffi::{CStr, c_char, c_void};

unsafe extern "C" {
    /// Calls `work` and passes an exception that leaves it to `fail`.
    fn curricle_sdk_protect(
        work: extern "C-unwind" fn(context: *mut c_void),
        context: *mut c_void,
        error: *mut c_void,
        fail: extern "C" fn(error: *mut c_void, is_torch: bool, message: *const c_char),
    );
}

/// Runs `work`, which calls a function of a library, and returns the exception that left it as an error.
///
/// An exception unwinds through `work`, so it must own nothing that needs to be dropped.
pub(super) fn protect<T: Copy>(work: impl Fn() -> T + Copy) -> Result<T> {
    struct Call<F, T> {
        work: F,
        result: Option<T>,
    }
    extern "C-unwind" fn run<F: Fn() -> T, T>(context: *mut c_void) {
        // SAFETY: `context` is the call below.
        let call = unsafe { &mut *context.cast::<Call<F, T>>() };
        call.result = Some((call.work)());
    }
    extern "C" fn fail(error: *mut c_void, is_torch: bool, message: *const c_char) {
        // SAFETY: `error` is the option below, and the message a C string valid for this call.
        let (error, message) = unsafe { (&mut *error.cast::<Option<Error>>(), CStr::from_ptr(message)) };
        let message = message.to_string_lossy();
        *error = Some(if is_torch { Error::torch(&message) } else { Error::Panic(message.into_owned()) });
    }
    fn entry<F: Fn() -> T, T>(_: &F) -> extern "C-unwind" fn(*mut c_void) {
        run::<F, T>
    }
    let mut call = Call { work, result: None };
    let mut error: Option<Error> = None;
    // SAFETY: `run` matches its context, and `fail` the error.
    unsafe { curricle_sdk_protect(entry::<_, T>(&work), (&raw mut call).cast(), (&raw mut error).cast(), fail) };
    call.result.ok_or_else(|| error.unwrap_or_else(silent))
}

/// Calls a function of a library and returns its error.
pub(super) fn call(work: impl Fn(*const ErrorSink) -> Status + Copy) -> Result<()> {
    extern "C" fn take(context: *mut c_void, code: u32, path: Str, message: Str) {
        // SAFETY: `context` is the option below; the library lends valid bytes.
        let (error, path, message) =
            unsafe { (&mut *context.cast::<Option<Error>>(), path.read_lossy(), message.read_lossy()) };
        *error = Some(match code {
            _ if message.trim().is_empty() => silent(),
            ERROR_SETTING => Error::Setting { path, message },
            ERROR_TORCH => Error::torch(&message),
            ERROR_PANIC => Error::Panic(message),
            _ => Error::Other(message),
        });
    }
    let mut error: Option<Error> = None;
    let sink = ErrorSink { size: size_of::<ErrorSink>(), context: (&raw mut error).cast(), write: Some(take) };
    let sink = &raw const sink;
    let status = protect(move || work(sink))?;
    match (status, error) {
        (_, Some(error)) => Err(error),
        (OK, None) => Ok(()),
        (_, None) => Err(silent()),
    }
}

/// The error of a library that says nothing.
fn silent() -> Error {
    Error::other("failed without an error message; ask its author")
}

/// What the callbacks of one call collect.
pub(super) struct Collected<T> {
    value: T,
    error: Option<Error>,
}

impl<T> Collected<T> {
    pub(super) fn new(value: T) -> Self {
        Self { value, error: None }
    }

    /// The pointer for [`collect`].
    pub(super) fn context(&mut self) -> *mut c_void {
        std::ptr::from_mut(self).cast()
    }

    /// What was collected, unless the call or one of its callbacks failed.
    pub(super) fn finish(self, called: Result<()>) -> Result<T> {
        called?;
        self.error.map_or(Ok(self.value), Err)
    }
}

/// The body of every callback: a panic or an error in it is kept for [`Collected::finish`], and later calls are
/// ignored.
///
/// # Safety
/// `context` must be that of a live `Collected<T>`.
pub(super) unsafe fn collect<T>(context: *mut c_void, take: impl FnOnce(&mut T) -> Result<()>) {
    // SAFETY: the caller's obligation.
    let collected = unsafe { &mut *context.cast::<Collected<T>>() };
    if collected.error.is_none() {
        collected.error = guard(|| take(&mut collected.value)).err();
    }
}

/// A longer list is taken for one that never ends.
pub(super) const MOST: usize = 4096;

/// Adds to a list that a library fills; one that never ends is an error.
pub(super) fn push<T>(list: &mut Vec<T>, item: T, what: &str) -> Result<()> {
    if list.len() >= MOST {
        return Err(Error::other(format!("returned more than {MOST} {what}")));
    }
    list.push(item);
    Ok(())
}
