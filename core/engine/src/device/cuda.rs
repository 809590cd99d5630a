//! The CUDA half of libtorch: loading it, and saying what is missing.
//!
//! The linker drops `libtorch_cuda.so` from programs built the usual way, because nothing in
//! them refers to it by name (`--as-needed`); such a program says "no CUDA" on a machine with a
//! GPU. So it is loaded here, by hand, before libtorch looks for it.

use super::{Missing, libtorch};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::path::Path;
use std::sync::OnceLock;
use tch::{Device, Kind, Tensor};

const LIBRARY: &str = "libtorch_cuda.so";

/// What is there of the NVIDIA driver.
#[derive(Debug, Clone)]
pub struct Driver {
    /// Whether its library `libcuda.so.1` loads, else the loader's message.
    pub library: Result<(), String>,
    /// The kernel module's description, if it tells (it does not under WSL).
    pub version: Option<String>,
    /// Models of the GPUs the kernel module knows, in no particular order.
    pub gpus: Vec<String>,
}

/// Looks for the driver. Starts nothing on the GPU.
pub fn driver() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    DRIVER.get_or_init(|| Driver {
        library: open("libcuda.so.1", RTLD_NOW),
        version: fs_err::read_to_string("/proc/driver/nvidia/version").ok().and_then(|text| module_version(&text)),
        gpus: gpu_models(Path::new("/proc/driver/nvidia/gpus")),
    })
}

/// The first line of the module's description, without its label.
fn module_version(text: &str) -> Option<String> {
    let line = text.lines().next()?;
    let words: Vec<_> = line.trim_start_matches("NVRM version:").split_whitespace().collect();
    (!words.is_empty()).then(|| words.join(" "))
}

fn gpu_models(folder: &Path) -> Vec<String> {
    let Ok(gpus) = fs_err::read_dir(folder) else { return Vec::new() };
    let mut models: Vec<_> = gpus
        .flatten()
        .filter_map(|gpu| fs_err::read_to_string(gpu.path().join("information")).ok())
        .filter_map(|text| Some(text.lines().find_map(|l| l.strip_prefix("Model:"))?.trim().to_string()))
        .collect();
    models.sort();
    models
}

/// What libtorch can do with CUDA here.
#[derive(Debug, Clone)]
pub struct Cuda {
    /// Whether `libtorch_cuda.so` is loaded, else the loader's message.
    pub library: Result<(), String>,
    /// Number of devices libtorch sees.
    pub devices: usize,
}

/// Loads the CUDA libraries and counts the devices, once.
pub fn probe() -> &'static Cuda {
    static CUDA: OnceLock<Cuda> = OnceLock::new();
    CUDA.get_or_init(|| {
        let library = load();
        let devices = match library {
            // A driver that libtorch cannot talk to counts as no device.
            Ok(()) => curricle_sdk::guard(|| Ok(tch::Cuda::device_count())).unwrap_or(0).try_into().unwrap_or(0),
            Err(_) => 0,
        };
        Cuda { library, devices }
    })
}

/// Whether the CUDA half of libtorch is in this process already.
pub fn is_loaded() -> bool {
    open(LIBRARY, RTLD_NOW | libc::RTLD_NOLOAD).is_ok()
}

/// By its name first, so that one that was preloaded is found; then next to the rest of libtorch.
fn load() -> Result<(), String> {
    open(LIBRARY, RTLD_NOW | RTLD_GLOBAL).or_else(|by_name| match libtorch::folder() {
        Some(folder) => open(folder.join(LIBRARY), RTLD_NOW | RTLD_GLOBAL),
        None => Err(by_name),
    })
}

/// Opens a library and never closes it.
fn open(library: impl AsRef<std::ffi::OsStr>, flags: std::ffi::c_int) -> Result<(), String> {
    // SAFETY: opening runs the library's initialisers. These are the libraries of CUDA and
    // libtorch, made to be loaded at any time; they are never unloaded, so nothing of them dangles.
    match unsafe { Library::open(Some(library.as_ref()), flags) } {
        Ok(library) => {
            std::mem::forget(library);
            Ok(())
        }
        Err(error) => Err(loader_message(&error)),
    }
}

/// What the loader said, without libloading's words around it.
fn loader_message(error: &libloading::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    }
}

impl Cuda {
    /// The device of that number, tried out, or what is missing.
    pub fn device(&self, index: usize) -> Result<Device, Missing> {
        self.has(index)?;
        let device = Device::Cuda(index);
        try_out(device).map(|()| device).map_err(Missing::Broken)
    }

    /// Whether there is a device of that number. Starts nothing on it, which would keep memory of
    /// it occupied.
    pub fn has(&self, index: usize) -> Result<(), Missing> {
        if self.devices > index { Ok(()) } else { Err(Missing::of(self, driver(), index)) }
    }
}

/// A device can be counted and yet refuse to work, e.g. one too old for this libtorch.
fn try_out(device: Device) -> Result<(), String> {
    curricle_sdk::guard(|| {
        let there = Tensor::f_ones([1], (Kind::Float, device))?.f_neg()?;
        let back = there.f_to_device(Device::Cpu)?;
        match f64::try_from(&back)? {
            -1.0 => Ok(()),
            wrong => Err(curricle_sdk::Error::other(format!("the device computed -1 as {wrong}"))),
        }
    })
    .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_an_error_with_its_name() {
        let message = open("libno-such-thing.so.7", RTLD_NOW).unwrap_err();
        assert!(message.contains("libno-such-thing.so.7"), "{message}");
    }

    #[test]
    fn the_kernel_modules_description_loses_its_label() {
        let text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  590.10  Tue\nGCC version: 13\n";
        assert_eq!(module_version(text).as_deref(), Some("NVIDIA UNIX x86_64 Kernel Module 590.10 Tue"));
        assert_eq!(module_version(""), None);
    }

    #[test]
    fn gpu_models_are_read_from_the_kernel_modules_folder() {
        let folder = tempfile::tempdir().unwrap();
        let gpu = folder.path().join("0000:01:00.0");
        fs_err::create_dir(&gpu).unwrap();
        fs_err::write(gpu.join("information"), "Model: \t\t NVIDIA A100\nIRQ: 5\n").unwrap();
        assert_eq!(gpu_models(folder.path()), ["NVIDIA A100"]);
        assert!(gpu_models(&folder.path().join("none")).is_empty());
    }
}
