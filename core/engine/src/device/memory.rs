//! Errors of too little memory, with what to do about them.

use super::name;
use crate::Error;
use tch::Device;

/// What needed the memory.
#[derive(Debug)]
pub struct Need {
    /// What was going on, with the sizes that matter.
    pub what: String,
    /// What to change.
    pub remedy: String,
}

/// Restates an error of too little memory; leaves other errors alone.
pub fn explain(error: Error, device: Device, need: impl FnOnce() -> Need) -> Error {
    let text = error.to_string();
    if !is_out_of_memory(&text) {
        return error;
    }
    let Need { what, remedy } = need();
    let others = if device.is_cuda() { "; `nvidia-smi` shows whether other programs hold some of it" } else { "" };
    Error::OutOfMemory(format!("the memory of `{}` is not enough for {what}: {remedy}{others} ({text})", name(device)))
}

/// libtorch has one type for it and tch keeps only the text, which comes from its own allocators, from
/// the driver, or from the libraries that allocate by themselves.
fn is_out_of_memory(text: &str) -> bool {
    ["out of memory", "can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED"]
        .iter()
        .any(|sign| text.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(message: &str, device: Device) -> String {
        let error = Error::Torch { during: "x", source: curricle_sdk::Error::Torch(message.into()) };
        explain(error, device, || Need { what: "80 samples".into(), remedy: "use fewer".into() }).to_string()
    }

    #[test]
    fn too_little_memory_is_restated_with_the_remedy() {
        for message in [
            "CUDA out of memory. Tried to allocate 2.00 GiB.",
            "CUDA error: out of memory",
            "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes.",
            "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        ] {
            let text = explained(message, Device::Cuda(1));
            assert!(text.starts_with("the memory of `cuda:1` is not enough for 80 samples: use fewer;"), "{text}");
            assert!(text.contains(message));
        }
        assert!(!explained("CUDA out of memory.", Device::Cpu).contains("nvidia-smi"));
    }

    #[test]
    fn other_errors_stay_as_they_are() {
        assert_eq!(explained("sizes differ", Device::Cpu), "while x: libtorch: sizes differ");
    }
}
