//! How the C library's heap treats the memory of tensors.

/// Tensors larger than this are rare enough, and worth enough, to be given back at once.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: libc::c_int = 1 << 30;

/// Keeps the memory of freed tensors for the next ones.
///
/// By default glibc takes every larger block fresh from the kernel and gives it back when it is freed.
/// Each activation of each step then costs page faults and the zeroing of pages: a quarter of the time and
/// more on a CPU (docs/speed.md). Should be called before the first tensor is made.
pub(super) fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt may be called at any time; refused settings leave the heap as it was.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
    }
}
