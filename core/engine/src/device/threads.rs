//! The number of compute threads.

use crate::{Error, Result};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tch::Device;

/// More than any machine has processors.
const MOST: i32 = 4096;

/// Whether the user chose the number of threads.
static CHOSEN: AtomicBool = AtomicBool::new(false);

/// Sets the number of libtorch and rayon threads, and returns it; also prepares the process for
/// computing on the CPU.
///
/// The default is `OMP_NUM_THREADS`, as elsewhere in the field, else the number of physical cores: two
/// threads on one core compete for its floating-point units. Call this once per process, before any
/// parallel work; calling it again with the same number does nothing.
pub fn set_threads(threads: Option<usize>) -> Result<usize> {
    let chosen = match threads {
        Some(0) => return Err(Error::Usage("the number of threads must be 1 or more, not 0".into())),
        Some(threads) => Some(threads),
        None => from_environment()?,
    };
    CHOSEN.store(chosen.is_some(), Relaxed);
    let threads = chosen.unwrap_or_else(physical_cores);
    let for_torch = i32::try_from(threads).ok().filter(|threads| *threads <= MOST);
    let for_torch = for_torch.ok_or_else(|| {
        Error::Usage(format!("{threads} threads are too many; physical cores on this machine: {}", physical_cores()))
    })?;
    let available = std::thread::available_parallelism().map_or(threads, usize::from);
    if threads > available {
        tracing::warn!("{threads} threads on {available} CPUs are slower than {available} would be");
    }

    super::heap::keep_freed_memory();
    super::onednn::avoid_half_hidden_tiles();
    // Fails if the pool already exists, which is fine if it has the right size.
    let _ = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    let in_use = rayon::current_num_threads();
    if in_use != threads {
        return Err(Error::Failed(format!("the number of threads is already {in_use} and cannot become {threads}")));
    }
    // libtorch lets the inter-op threads be set only once, so an error here means they already are.
    let _ = curricle_sdk::guard(|| {
        tch::set_num_interop_threads(1);
        Ok(())
    });
    tch::set_num_threads(for_torch);
    Ok(threads)
}

/// Number of threads that decode images for a network on this device.
///
/// On a CPU they share the cores with the network. If a GPU computes it, hyper-threads help too: decoding waits for
/// memory more than for arithmetic.
pub(crate) fn decoder_threads(device: Device) -> usize {
    let threads = rayon::current_num_threads();
    if !device.is_cuda() || CHOSEN.load(Relaxed) {
        return threads;
    }
    std::thread::available_parallelism().map_or(threads, |logical| logical.get().max(threads))
}

fn from_environment() -> Result<Option<usize>> {
    match std::env::var("OMP_NUM_THREADS") {
        Ok(text) if !text.is_empty() => parse_omp(&text).map(Some),
        _ => Ok(None),
    }
}

/// OpenMP allows a list with one number per nesting level; only the first matters here.
fn parse_omp(text: &str) -> Result<usize> {
    let first = text.split(',').next().unwrap_or_default().trim();
    first.parse().ok().filter(|&n| n > 0).ok_or_else(|| {
        Error::Usage(format!("`OMP_NUM_THREADS` is `{text}`, not a number of threads; correct or unset it"))
    })
}

/// Number of physical cores this process may use, as limited by affinity and control groups.
pub fn physical_cores() -> usize {
    let logical = std::thread::available_parallelism().map_or(1, usize::from);
    let status = fs_err::read_to_string("/proc/self/status").unwrap_or_default();
    cores(&status, Path::new("/sys/devices/system/cpu")).map_or(logical, |cores| cores.min(logical))
}

/// Counts distinct cores among the CPUs that `/proc/self/status` allows.
fn cores(status: &str, cpus: &Path) -> Option<usize> {
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let siblings: Option<BTreeSet<String>> = parse_list(allowed.trim())?
        .into_iter()
        .map(|cpu| fs_err::read_to_string(cpus.join(format!("cpu{cpu}/topology/thread_siblings_list"))).ok())
        .collect();
    siblings.map(|cores| cores.len()).filter(|&cores| cores > 0)
}

/// Parses the kernel's list notation, e.g. `0-3,8`.
fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hyper_threads_of_one_core_count_once_and_disallowed_cpus_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        for (cpu, siblings) in [(0, "0,2"), (1, "1,3"), (2, "0,2"), (3, "1,3"), (4, "4"), (5, "5")] {
            let topology = folder.path().join(format!("cpu{cpu}/topology"));
            fs_err::create_dir_all(&topology).unwrap();
            fs_err::write(topology.join("thread_siblings_list"), siblings).unwrap();
        }
        let count = |allowed| cores(&format!("Name:\tx\nCpus_allowed_list:\t{allowed}\n"), folder.path());
        assert_eq!(count("0-5"), Some(4));
        assert_eq!(count("0,2"), Some(1));
        assert_eq!(count("0-1,4"), Some(3));
        assert_eq!(count("0-9"), None, "the topology of some is unknown");
        assert_eq!(cores("", folder.path()), None);
    }

    #[test]
    fn there_is_at_least_one_core() {
        assert!(physical_cores() >= 1);
    }

    #[test]
    fn omp_num_threads_is_a_number_or_a_list() {
        assert_eq!(parse_omp("4").unwrap(), 4);
        assert_eq!(parse_omp("4,2").unwrap(), 4);
        for wrong in ["", "0", "many", "-1"] {
            assert!(parse_omp(wrong).unwrap_err().to_string().contains("OMP_NUM_THREADS"));
        }
    }

    #[test]
    fn images_for_a_gpu_are_decoded_on_all_logical_cpus() {
        let logical = std::thread::available_parallelism().unwrap().get();
        let computing = rayon::current_num_threads();
        assert_eq!(decoder_threads(Device::Cpu), computing);
        // Other tests of this process do not choose a number.
        assert_eq!(decoder_threads(Device::Cuda(0)), logical.max(computing));
    }

    #[test]
    fn zero_threads_are_a_usage_error() {
        assert_eq!(set_threads(Some(0)).unwrap_err().exit(), curricle_record::Exit::Usage);
    }
}
