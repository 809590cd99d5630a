//! The report as plain text.

use super::libraries::file_name;
use super::{DeviceTrial, DoctorReport, Severity};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

impl fmt::Display for DoctorReport {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (label, value) in self.lines() {
            writeln!(f, "{label:<16}{value}")?;
        }
        writeln!(f)?;
        for problem in &self.problems {
            let label = match problem.severity {
                Severity::Broken => "broken",
                Severity::Warning => "warning",
            };
            writeln!(f, "{label}: {}\n  fix: {}", problem.what, problem.fix)?;
        }
        match (self.ok, self.problems.is_empty()) {
            (true, true) => writeln!(f, "no problems found"),
            (true, false) => writeln!(f, "runs will work, with the warnings above"),
            (false, _) => writeln!(f, "runs will fail until the above is fixed"),
        }
    }
}

impl DoctorReport {
    fn lines(&self) -> Vec<(&'static str, String)> {
        let yes_or = |message: &Option<String>| message.as_ref().map_or("yes".into(), |m| format!("no ({m})"));
        let mut lines = vec![
            ("curricle", self.versions.curricle.to_string()),
            ("built with", format!("{}, tch {}", self.versions.rustc, self.versions.tch)),
            (
                "libtorch",
                format!(
                    "{} (required: {})",
                    self.libtorch.found.as_deref().unwrap_or("of unknown version"),
                    self.libtorch.wanted
                ),
            ),
        ];
        if let Some(folder) = &self.libtorch.folder {
            lines.push(("loaded from", folder.display().to_string()));
        }
        lines.push(("devices", format!("{} (`auto` selects `{}`)", self.devices.join(", "), self.auto)));
        lines.push(("NVIDIA driver", yes_or(&self.cuda.driver_message)));
        if let Some(version) = &self.cuda.driver_version {
            lines.push(("", version.clone()));
        }
        lines.extend(self.cuda.gpus.iter().map(|gpu| ("GPU", gpu.clone())));
        lines.push(("CUDA libraries", yes_or(&self.cuda.libraries_message)));
        lines.extend(self.library_folders());
        lines.extend(self.trial_lines());
        lines.push(("CPU cores", format!("{} physical, {} logical", self.threads.physical, self.threads.logical)));
        if let Some(omp) = &self.threads.omp_num_threads {
            lines.push(("", format!("`OMP_NUM_THREADS` is `{omp}`")));
        }
        let free = self.disk.free_bytes.map_or("unknown".into(), |b| format!("{:.1} GB", b as f64 / 1e9));
        lines.push(("free space", format!("{free} in {}", self.disk.folder.display())));
        lines.push(("terminal", self.terminal_line()));
        lines
    }

    /// The loaded cuBLAS and cuDNN files, one line for each folder.
    fn library_folders(&self) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        for (label, prefix) in [("cuBLAS", "libcublas"), ("cuDNN", "libcudnn")] {
            let mut folders: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
            for library in self.cuda.loaded.iter().filter(|library| file_name(&library.file).starts_with(prefix)) {
                let folder = library.file.parent().map(PathBuf::from).unwrap_or_default();
                folders.entry(folder).or_default().push(file_name(&library.file));
            }
            lines.extend(
                folders
                    .iter()
                    .map(|(folder, files)| (label, format!("{} from {}", files.join(", "), folder.display()))),
            );
        }
        lines
    }

    /// What each device can compute.
    fn trial_lines(&self) -> Vec<(&'static str, String)> {
        let outcome = |trial: &DeviceTrial| match &trial.error {
            None => format!("{} works on {}", trial.precision, trial.device),
            Some(error) => format!("{} fails on {} ({error})", trial.precision, trial.device),
        };
        self.cuda.trials.iter().map(|trial| ("training step", outcome(trial))).collect()
    }

    fn terminal_line(&self) -> String {
        let output = if self.terminal.stdout { "output to a terminal" } else { "output to a file or pipe" };
        let progress = if self.terminal.stderr { "progress bars" } else { "no progress bars" };
        let colour = match (self.terminal.no_color, self.terminal.stdout) {
            (true, _) => "no colour (`NO_COLOR`)",
            (false, true) => "colour",
            (false, false) => "no colour",
        };
        format!("{output}, {progress}, {colour}")
    }
}

#[cfg(test)]
mod tests {
    use crate::device::DeviceChoice;
    use crate::doctor::{CudaLibrary, DeviceTrial, DoctorProblem, Severity, examine};

    #[test]
    fn the_report_shows_versions_devices_and_fixes() {
        let mut report = examine(DeviceChoice::Cpu);
        report.ok = false;
        report.problems =
            vec![DoctorProblem { severity: Severity::Broken, what: "it is bad".into(), fix: "do good".into() }];
        let text = report.to_string();
        for part in
            ["libtorch        2.13.0 (required: 2.13.0)", "devices         cpu", "broken: it is bad\n  fix: do good"]
        {
            assert!(text.contains(part), "`{part}` is missing in:\n{text}");
        }
        report.cuda.trials = vec![DeviceTrial { device: "cuda:0".into(), precision: "f32", error: None }];
        let library = |file: &str| CudaLibrary { file: file.into(), instead_of: None };
        report.cuda.loaded = ["/a/libcudnn.so.9", "/a/libcudnn_cnn.so.9", "/b/libcublas.so.13"].map(library).to_vec();
        let text = report.to_string();
        for part in [
            "cuBLAS          libcublas.so.13 from /b\ncuDNN           libcudnn.so.9, libcudnn_cnn.so.9 from /a\n",
            "training step   f32 works on cuda:0\n",
        ] {
            assert!(text.contains(part), "`{part}` is missing in:\n{text}");
        }
        assert!(text.ends_with("runs will fail until the above is fixed\n"));
    }
}
