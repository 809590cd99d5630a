//! The checks of `curricle doctor`.

use super::{DoctorProblem, DoctorReport};
use crate::device::{DeviceChoice, cuda};
use tch::{Device, Kind, Tensor};

/// With less than this, the checkpoints and event files of a few runs may not fit.
const LITTLE_SPACE: u64 = 1 << 30;

pub(super) fn problems(report: &DoctorReport, needed: DeviceChoice) -> Vec<DoctorProblem> {
    let mut problems: Vec<DoctorProblem> =
        [libtorch(report), cpu(), needed_device(needed), unused_gpu(report, needed), threads(report)]
            .into_iter()
            .flatten()
            .chain(trials(report, needed))
            .chain(foreign_libraries(report))
            .chain(disk(report))
            .collect();
    problems.sort_by_key(|p| p.severity);
    problems
}

fn libtorch(report: &DoctorReport) -> Option<DoctorProblem> {
    let wanted = report.libtorch.wanted;
    let found = report.libtorch.found.as_deref().unwrap_or("of unknown version");
    if found == wanted {
        return None;
    }
    let folder = report.libtorch.folder.as_ref().map(|f| format!(" in `{}`", f.display())).unwrap_or_default();
    // Patch releases keep the binary interface.
    if series(found) == series(wanted) {
        return Some(DoctorProblem::warning(
            format!("libtorch is {found}{folder}, but curricle is tested with {wanted}"),
            "if results look odd, run `scripts/setup --cpu` or `scripts/setup --cuda`",
        ));
    }
    Some(DoctorProblem::broken(
        format!("libtorch is {found}{folder}, but curricle requires {wanted}"),
        "run `scripts/setup` and rebuild; if `LD_LIBRARY_PATH` points to another libtorch, unset it",
    ))
}

/// Major and minor version.
fn series(version: &str) -> Vec<&str> {
    version.split('.').take(2).collect()
}

/// Multiplies two matrices whose product is known.
fn cpu() -> Option<DoctorProblem> {
    let product = curricle_sdk::guard(|| {
        let twos = Tensor::full([8, 8], 2.0, (Kind::Float, Device::Cpu));
        Ok(twos.matmul(&twos).sum(Kind::Double).double_value(&[]))
    });
    let what = match product {
        Ok(2048.0) => return None,
        Ok(wrong) => format!("libtorch computes wrong results on the CPU: {wrong} instead of 2048"),
        Err(error) => format!("libtorch does not work on the CPU: {error}"),
    };
    Some(DoctorProblem::broken(what, "run `scripts/setup --force` and rebuild"))
}

fn needed_device(needed: DeviceChoice) -> Option<DoctorProblem> {
    match needed {
        // `auto` falls back to the CPU, which has its own check.
        DeviceChoice::Auto | DeviceChoice::Cpu => None,
        DeviceChoice::Cuda(index) => {
            let missing = cuda::probe().device(index).err()?;
            Some(DoctorProblem::broken(format!("`{needed}` cannot be used: {}", missing.what()), missing.fix()))
        }
    }
}

/// An unusable GPU is only a warning, because runs fall back to the CPU.
fn unused_gpu(report: &DoctorReport, needed: DeviceChoice) -> Option<DoctorProblem> {
    let gpu_expected = report.cuda.driver || !report.cuda.gpus.is_empty();
    if needed != DeviceChoice::Auto || !gpu_expected || report.auto != "cpu" {
        return None;
    }
    let missing = cuda::probe().device(0).err()?;
    Some(DoctorProblem::warning(format!("the GPU cannot be used: {}", missing.what()), missing.fix()))
}

/// A device that exists but cannot take a training step.
fn trials(report: &DoctorReport, needed: DeviceChoice) -> Vec<DoctorProblem> {
    let will_be_used = |device: &str| match needed {
        DeviceChoice::Auto => report.auto == device,
        DeviceChoice::Cpu => false,
        DeviceChoice::Cuda(_) => needed.to_string() == device,
    };
    let failed = report.cuda.trials.iter().filter_map(|trial| Some((trial, trial.error.as_ref()?)));
    failed
        .map(|(trial, error)| {
            let what = format!("`{}` fails at a training step in {}: {error}", trial.device, trial.precision);
            match trial.precision {
                "f32" if will_be_used(&trial.device) => DoctorProblem::broken(
                    what,
                    "check the driver and the CUDA libraries listed above, or use another `--device`",
                ),
                "f32" => DoctorProblem::warning(what, "use another `--device`"),
                _ => DoctorProblem::warning(what, "leave `train.precision` at \"f32\" on this device, or use \"f16\""),
            }
        })
        .collect()
}

fn foreign_libraries(report: &DoctorReport) -> Option<DoctorProblem> {
    let foreign: Vec<_> = report.cuda.loaded.iter().filter(|library| library.instead_of.is_some()).collect();
    let first = foreign.first()?;
    let own = first.instead_of.as_ref()?;
    let more = match foreign.len() {
        1 => String::new(),
        n => format!(", and {} more", n - 1),
    };
    Some(DoctorProblem::warning(
        format!("`{}` was loaded instead of libtorch's own `{}`{more}", first.file.display(), own.display()),
        "unset `LD_LIBRARY_PATH`, or remove the folder from it: versions that do not match fail at the first convolution",
    ))
}

