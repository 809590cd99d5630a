//! Settings of the C heap for tensor memory.

/// Larger tensors are rare and large enough to be returned to the kernel at once.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: libc::c_int = 1 << 30;

/// Keeps the memory of freed tensors for reuse.
///
/// By default glibc maps every large block from the kernel and unmaps it when it is freed. Each activation
/// of each step then costs page faults and zeroed pages: a quarter of the time or more on a CPU
/// (docs/speed.md). Call this before the first tensor is created.
pub(super) fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt may be called at any time; rejected settings have no effect.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
    }
}
