//! The wheel, installed into a new environment, with the torch that the set-up has already fetched.

use crate::support::{Sandbox, root, skip};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs a command without anything that could help the program find libtorch.
fn run(command: &mut Command) -> Output {
    for name in ["LIBTORCH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH"] {
        command.env_remove(name);
    }
    command.env("NO_COLOR", "1").output().unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

fn succeed(command: &mut Command) -> String {
    let output = run(command);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}\n{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Builds the wheel and installs it into a new virtual environment; returns its folder of programs.
fn install(sandbox: &Sandbox, torch: &Path) -> PathBuf {
    let wheels = sandbox.path("wheels");
    succeed(Command::new(root().join("scripts/wheel")).arg("--out").arg(&wheels));
    let wheel = std::fs::read_dir(&wheels).unwrap().flatten().next().expect("a wheel").path();
    let size = wheel.metadata().unwrap().len();
    assert!(size < 60_000_000, "the wheel has {size} bytes: is the program stripped?");
    let venv = sandbox.path("venv");
    succeed(Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(&venv));
    let python = venv.join("bin/python");
    let pip = ["install", "--quiet", "--no-deps", "--no-index"];
    succeed(Command::new("python3").args(["-m", "pip", "--python"]).arg(&python).args(pip).arg(&wheel));
    let site = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let site = succeed(Command::new(&python).args(["-c", site]));
    std::os::unix::fs::symlink(torch, Path::new(site.trim()).join("torch")).unwrap();
    venv.join("bin")
}

#[test]
fn a_wheel_works_in_a_new_environment_without_a_compiler_or_a_clone() {
    let tools = root().join(".venv/bin");
    let torch = root().join(".libtorch/torch").canonicalize();
    let (Ok(torch), true) = (torch, tools.join("python").exists()) else {
        return skip("the wheel", "`scripts/setup --tests` has not been run");
    };
    let sandbox = Sandbox::new();
    let bin = install(&sandbox, &torch);
    let curricle = || {
        let mut command = Command::new(bin.join("curricle"));
        command.current_dir(sandbox.path(""));
        command
    };
    let doctor = succeed(curricle().arg("doctor"));
    assert!(doctor.contains("libtorch"), "{doctor}");
    let mut bench = curricle();
    bench.args(["bench", "quickstart", "--quiet", "--threads", "1"]);
    for setting in ["train.epochs=1", "data.classes=8", "data.per_class=6", "data.size=16", "backbone.width=4"] {
        bench.args(["--set", setting]);
    }
    succeed(bench.args(["--set", "sweep.methods=['curricle:methods/ms', 'curricle:methods/bspml']"]));

    // The CPU set has no CUDA libraries, so CUDA must fail because of these and not because the program cannot find
    // libtorch's half of it.
    let cuda = run(curricle().args(["run", "methods/ms", "--device", "cuda"]));
    let message = String::from_utf8_lossy(&cuda.stderr).into_owned();
    assert!(!message.contains("libtorch_cuda.so: cannot open"), "{message}");

    let packages = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let packages = succeed(Command::new(tools.join("python")).args(["-c", packages]));
    let test = root().join("tests/python/wheel.py");
    succeed(Command::new(bin.join("python")).arg(test).arg(packages.trim()).current_dir(sandbox.path("")));
}