fn threads(report: &DoctorReport) -> Option<DoctorProblem> {
    let text = report.threads.omp_num_threads.as_deref().filter(|t| !t.is_empty())?;
    let number: Option<usize> = text.split(',').next().and_then(|n| n.trim().parse().ok());
    match number {
        Some(0) | None => Some(DoctorProblem::broken(
            format!("`OMP_NUM_THREADS` is `{text}`, not a number of threads"),
            "correct it or unset it",
        )),
        Some(n) if n > report.threads.logical => Some(DoctorProblem::warning(
            format!("`OMP_NUM_THREADS` is {n}, more than the number of CPUs ({})", report.threads.logical),
            "unset it to use every physical core",
        )),
        Some(_) => None,
    }
}

fn disk(report: &DoctorReport) -> Vec<DoctorProblem> {
    let folder = report.disk.folder.display();
    let mut problems = Vec::new();
    if !report.disk.writable {
        problems.push(DoctorProblem::warning(
            format!("`{folder}` is not writable, and runs are saved in its folder `runs`"),
            "change to another folder, or choose one with `--out`",
        ));
    }
    if let Some(free) = report.disk.free_bytes.filter(|&free| free < LITTLE_SPACE) {
        problems.push(DoctorProblem::warning(
            format!("only {} MB are free in `{folder}`", free >> 20),
            "free some space, or choose another folder with `--out`",
        ));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::{CudaLibrary, DeviceTrial, Severity, examine};

    fn healthy() -> DoctorReport {
        let mut report = examine(DeviceChoice::Cpu);
        report.threads.omp_num_threads = None;
        report.disk.writable = true;
        report.disk.free_bytes = Some(1 << 40);
        report
    }

    fn found(report: &DoctorReport) -> Vec<(Severity, String)> {
        problems(report, DeviceChoice::Cpu).into_iter().map(|p| (p.severity, p.what)).collect()
    }

    #[test]
    fn a_healthy_machine_has_no_problems() {
        assert_eq!(found(&healthy()), []);
    }

    #[test]
    fn another_libtorch_series_is_broken_and_another_patch_release_a_warning() {
        let mut report = healthy();
        report.libtorch.found = Some("2.6.0".into());
        let (severity, what) = found(&report).remove(0);
        assert_eq!(severity, Severity::Broken);
        assert!(what.contains("libtorch is 2.6.0") && what.contains("2.13.0"), "{what}");
        report.libtorch.found = Some("2.13.1".into());
        assert_eq!(found(&report)[0].0, Severity::Warning);
    }

    #[test]
    fn an_invalid_thread_count_is_broken_and_an_excessive_one_a_warning() {
        let mut report = healthy();
        report.threads.omp_num_threads = Some("lots".into());
        assert_eq!(found(&report)[0].0, Severity::Broken);
        report.threads.omp_num_threads = Some("4096".into());
        assert_eq!(found(&report)[0].0, Severity::Warning);
        report.threads.omp_num_threads = Some("1".into());
        assert_eq!(found(&report), []);
    }

    #[test]
    fn a_failed_step_is_broken_where_it_will_be_taken_and_a_warning_elsewhere() {
        let mut report = healthy();
        let trial = |precision| DeviceTrial { device: "cuda:1".into(), precision, error: Some("no engine".into()) };
        report.cuda.trials = vec![trial("f32")];
        let severity = |report: &DoctorReport, needed| problems(report, needed)[0].severity;
        assert_eq!(severity(&report, DeviceChoice::Cpu), Severity::Warning);
        report.auto = "cuda:1".into();
        assert_eq!(severity(&report, DeviceChoice::Auto), Severity::Broken);
        report.cuda.trials = vec![trial("bf16")];
        assert_eq!(severity(&report, DeviceChoice::Auto), Severity::Warning);
    }

    #[test]
    fn a_foreign_cudnn_is_a_warning_that_names_both_files() {
        let mut report = healthy();
        let (file, own) = ("/other/libcudnn_graph.so.9".into(), "/site/nvidia/cudnn/lib/libcudnn_graph.so.9".into());
        report.cuda.loaded = vec![CudaLibrary { file, instead_of: Some(own) }];
        let (severity, what) = found(&report).remove(0);
        assert_eq!(severity, Severity::Warning);
        assert!(what.contains("`/other/libcudnn_graph.so.9`") && what.contains("`/site/nvidia"), "{what}");
    }

    #[test]
    fn a_full_or_read_only_disk_is_reported() {
        let mut report = healthy();
        report.disk.free_bytes = Some(5 << 20);
        report.disk.writable = false;
        let all = found(&report);
        assert_eq!(all.len(), 2);
        assert!(all[1].1.starts_with("only 5 MB"), "{}", all[1].1);
    }
}
