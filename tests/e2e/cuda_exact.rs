//! Every command with `--device` computes in exact f32 on CUDA, whatever the environment asks for.

use crate::support::{Printed, Sandbox, counter, run_folder, small_recipe, unwrapped};
use std::collections::BTreeSet;

/// The commands that take `--device`, with arguments that make them compute.
const COMMANDS: [(&str, &[&str]); 8] = [
    ("run", &["small.toml", "--set", "train.tf32=false", "--out", "again"]),
    ("bench", &["sweep.toml", "--set", "train.tf32=false", "--out", "bench"]),
    ("tune", &["tune.toml", "--set", "train.tf32=false", "--out", "tune"]),
    ("audit", &["run", "--out", "audit"]),
    ("embed", &["run", "--data", "test", "--out", "again.safetensors"]),
    ("eval", &["embeddings.safetensors"]),
    ("doctor", &[]),
    ("plugin check", &["--builtin", "--only", "contrastive"]),
];

/// All commands whose help mentions `--device`, e.g. `plugin check`.
fn commands_with_a_device(sandbox: &Sandbox, above: &[&str], found: &mut BTreeSet<String>) {
    let help = sandbox.curricle([above, &["--help"]].concat()).assert().success().stdout_text();
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = list.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<_> =
        names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect();
    if help.contains("--device <") {
        found.insert(above.join(" "));
    }
    names.iter().for_each(|name| commands_with_a_device(sandbox, &[above, &[name]].concat(), found));
}

/// A finished run, its embeddings, and recipes for the commands.
fn prepared() -> Sandbox {
    let sandbox = Sandbox::new();
    let recipe = small_recipe("contrastive", "uniform").replace("epochs = 3", "epochs = 1");
    sandbox.write("small.toml", &recipe);
    sandbox.write("sweep.toml", format!("{recipe}\n[sweep]\nseeds = 1\n"));
    sandbox.write("tune.toml", format!("{recipe}\n[tune]\ngrid = {{ optimizer.lr = [1e-3] }}\n"));
    sandbox.curricle(["run", "small.toml", "--device", "cpu"]).assert().success();
    std::fs::rename(run_folder(&sandbox.path("runs")), sandbox.path("run")).unwrap();
    let embed = ["embed", "run", "--data", "test", "--out", "embeddings.safetensors", "--device", "cpu"];
    sandbox.curricle(embed).assert().success();
    sandbox
}

fn on_cuda(sandbox: &Sandbox, name: &str, args: &[&'static str]) -> assert_cmd::Command {
    let words: Vec<_> = name.split(' ').chain(args.iter().copied()).chain(["--device", "cuda"]).collect();
    let mut command = sandbox.curricle_on_fakecuda(words);
    command.env("FAKECUDA_TF32", "1").env("FAKECUDA_STATS", "1");
    command
}

#[test]
fn every_command_with_a_device_is_exact_or_refuses() {
    let sandbox = prepared();
    let mut found = BTreeSet::new();
    commands_with_a_device(&sandbox, &[], &mut found);
    assert_eq!(found, COMMANDS.iter().map(|(name, _)| name.to_string()).collect(), "commands with `--device`");

    for (name, args) in COMMANDS {
        // libtorch's variable only sets a flag, which the program clears.
        let done = on_cuda(&sandbox, name, args).env("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "1").assert().success();
        for count in ["tf32_products", "tf32_convolutions"] {
            // Benchmarks and searches compute in processes of their own, which are `run`.
            let printed = done.stderr_text();
            assert!(!printed.contains("tf32_products=") || counter(&printed, count) == 0, "`{name}`: {printed}");
        }
        // NVIDIA's variable wins over the flags, so the results would be wrong.
        for folder in ["again", "bench", "tune"] {
            let _ = std::fs::remove_dir_all(sandbox.path(folder));
        }
        let refused = on_cuda(&sandbox, name, args).env("NVIDIA_TF32_OVERRIDE", "1").assert().failure();
        let printed = unwrapped(&(refused.stdout_text() + &refused.stderr_text()));
        assert!(printed.contains("rounded to TF32"), "`{name}`: {printed}");
    }
}

#[test]
fn a_run_uses_tf32_in_convolutions_only_if_its_recipe_says_so() {
    let sandbox = prepared();
    let counts = |tf32: &'static str| {
        let args = ["small.toml", "--set", tf32, "--out", tf32];
        let printed = on_cuda(&sandbox, "run", &args).assert().success().stderr_text();
        (counter(&printed, "tf32_products"), counter(&printed, "tf32_convolutions") > 0)
    };
    assert_eq!(counts("train.tf32=true"), (0, true));
    assert_eq!(counts("train.tf32=false"), (0, false));
}
