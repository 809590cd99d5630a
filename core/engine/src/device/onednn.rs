//! Works around a crash in oneDNN, which libtorch uses for convolutions on the CPU.

/// Limits the instruction set that oneDNN uses.
const ISA: &str = "ONEDNN_MAX_CPU_ISA";

/// Keeps oneDNN from using AMX tiles on virtual machines that announce AMX but hide the tile
/// configuration: oneDNN would use them anyway for 16-bit types, and the program would die of an
/// illegal instruction. Call this before the first convolution.
pub(super) fn avoid_half_hidden_tiles() {
    if tiles_half_hidden() && std::env::var_os(ISA).is_none() {
        tracing::debug!("this machine announces AMX but not its tile sizes; AMX is disabled in oneDNN");
        // SAFETY: this runs before libtorch computes anything, and no other thread of this program reads
        // or writes the environment.
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

/// Tests run in parallel, so this runs before any of them starts.
#[cfg(test)]
#[used]
// SAFETY: functions in this section are called once, without arguments, before `main`.
#[unsafe(link_section = ".init_array")]
static BEFORE_TESTS: extern "C" fn() = {
    extern "C" fn settle() {
        avoid_half_hidden_tiles();
    }
    settle
};
