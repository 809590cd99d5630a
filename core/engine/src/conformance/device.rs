//! Checks of components on a CUDA device.
//!
//! Synchronisation is detected in two ways: libtorch can refuse every operation that makes the host
//! wait, and the tests' fake device counts them.

use super::batches::{Case, distance, is_random, make};
use super::weights;
use super::{NotPassed, Subject, fail, skip};
use curricle_sdk::guard;
use libloading::os::unix::{Library, RTLD_NOW};
use std::ffi::{CStr, c_char, c_int};
use tch::{Device, Kind};

fn device(subject: &Subject) -> Result<Device, NotPassed> {
    match subject.device {
        Device::Cpu => skip("there is no CUDA device"),
        device => Ok(device),
    }
}

/// Inputs on the device give a result on the device that matches the CPU's.
pub(crate) fn stays_on_the_device(subject: &Subject) -> Result<(), NotPassed> {
    let device = device(subject)?;
    let loss = make(subject)?;
    let case = Case::usual(loss.as_ref(), 0)?.to(Kind::Float, Device::Cpu);
    let there = case.to(Kind::Float, device).run(loss.as_ref())?;
    if is_random(loss.as_ref())? {
        return Ok(());
    }
    let here = case.run(loss.as_ref())?;
    let difference = distance(&here.loss, &there.loss.to_device(Device::Cpu));
    if difference > 1e-3 {
        return fail(format!("the loss differs by {difference:.1e} between the CPU and {device:?}"));
    }
    Ok(())
}

/// Neither loss nor gradients make the host wait.
pub(crate) fn does_not_wait_for_the_device(subject: &Subject) -> Result<(), NotPassed> {
    let device = device(subject)?;
    let loss = make(subject)?;
    if loss.runs_on_host() {
        return skip("the loss computes on the host");
    }
    let case = Case::usual(loss.as_ref(), 0)?.to(Kind::Float, device);
    // The first call may initialise things.
    case.run(loss.as_ref())?;
    let step = || case.run(loss.as_ref()).map(drop);
    if let Some(counters) = Counters::find() {
        return counted(&counters, step);
    }
    match sync_debug_mode() {
        Some(mode) => refused(mode, step),
        None => skip("this libtorch cannot detect synchronisation"),
    }
}

/// A weight scheme accepts embeddings on the device. It may synchronise.
pub(crate) fn scheme_takes_embeddings_on_the_device(subject: &Subject) -> Result<(), NotPassed> {
    let device = device(subject)?;
    let mut data = weights::WeightedData::usual();
    data.embeddings = data.embeddings.to_device(device);
    data.update(weights::make(subject)?.as_ref()).map(drop)
}

fn counted(counters: &Counters, step: impl Fn() -> Result<(), NotPassed>) -> Result<(), NotPassed> {
    let before = counters.read();
    step()?;
    let after = counters.read();
    for (name, what) in [
        ("syncs", "waits for the device"),
        ("h2d_copies", "copies to the device"),
        ("d2h_copies", "copies to the host"),
    ] {
        let count = after(name) - before(name);
        if count > 0 {
            return fail(format!("one forward and backward pass {what} {count}x"));
        }
    }
    Ok(())
}

/// The counters of the fake device.
struct Counters {
    names: Vec<String>,
    get: unsafe extern "C" fn(*mut u64, c_int) -> c_int,
}

impl Counters {
    fn find() -> Option<Self> {
        let program = Library::this();
        // SAFETY: these are the functions' types in `tests/fakecuda/fakecuda.cpp`, where the string is
        // static.
        unsafe {
            let get = *program.get::<unsafe extern "C" fn(*mut u64, c_int) -> c_int>(b"fakecuda_stats_get\0").ok()?;
            let names = program.get::<unsafe extern "C" fn() -> *const c_char>(b"fakecuda_stats_names\0").ok()?;
            let names = CStr::from_ptr(names()).to_str().ok()?;
            Some(Self { names: names.split(',').map(|name| name.trim().to_string()).collect(), get })
        }
    }

    fn read(&self) -> impl Fn(&str) -> u64 {
        let mut values = vec![0; self.names.len()];
        // SAFETY: it writes at most as many values as the given length.
        unsafe { (self.get)(values.as_mut_ptr(), values.len() as c_int) };
        let names = self.names.clone();
        move |name| names.iter().position(|known| known == name).map_or(0, |index| values[index])
    }
}

/// The address of libtorch's setting for operations that synchronise: 0 ignore, 1 warn, 2 refuse.
fn sync_debug_mode() -> Option<*mut c_int> {
    // SAFETY: opens nothing new, since the library is loaded once there is a CUDA device.
    let library = unsafe { Library::open(Some("libc10_cuda.so"), RTLD_NOW | libc::RTLD_NOLOAD) }.ok()?;
    // SAFETY: only the address of `c10::cuda::warning_state_` is taken; it holds one enumeration.
    let symbol = unsafe { library.get::<c_int>(b"_ZZN3c104cuda13warning_stateEvE14warning_state_\0") };
    let address = symbol.ok().map(|symbol| symbol.as_raw_ptr().cast::<c_int>());
    // Keep the library loaded, since libtorch needs it.
    std::mem::forget(library);
    address
}

fn refused(mode: *mut c_int, step: impl Fn() -> Result<(), NotPassed>) -> Result<(), NotPassed> {
    // SAFETY: the address comes from `sync_debug_mode`; no other thread uses the device now.
    unsafe { mode.write_volatile(2) };
    let result = guard(|| Ok(step()));
    // SAFETY: as above.
    unsafe { mode.write_volatile(0) };
    match result? {
        Err(NotPassed::Failed(reason)) => fail(format!("it waits for the device: {reason}")),
        other => other,
    }
}
