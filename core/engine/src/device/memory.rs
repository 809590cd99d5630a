//! Out-of-memory errors with a remedy.

use super::name;
use crate::Error;
use tch::Device;

/// What ran out of memory, and what to do about it.
#[derive(Debug)]
pub struct Need {
    /// The operation, with the relevant sizes.
    pub what: String,
    /// What to change.
    pub remedy: String,
}

/// Explains an out-of-memory error; returns other errors unchanged.
pub fn explain(error: Error, device: Device, need: impl FnOnce() -> Need) -> Error {
    let text = error.to_string();
    if !is_out_of_memory(&text) {
        return error;
    }
    let Need { what, remedy } = need();
    let others = if device.is_cuda() { "; `nvidia-smi` shows whether other programs use GPU memory" } else { "" };
    Error::OutOfMemory(format!("`{}` has too little memory for {what}: {remedy}{others} ({text})", name(device)))
}

/// Bytes of main memory that programs can still use, where the system tells.
pub(crate) fn available() -> Option<u64> {
    let table = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = table.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.saturating_mul(1024))
}

/// tch keeps only the text of libtorch's exception. It comes from libtorch's allocators, from the driver,
/// or from libraries that allocate memory themselves.
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
    fn an_out_of_memory_error_states_the_remedy() {
        for message in [
            "CUDA out of memory. Tried to allocate 2.00 GiB.",
            "CUDA error: out of memory",
            "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes.",
            "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        ] {
            let text = explained(message, Device::Cuda(1));
            assert!(text.starts_with("`cuda:1` has too little memory for 80 samples: use fewer;"), "{text}");
            assert!(text.contains(message));
        }
        assert!(!explained("CUDA out of memory.", Device::Cpu).contains("nvidia-smi"));
    }

    #[test]
    fn other_errors_are_unchanged() {
        assert_eq!(explained("sizes differ", Device::Cpu), "while x: libtorch: sizes differ");
    }
}
