//! Why a CUDA device cannot be used, and how to fix it.

use super::cuda::{Cuda, Driver};
use std::fmt;

/// The oldest driver that runs CUDA 13, which libtorch is built for.
const OLDEST_DRIVER: &str = "580";

/// The CUDA version that libtorch is built for, as the driver encodes it.
const NEEDED_CUDA: i32 = 13_000;

/// The oldest compute capability that libtorch's CUDA 13 build has kernels for.
const OLDEST_CAPABILITY: &str = "7.5";

/// Why a CUDA device cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CudaUnavailable {
    /// Neither driver nor libraries; the loader's messages.
    Both {
        /// For the driver's library.
        driver: String,
        /// For libtorch's library.
        library: String,
    },
    /// No driver; the loader's message.
    Driver(String),
    /// No CUDA libraries; the loader's message.
    Library(String),
    /// The driver is too old for libtorch's CUDA version.
    OldDriver {
        /// The newest CUDA version that it supports, as the driver encodes it.
        cuda: i32,
    },
    /// Driver and libraries, but no device.
    Device {
        /// The driver's version string.
        driver: Option<String>,
    },
    /// The index is out of range.
    Index {
        /// The requested index.
        index: usize,
        /// Number of devices.
        devices: usize,
    },
    /// The device is older than the oldest one libtorch has kernels for; libtorch's message.
    TooOld(String),
    /// Matrix products are rounded to TF32.
    Inexact {
        /// The error of a product that is exact in f32.
        error: String,
    },
    /// The device exists but does not work; libtorch's message.
    Broken(String),
}

impl CudaUnavailable {
    /// Why there is no device with this index.
    pub(super) fn of(cuda: &Cuda, driver: &Driver, index: usize) -> Self {
        if cuda.devices > 0 {
            return Self::Index { index, devices: cuda.devices };
        }
        match (&driver.library, &cuda.library) {
            (Err(driver), Err(library)) => Self::Both { driver: driver.clone(), library: library.clone() },
            (Err(driver), Ok(())) => Self::Driver(driver.clone()),
            (Ok(()), Err(library)) => Self::Library(library.clone()),
            (Ok(()), Ok(())) => match driver.cuda {
                Some(cuda) if cuda < NEEDED_CUDA => Self::OldDriver { cuda },
                _ => Self::Device { driver: driver.version.clone() },
            },
        }
    }

    /// Why a device that exists does not compute, from libtorch's message.
    pub(super) fn of_failure(message: String) -> Self {
        if message.contains("no kernel image is available") { Self::TooOld(message) } else { Self::Broken(message) }
    }

    /// What is wrong.
    pub fn what(&self) -> String {
        match self {
            Self::Both { driver, library } => format!(
                "there is no NVIDIA driver ({driver}), and libtorch's CUDA libraries are missing too ({library})"
            ),
            Self::Driver(message) => format!("there is no NVIDIA driver ({message})"),
            Self::Library(message) => {
                format!("libtorch's CUDA libraries are missing or do not load ({message})")
            }
            Self::OldDriver { cuda } => format!(
                "the NVIDIA driver is too old: it supports CUDA {} at most, and libtorch is built for CUDA {}",
                cuda_version(*cuda),
                cuda_version(NEEDED_CUDA)
            ),
            Self::Device { driver } => {
                let mut text = "driver and CUDA libraries are installed, but libtorch sees no device".to_string();
                if let Some(driver) = driver {
                    text += &format!(" (driver: {driver})");
                }
                if let Ok(visible) = std::env::var("CUDA_VISIBLE_DEVICES") {
                    text += &format!(" (`CUDA_VISIBLE_DEVICES` is `{visible}`)");
                }
                text
            }
            Self::Index { index, devices: 1 } => format!("there is no CUDA device {index}, only 1 device"),
            Self::Index { index, devices } => format!("there is no CUDA device {index}, only {devices} devices"),
            Self::TooOld(message) => format!(
                "the GPU is too old: libtorch has kernels for compute capability {OLDEST_CAPABILITY} and later ({message})"
            ),
            Self::Inexact { error } => format!(
                "matrix products are rounded to TF32 (an error of {error} where f32 is exact), which makes losses and \
                 evaluation wrong"
            ),
            Self::Broken(message) => format!("the CUDA device does not work ({message})"),
        }
    }

