//! Helpers of the end-to-end tests: run the built program in a temporary folder.

pub(crate) mod browser;
mod fakecuda;
pub(crate) mod images;
pub(crate) mod plugins;
pub(crate) mod python;
mod skip;
pub(crate) mod slurm;

pub(crate) use fakecuda::{counter, fakecuda};
pub(crate) use skip::{optional, skip};

use assert_cmd::assert::Assert;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// No command of a test takes longer than this, even on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// Root of the project.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The folder of the libtorch that the program was built with.
pub(crate) fn libtorch() -> PathBuf {
    std::env::var_os("LIBTORCH").map_or_else(|| root().join(".libtorch/torch"), PathBuf::from)
}

/// The program under test, which cargo builds before the tests.
pub(crate) fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_curricle"))
}

/// Cargo's target folder.
///
/// # Panics
/// If the program is not in `<target>/<profile>`.
pub(crate) fn target() -> &'static Path {
    program().ancestors().nth(2).expect("cargo puts the program into `<target>/<profile>`")
}

/// A folder that is removed at the end of the test.
pub(crate) struct Sandbox {
    folder: TempDir,
}

impl Sandbox {
    /// An empty folder.
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder can be made") }
    }

    /// The folder, or a file in it.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file, such as a recipe, with its folders, and returns its path.
    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("folders can be made");
        std::fs::write(&path, text).expect("files can be written");
        path
    }

    /// Writes colour images of 32 x 32 pixels into one folder per class: stripes whose direction depends on the class.
    pub(crate) fn write_images(&self, folder: &str, classes: u32, per_class: u32) {
        for (class, sample) in (0..classes).flat_map(|class| (0..per_class).map(move |sample| (class, sample))) {
            let mut image = b"P6\n32 32\n255\n".to_vec();
            for (y, x) in (0..32u32).flat_map(|y| (0..32u32).map(move |x| (y, x))) {
                let along = x * (class % 3) + y * (class / 3 % 3) + sample;
                let noise = (x * 7 + y * 13 + sample * 31) % 23;
                image.extend([if along / 3 % 2 == 0 { 220 } else { 30 }, (9 * noise) as u8, (20 * class) as u8]);
            }
            self.write(&format!("{folder}/class-{class:03}/{sample}.ppm"), image);
        }
    }

    /// Reads a file the program wrote.
    pub(crate) fn read(&self, name: impl AsRef<Path>) -> String {
        let path = self.path(name);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("cannot read `{}`: {e}", path.display()))
    }

    /// The program, ready to run in this folder: plain output, one thread, a time limit, nothing
    /// from the environment that could change what it does.
    pub(crate) fn curricle<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> assert_cmd::Command {
        let mut command = assert_cmd::Command::from_std(self.command(program(), args));
        command.timeout(TIME_LIMIT);
        command
    }

    /// The program in the background, without output.
    ///
    /// # Panics
    /// If it does not start.
    pub(crate) fn start<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Child {
        // Under `nohup` the tests' children would ignore SIGHUP.
        let mut command = self.command("env", ["--default-signal=HUP"]);
        command.arg(program()).args(args);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts")
    }

    /// Any command in this folder, with the environment that `curricle` has.
    pub(crate) fn command<'a>(&self, name: impl AsRef<OsStr>, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(name);
        command.current_dir(self.folder.path()).args(args);
        command.env("NO_COLOR", "1").env("OMP_NUM_THREADS", "1").env("XDG_CACHE_HOME", self.path(".cache"));
        for name in ["LD_PRELOAD", "RUST_LOG", "CUDA_VISIBLE_DEVICES", "CLICOLOR_FORCE", "CURRICLE_PYTHON"] {
            command.env_remove(name);
        }
        command
    }

    /// The same on the stand-in CUDA device.
    pub(crate) fn curricle_on_fakecuda<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> assert_cmd::Command {
        let mut command = self.curricle(args);
        command.env("LD_PRELOAD", fakecuda());
        command
    }
}

/// What a finished command printed.
pub(crate) trait Printed {
    /// Standard output as text.
    fn stdout_text(&self) -> String;
    /// Standard error as text.
    fn stderr_text(&self) -> String;
    /// Standard output as one JSON document.
    fn json(&self) -> serde_json::Value;
}

impl Printed for Assert {
    fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.get_output().stdout).into_owned()
    }

    fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.get_output().stderr).into_owned()
    }

    fn json(&self) -> serde_json::Value {
        let text = self.stdout_text();
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("standard output is not JSON ({e}):\n{text}"))
    }
}

/// A message without the frame around it and the line breaks in it.
pub(crate) fn unwrapped(message: &str) -> String {
    message.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A recipe that trains in about a second: few small images, a narrow network.
pub(crate) fn small_recipe(loss: &str, weights: &str) -> String {
    format!(
        r#"
[data]
source = "strokes"
classes = 12
per_class = 10
size = 16
[noise]
name = "uniform"
ratio = 0.2
[backbone]
name = "conv4"
width = 4
[embedding]
size = 8
[sampler]
name = "pk"
classes = 4
per_class = 3
[loss]
name = "{loss}"
[weights]
name = "{weights}"
[optimizer]
name = "adam"
lr = 1e-3
[train]
epochs = 3
log_every = 2
[eval]
restarts = 1
"#
    )
}

/// The only run folder below `runs` of a sandbox, such as `runs/x/ms-01234567/seed-0`.
pub(crate) fn run_folder(runs: &Path) -> PathBuf {
    let mut folder = runs.to_path_buf();
    while !folder.join("recipe.toml").exists() {
        let mut entries = std::fs::read_dir(&folder).expect("a folder of runs").flatten();
        folder = entries.next().unwrap_or_else(|| panic!("no run below `{}`", runs.display())).path();
    }
    folder
}

/// All files of that name below a folder.
pub(crate) fn find(folder: &Path, name: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(find(&path, name));
        } else if path.file_name().is_some_and(|file| file == name) {
            found.push(path);
        }
    }
    found
}

/// All files with this extension below a folder, sorted.
pub(crate) fn find_extension(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(find_extension(&path, extension));
        } else if path.extension().is_some_and(|other| other == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The records of a run's `metrics.jsonl` that do not depend on the clock, line by line.
pub(crate) fn timeless_metrics(run: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).expect("a run has metrics");
    text.lines().filter(|line| !line.contains("\"time/")).map(str::to_string).collect()
}

/// Lines of all `metrics.jsonl` below a folder, while they are being written.
pub(crate) fn metrics_lines(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let lines = |path: &Path| std::fs::read_to_string(path).map_or(0, |text| text.lines().count());
    let count = |path: PathBuf| match path.file_name() {
        Some(name) if name == "metrics.jsonl" => lines(&path),
        _ if path.is_dir() => metrics_lines(&path),
        _ => 0,
    };
    entries.flatten().map(|entry| count(entry.path())).sum()
}

/// Whether two results are equal up to rounding: products on the CPU may come from another library than those on the
/// stand-in device.
pub(crate) fn nearly_equal(a: &serde_json::Value, b: &serde_json::Value) -> bool {
    use serde_json::Value;
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap_or(f64::NAN), b.as_f64().unwrap_or(f64::NAN));
            (a - b).abs() <= 1e-4 * a.abs().max(b.abs())
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| nearly_equal(value, other)))
        }
        _ => a == b,
    }
}
