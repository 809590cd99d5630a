//! A trap in oneDNN, libtorch's library for convolutions on the CPU.

/// Limits the instructions that oneDNN uses.
const ISA: &str = "ONEDNN_MAX_CPU_ISA";

/// Keeps oneDNN from matrix tiles (AMX) on virtual machines that announce them but hide how they are
/// made: it would believe that there are none, use them all the same for short numbers, and the
/// program would end by an illegal instruction. Must come before the first convolution.
pub(super) fn avoid_half_hidden_tiles() {
    if tiles_half_hidden() && std::env::var_os(ISA).is_none() {
        tracing::debug!("this machine announces AMX tiles but not their sizes; oneDNN does without");
        // SAFETY: this comes before libtorch computes, and no other thread of this program reads or
        // writes the environment.
        unsafe { std::env::set_var(ISA, "AVX512_CORE_FP16") };
    }
}

#[cfg(target_arch = "x86_64")]
fn tiles_half_hidden() -> bool {
    use std::arch::x86_64::{__cpuid_count, __get_cpuid_max};
    const FEATURES: u32 = 7;
    const TILES: u32 = 0x1d;
    let (last, _) = __get_cpuid_max(0);
    let announced = last >= FEATURES && __cpuid_count(FEATURES, 0).edx & (1 << 24) != 0;
    announced && (last < TILES || __cpuid_count(TILES, 0).eax == 0)
}

#[cfg(not(target_arch = "x86_64"))]
fn tiles_half_hidden() -> bool {
    false
}

/// Tests run side by side, so this is settled before any of them begins.
#[cfg(test)]
#[used]
// SAFETY: what stands in this section is called once with no arguments before `main`.
#[unsafe(link_section = ".init_array")]
static BEFORE_TESTS: extern "C" fn() = {
    extern "C" fn settle() {
        avoid_half_hidden_tiles();
    }
    settle
};
