//! `curricle doctor`: checks everything outside the recipe that a run depends on.

mod checks;
mod libraries;
mod text;
mod trial;

pub use libraries::CudaLibrary;
pub use trial::DeviceTrial;

use crate::device::{self, DeviceChoice, cuda, libtorch};
use serde::Serialize;
use std::io::IsTerminal;
use std::path::PathBuf;

/// Version of the JSON report.
const FORMAT: u32 = 1;

/// The report of `curricle doctor`.
#[derive(Debug, Serialize)]
pub struct DoctorReport {
    /// Version of this format.
    pub format: u32,
    /// Whether nothing is broken. Warnings do not count.
    pub ok: bool,
    /// Versions of the program and its dependencies.
    pub versions: Versions,
    /// The loaded libtorch.
    pub libtorch: Libtorch,
    /// Working devices, as `--device` spells them.
    pub devices: Vec<String>,
    /// The device that `--device auto` selects.
    pub auto: String,
    /// The state of CUDA.
    pub cuda: CudaReport,
    /// CPUs and threads.
    pub threads: Threads,
    /// The current folder and its free space.
    pub disk: Disk,
    /// Where output goes.
    pub terminal: Terminal,
    /// Problems found, worst first.
    pub problems: Vec<DoctorProblem>,
}

/// Versions of the program and its dependencies.
#[derive(Debug, Serialize)]
pub struct Versions {
    /// The program.
    pub curricle: &'static str,
    /// The libtorch bindings.
    pub tch: &'static str,
    /// The compiler that built the program.
    pub rustc: &'static str,
}

/// The loaded libtorch.
#[derive(Debug, Serialize)]
pub struct Libtorch {
    /// The version the program requires.
    pub wanted: &'static str,
    /// The version found.
    pub found: Option<String>,
    /// The folder it was loaded from.
    pub folder: Option<PathBuf>,
}

/// The state of CUDA.
#[derive(Debug, Serialize)]
pub struct CudaReport {
    /// Whether the NVIDIA driver's library loads.
    pub driver: bool,
    /// The loader's message if it does not.
    pub driver_message: Option<String>,
    /// The kernel module's version string.
    pub driver_version: Option<String>,
    /// Models of the GPUs that the kernel module lists.
    pub gpus: Vec<String>,
    /// Whether libtorch's CUDA libraries load.
    pub libraries: bool,
    /// The loader's message if they do not.
    pub libraries_message: Option<String>,
    /// Number of devices that libtorch sees, working or not.
    pub devices: usize,
    /// A small training step on each working device, in each precision.
    pub trials: Vec<DeviceTrial>,
    /// The cuDNN and cuBLAS files that were loaded.
    pub loaded: Vec<CudaLibrary>,
}

/// CPUs and threads.
#[derive(Debug, Serialize)]
pub struct Threads {
    /// Logical CPUs this process may use.
    pub logical: usize,
    /// Physical cores this process may use.
    pub physical: usize,
    /// `OMP_NUM_THREADS`, if it is set.
    pub omp_num_threads: Option<String>,
}

/// A folder and its free space.
#[derive(Debug, Serialize)]
pub struct Disk {
    /// The folder.
    pub folder: PathBuf,
    /// Free bytes, if the system reports them.
    pub free_bytes: Option<u64>,
    /// Whether files can be created there.
    pub writable: bool,
}

/// Where output goes.
#[derive(Debug, Serialize)]
pub struct Terminal {
    /// Whether standard output is a terminal.
    pub stdout: bool,
    /// Whether standard error is a terminal; progress bars need it.
    pub stderr: bool,
    /// Whether `NO_COLOR` asks for plain text.
    pub no_color: bool,
    /// `TERM`, if it is set.
    pub term: Option<String>,
}

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Runs will fail.
    Broken,
    /// Runs will work, but not as well as they could.
    Warning,
}

/// A problem and its fix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DoctorProblem {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub fix: String,
}

impl DoctorProblem {
    fn broken(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { severity: Severity::Broken, what: what.into(), fix: fix.into() }
    }

    fn warning(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, what: what.into(), fix: fix.into() }
    }
}

/// Runs all checks. `needed` is the device that must work; for `auto` the CPU is enough.
///
/// Call this before the first use of libtorch, for the same reason as [`device::resolve`].
pub fn examine(needed: DeviceChoice) -> DoctorReport {
    let driver = cuda::driver();
    let found = cuda::probe();
    let working: Vec<_> = (0..found.devices).map(|index| found.device(index)).collect();

    let trials = working.iter().flatten().flat_map(|&device| trial::try_device(device)).collect();
    // After the trials, because cuDNN loads most of its files at the first convolution.
    let loaded = libraries::cuda_libraries(&libtorch::loaded_files(), libtorch::folder().as_deref());

    let mut devices = vec!["cpu".to_string()];
    devices.extend(working.iter().flatten().map(|&device| device::name(device)));
    let auto = working.first().and_then(|first| first.as_ref().ok()).map_or("cpu".into(), |&d| device::name(d));

    let mut report = DoctorReport {
        format: FORMAT,
        ok: true,
        versions: Versions { curricle: env!("CARGO_PKG_VERSION"), tch: libtorch::TCH, rustc: env!("CURRICLE_RUSTC") },
        libtorch: Libtorch { wanted: libtorch::REQUIRED, found: libtorch::version(), folder: libtorch::folder() },
        devices,
        auto,
        cuda: CudaReport {
            driver: driver.library.is_ok(),
            driver_message: driver.library.clone().err(),
            driver_version: driver.version.clone(),
            gpus: driver.gpus.clone(),
            libraries: found.library.is_ok(),
            libraries_message: found.library.clone().err(),
            devices: found.devices,
            trials,
            loaded,
        },
        threads: Threads {
            logical: std::thread::available_parallelism().map_or(1, usize::from),
            physical: device::physical_cores(),
            omp_num_threads: std::env::var("OMP_NUM_THREADS").ok(),
        },
        disk: disk(),
        terminal: Terminal {
            stdout: std::io::stdout().is_terminal(),
            stderr: std::io::stderr().is_terminal(),
            no_color: std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty()),
            term: std::env::var("TERM").ok(),
        },
        problems: Vec::new(),
    };
    report.problems = checks::problems(&report, needed);
    report.ok = report.problems.iter().all(|p| p.severity != Severity::Broken);
    report
}

fn disk() -> Disk {
    let folder = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let free_bytes = rustix::fs::statvfs(&folder).ok().map(|s| s.f_bavail.saturating_mul(s.f_frsize));
    let writable = tempfile::tempfile_in(&folder).is_ok();
    Disk { folder, free_bytes, writable }
}
