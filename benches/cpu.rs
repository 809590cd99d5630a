//! The name of the CPU, which every benchmark prints: ratios differ between kinds of machines.

/// The model as the kernel reports it, e.g. `AMD EPYC 9R14`.
pub(crate) fn name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let wide = if text.contains(" avx512f") { "with" } else { "without" };
    model.map_or_else(|| "unknown CPU".into(), |(_, name)| format!("{name} {wide} AVX-512"))
}
