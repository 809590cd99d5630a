//! Loads libtorch's CUDA library and finds CUDA devices.
//!
//! With `--as-needed` the linker drops `libtorch_cuda.so`, because nothing in the program refers to
//! its symbols; the program then finds no CUDA on a machine with a GPU. So the library is loaded
//! explicitly here, before libtorch looks for it.

use super::{CudaUnavailable, libtorch, switches};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::c_int;
use std::path::Path;
use std::sync::OnceLock;
use tch::{Device, Kind, Tensor};

const LIBRARY: &str = "libtorch_cuda.so";
const DRIVER_LIBRARY: &str = "libcuda.so.1";

/// The state of the NVIDIA driver.
#[derive(Debug, Clone)]
pub struct Driver {
    /// Whether its library `libcuda.so.1` loads, else the loader's message.
    pub library: Result<(), String>,
    /// The newest CUDA version that it supports, e.g. 13000 for 13.0; `None` if it does not tell.
    pub cuda: Option<i32>,
    /// The kernel module's version string, if it has one (it does not under WSL).
    pub version: Option<String>,
    /// Models of the GPUs that the kernel module lists, sorted by name.
    pub gpus: Vec<String>,
}

/// Looks for the driver without initialising the GPU.
pub fn driver() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    DRIVER.get_or_init(|| Driver {
        library: open(DRIVER_LIBRARY, RTLD_NOW),
        cuda: supported_cuda(),
        version: fs_err::read_to_string("/proc/driver/nvidia/version").ok().and_then(|text| module_version(&text)),
        gpus: gpu_models(Path::new("/proc/driver/nvidia/gpus")),
    })
}

/// Asks the driver's library, which answers without initialising the GPU.
fn supported_cuda() -> Option<i32> {
    // SAFETY: as in `open`.
    let library = unsafe { Library::open(Some(DRIVER_LIBRARY), RTLD_NOW) }.ok()?;
    let mut version = 0;
    // SAFETY: the function has had this type since CUDA 2.2; the pointer is to a variable that outlives the call.
    let result = unsafe {
        let function = library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"cuDriverGetVersion\0").ok()?;
        function(&raw mut version)
    };
    std::mem::forget(library);
    (result == 0 && version > 0).then_some(version)
}

/// The first line of `/proc/driver/nvidia/version`, without its label.
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

/// CUDA as libtorch sees it.
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
            // If libtorch cannot talk to the driver, there are no devices.
            Ok(()) => curricle_sdk::guard(|| Ok(tch::Cuda::device_count())).unwrap_or(0).try_into().unwrap_or(0),
            Err(_) => 0,
        };
        Cuda { library, devices }
    })
}

/// Whether libtorch's CUDA library is already loaded.
pub(crate) fn is_loaded() -> bool {
    open(LIBRARY, RTLD_NOW | libc::RTLD_NOLOAD).is_ok()
}

/// Loads by name first, to find a preloaded library; then from libtorch's folder.
fn load() -> Result<(), String> {
    open(LIBRARY, RTLD_NOW | RTLD_GLOBAL).or_else(|by_name| match libtorch::folder() {
        Some(folder) => open(folder.join(LIBRARY), RTLD_NOW | RTLD_GLOBAL),
        None => Err(by_name),
    })
}

/// Opens a library and never closes it.
fn open(library: impl AsRef<std::ffi::OsStr>, flags: c_int) -> Result<(), String> {
    // SAFETY: opening runs the library's initialisers. CUDA's and libtorch's libraries may be loaded
    // at any time; they are never unloaded, so no pointer into them dangles.
    match unsafe { Library::open(Some(library.as_ref()), flags) } {
        Ok(library) => {
            std::mem::forget(library);
            Ok(())
        }
        Err(error) => Err(loader_message(&error)),
    }
}

/// The loader's message, without the text libloading adds.
fn loader_message(error: &libloading::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    }
}

impl Cuda {
    /// The device with this index, after a test computation, or what is missing. All commands get their device
    /// from here, with exact f32.
    pub fn device(&self, index: usize) -> Result<Device, CudaUnavailable> {
        self.has(index)?;
        let device = Device::Cuda(index);
        try_out(device).map_err(CudaUnavailable::of_failure)?;
        match inexact_product(device).map_err(CudaUnavailable::of_failure)? {
            Some(error) => Err(CudaUnavailable::Inexact { error }),
            None => Ok(device),
        }
    }

    /// Whether a device with this index exists. Does not create a context on it, which would occupy
    /// device memory.
    pub fn has(&self, index: usize) -> Result<(), CudaUnavailable> {
        if self.devices > index { Ok(()) } else { Err(CudaUnavailable::of(self, driver(), index)) }
    }
}

/// A device can be counted but not work, e.g. if it is too old for this libtorch.
fn try_out(device: Device) -> Result<(), String> {
    curricle_sdk::guard(|| {
        switches::exact()?;
        let there = Tensor::f_ones([1], (Kind::Float, device))?.f_neg()?;
        let back = there.f_to_device(Device::Cpu)?;
        match f64::try_from(&back)? {
            -1.0 => Ok(()),
            wrong => Err(curricle_sdk::Error::other(format!("the device computed -1 as {wrong}"))),
        }
    })
    .map_err(|error| error.to_string())
}

/// The error of a matrix product that is exact in f32 and not in TF32, which keeps 11 bits; `None` if it is exact.
///
/// Evaluation depends on it: its search for neighbours assumes the error bound of f32.
fn inexact_product(device: Device) -> Result<Option<String>, String> {
    curricle_sdk::guard(|| {
        let wanted = Tensor::f_full([64, 64], 1.0 + f64::exp2(-12.0), (Kind::Float, device))?;
        let unit = Tensor::f_eye(64, (Kind::Float, device))?;
        let error = wanted.f_matmul(&unit)?.f_sub(&wanted)?.f_abs()?.f_max()?;
        let error = f64::try_from(&error.f_to_device(Device::Cpu)?)?;
        Ok((error != 0.0).then(|| format!("{error:.1e}")))
    })
    .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named_in_the_error() {
        let message = open("libno-such-thing.so.7", RTLD_NOW).unwrap_err();
        assert!(message.contains("libno-such-thing.so.7"), "{message}");
    }

    #[test]
    fn products_on_the_cpu_are_exact() {
        assert_eq!(inexact_product(Device::Cpu), Ok(None));
    }

    #[test]
    fn the_driver_version_is_read_without_its_label() {
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