    /// What to do about it.
    pub fn fix(&self) -> String {
        match self {
            Self::Both { .. } => format!(
                "install a driver ({OLDEST_DRIVER} or newer), then `pip install torch==2.13.0` (in a clone: \
                 `scripts/setup --cuda`), or use `--device cpu`"
            ),
            Self::Driver(_) => {
                format!("install it ({OLDEST_DRIVER} or newer), expose it to the container, or use `--device cpu`")
            }
            Self::Library(_) => {
                "install all of them with `pip install torch==2.13.0` (in a clone: `scripts/setup --cuda`), \
                                or use `--device cpu`"
                    .into()
            }
            Self::OldDriver { .. } => format!("install driver {OLDEST_DRIVER} or newer, or use `--device cpu`"),
            Self::Device { .. } => format!(
                "check that the driver is {OLDEST_DRIVER} or newer and that `nvidia-smi` lists the GPU, or use \
                 `--device cpu`"
            ),
            Self::Index { devices: 1, .. } => "use `--device cuda:0`".into(),
            Self::Index { devices, .. } => format!("choose from `cuda:0` to `cuda:{}`", devices.saturating_sub(1)),
            Self::TooOld(_) => "use a GPU of the Turing generation (RTX 20, T4) or later, or `--device cpu`".into(),
            Self::Inexact { .. } => "unset `TORCH_ALLOW_TF32_CUBLAS_OVERRIDE` and `NVIDIA_TF32_OVERRIDE`, which some \
                                     container images set, or use `--device cpu`"
                .into(),
            Self::Broken(_) => "check whether other CUDA programs work, or use `--device cpu`".into(),
        }
    }
}

/// A version as people write it, e.g. 12.2 for 12020.
fn cuda_version(encoded: i32) -> String {
    format!("{}.{}", encoded / 1000, encoded % 1000 / 10)
}

impl fmt::Display for CudaUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}; {}", self.what(), self.fix())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(library: Result<(), String>) -> Driver {
        Driver { library, cuda: Some(13_010), version: Some("590.10".into()), gpus: Vec::new() }
    }

    fn message(driver_library: Result<(), &str>, library: Result<(), &str>, devices: usize, index: usize) -> String {
        let cuda = Cuda { library: library.map_err(String::from), devices };
        CudaUnavailable::of(&cuda, &driver(driver_library.map_err(String::from)), index).to_string()
    }

    #[test]
    fn the_missing_component_is_named_with_its_fix() {
        let no_library = message(Ok(()), Err("libcudnn.so.9: not found"), 0, 0);
        assert!(no_library.contains("libcudnn.so.9") && no_library.contains("`scripts/setup --cuda`"), "{no_library}");
        let no_driver = message(Err("libcuda.so.1: not found"), Ok(()), 0, 0);
        assert!(no_driver.contains("no NVIDIA driver") && !no_driver.contains("scripts/setup"), "{no_driver}");
        let neither = message(Err("libcuda.so.1: not found"), Err("libcudnn.so.9: not found"), 0, 0);
        assert!(neither.contains("libcuda.so.1") && neither.contains("libcudnn.so.9"), "{neither}");
        let no_device = message(Ok(()), Ok(()), 0, 0);
        assert!(no_device.contains("no device") && no_device.contains("590.10"), "{no_device}");
    }

    #[test]
    fn an_old_driver_is_named_with_the_versions() {
        let cuda = Cuda { library: Ok(()), devices: 0 };
        let old = CudaUnavailable::of(&cuda, &Driver { cuda: Some(12_020), ..driver(Ok(())) }, 0).to_string();
        assert!(old.contains("supports CUDA 12.2 at most") && old.contains("built for CUDA 13.0"), "{old}");
        assert!(old.contains("install driver 580 or newer"), "{old}");
        let unknown = CudaUnavailable::of(&cuda, &Driver { cuda: None, ..driver(Ok(())) }, 0);
        assert!(matches!(unknown, CudaUnavailable::Device { .. }));
    }

    #[test]
    fn an_index_out_of_range_states_the_number_of_devices() {
        assert!(message(Ok(()), Ok(()), 1, 3).contains("only 1 device; use `--device cuda:0`"));
        assert!(message(Ok(()), Ok(()), 4, 4).contains("only 4 devices; choose from `cuda:0` to `cuda:3`"));
    }

    #[test]
    fn a_device_without_kernels_is_too_old_rather_than_broken() {
        let old = CudaUnavailable::of_failure("CUDA error: no kernel image is available for execution".into());
        let text = old.to_string();
        assert!(text.contains("compute capability 7.5 and later") && !text.contains("other CUDA programs"), "{text}");
        assert!(CudaUnavailable::of_failure("unspecified".into()).to_string().contains("other CUDA programs"));
    }

    #[test]
    fn rounded_products_name_the_variables_to_unset() {
        let text = CudaUnavailable::Inexact { error: "2.4e-4".into() }.to_string();
        assert!(text.contains("TF32") && text.contains("`TORCH_ALLOW_TF32_CUBLAS_OVERRIDE`"), "{text}");
    }
}
