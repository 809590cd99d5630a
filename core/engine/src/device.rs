//! Device selection.

pub mod cuda;
mod heap;
pub mod libtorch;
pub mod memory;
mod onednn;
mod switches;
mod threads;
mod unavailable;

pub(crate) use switches::set_switches;
pub(crate) use threads::decoder_threads;
pub use threads::{physical_cores, set_threads};
pub use unavailable::CudaUnavailable;

use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;
use tch::Device;

/// The device a user asks for: `auto`, `cpu`, `cuda` or `cuda:N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// The first CUDA device if it works, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The CUDA device with this index; an error if it does not exist.
    Cuda(usize),
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number =
            |n: &str| (n.len() <= 4 && n.bytes().all(|b| b.is_ascii_digit())).then(|| n.parse().ok()).flatten();
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            _ => text.strip_prefix("cuda:").and_then(number).map(Self::Cuda).ok_or_else(|| {
                format!("`{text}` is not a device; use `auto`, `cpu`, `cuda` or `cuda:N`, e.g. `cuda:1`")
            }),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

/// The device's name as `--device` spells it.
pub fn name(device: Device) -> String {
    match device {
        Device::Cpu => "cpu".into(),
        Device::Cuda(index) => format!("cuda:{index}"),
        other => format!("{other:?}").to_lowercase(),
    }
}

/// Turns the choice into a working device.
///
/// Call this before the first use of libtorch: libtorch looks for its CUDA library only once, and never
/// finds it if it is loaded later.
pub fn resolve(choice: DeviceChoice) -> Result<Device> {
    match choice {
        DeviceChoice::Cpu => Ok(Device::Cpu),
        DeviceChoice::Cuda(index) => match cuda::probe().device(index) {
            Ok(device) => Ok(device),
            Err(why) => Err(Error::Usage(format!("cannot use `{choice}`: {why}"))),
        },
        DeviceChoice::Auto => Ok(automatic()),
    }
}

fn automatic() -> Device {
    // Loading the CUDA libraries takes seconds and is useless without a driver. A library that is
    // already loaded was preloaded on purpose.
    if !cuda::is_loaded() && cuda::driver().library.is_err() {
        tracing::info!("using `cpu`: there is no NVIDIA driver");
        return Device::Cpu;
    }
    match cuda::probe().device(0) {
        Ok(device) => {
            tracing::info!("using `{}`", name(device));
            device
        }
        // With a driver installed, the user very likely has a GPU and expects it to be used.
        Err(why) => {
            tracing::warn!("using `cpu` although there is an NVIDIA driver: {why}");
            Device::Cpu
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_choices_round_trip_through_their_names() {
        for (text, choice) in [
            ("auto", DeviceChoice::Auto),
            ("cpu", DeviceChoice::Cpu),
            ("cuda", DeviceChoice::Cuda(0)),
            ("cuda:0", DeviceChoice::Cuda(0)),
            ("cuda:12", DeviceChoice::Cuda(12)),
        ] {
            assert_eq!(text.parse(), Ok(choice), "{text}");
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
    }

    #[test]
    fn an_unknown_device_is_refused_with_the_alternatives() {
        for text in ["", "gpu", "CUDA", "cuda:", "cuda:-1", "cuda:+1", "cuda:x", "cuda:99999", "cuda0"] {
            let message = text.parse::<DeviceChoice>().unwrap_err();
            assert!(message.contains(&format!("`{text}`")) && message.contains("`cuda:N`"), "{message}");
        }
    }

    #[test]
    fn the_cpu_is_always_available() {
        assert_eq!(resolve(DeviceChoice::Cpu).unwrap(), Device::Cpu);
    }
}
