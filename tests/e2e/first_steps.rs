//! Starting from nothing: built-in recipes, `init`, `data`, and what a run says before it trains.

use crate::support::{Printed, Sandbox, root, unwrapped};

const TINY: [&str; 12] = [
    "--set",
    "train.epochs=1",
    "--set",
    "data.classes=8",
    "--set",
    "data.per_class=6",
    "--set",
    "data.size=16",
    "--set",
    "backbone.width=4",
    "--set",
    "eval.restarts=1",
];

#[test]
fn built_in_recipes_need_no_folder_and_have_the_same_identity() {
    let sandbox = Sandbox::new();
    let hash = |recipe: &str| {
        let report = sandbox.curricle(["check", "--json", recipe]).assert().success().json();
        report[0]["hash"].as_str().unwrap().to_string()
    };
    let file = root().join("recipes/methods/bspml.toml");
    assert_eq!(hash("methods/bspml"), hash(file.to_str().unwrap()));
    sandbox.write("mine.toml", "extends = \"curricle:methods/bspml\"\n");
    assert_eq!(hash("mine.toml"), hash("curricle:methods/bspml.toml"));
    let runs = sandbox.curricle(["bench", "--dry-run", "--json", "quickstart"]).assert().success().json();
    assert_eq!(runs.as_array().map_or(0, Vec::len), 11, "{runs}");
    let listed = sandbox.curricle(["list", "recipes"]).assert().success().stdout_text();
    let column = |name: &str, summary: &str| {
        let line = listed.lines().find(|line| line.trim_start().starts_with(&format!("{name} "))).expect("a recipe");
        line.find(summary).unwrap_or_else(|| panic!("`{summary}` is not in `{line}`"))
    };
    let short = column("methods/ms", "Multi-similarity");
    assert_eq!(short, column("methods/bspml", "Balanced self-paced metric learning"), "{listed}");
    assert_eq!(short, column("methods/memory_contrastive", "Contrastive loss"), "{listed}");
}

#[test]
fn a_misspelt_recipe_is_corrected_and_a_setting_is_not_a_recipe() {
    let sandbox = Sandbox::new();
    let message = |args: &[&str]| unwrapped(&sandbox.curricle(args.iter().copied()).assert().code(2).stderr_text());
    assert!(message(&["run", "methods/bsmpl"]).contains("did you mean `curricle:methods/bspml`?"));
    assert!(message(&["run", "bspml"]).contains("did you mean `curricle:methods/bspml`?"));
    assert!(message(&["run", "recipes/methods/ms.toml"]).contains("did you mean `curricle:methods/ms`?"));
    sandbox.write("mine.toml", "extends = \"curricle:method/bspml\"\n");
    assert!(message(&["run", "mine.toml"]).contains("did you mean `curricle:methods/bspml`?"));
    assert!(message(&["run", "methods/ms", "optimizer.lr=0.1"]).contains("use '--set optimizer.lr=0.1'"));
    assert!(message(&["check", "methods/ms", "optimizer.lr=0.1"]).contains("use `--set optimizer.lr=0.1`"));
    assert!(message(&["run", "methods/ms", "--optimizer.lr=0.1"]).contains("use '--set optimizer.lr=VALUE'"));
    assert!(!message(&["data", "optimizer.lr=0.1"]).contains("--set"));
}

#[test]
fn init_writes_a_recipe_that_runs() {
    let sandbox = Sandbox::new();
    sandbox.curricle(["init"]).assert().success();
    let files = ["recipe.toml", "recipes/schema.json", "recipes/base/strokes.toml", "recipes/methods/ms.toml"];
    files.iter().for_each(|file| assert!(sandbox.path(file).is_file(), "{file}"));
    let run = sandbox.curricle(["run", "recipe.toml"].into_iter().chain(TINY)).assert().success();
    let text = run.stderr_text();
    assert!(text.contains("training: 4 classes, 24 samples (1 x 16 x 16 pixels)\n"), "{text}");
    assert!(text.contains("test: 4 classes, 24 samples\n"), "{text}");
    assert!(text.contains("labels: 4 of 24 (16.7 %) flipped by `uniform` noise\n"), "{text}");
    let again = unwrapped(&sandbox.curricle(["init"]).assert().code(2).stderr_text());
    assert!(again.contains("`./recipe.toml` already exists"), "{again}");
}

#[test]
fn init_looks_at_own_images_and_injects_no_noise() {
    let sandbox = Sandbox::new();
    sandbox.write_images("photos", 6, 3);
    let said = sandbox.curricle(["init", "--images", "photos"]).assert().success();
    let found = said.stderr_text();
    assert!(
        found.contains("colour images of about 32 x 32 pixels; train: 3 classes, 9 samples (3 per class)"),
        "{found}"
    );
    let report = sandbox.curricle(["check", "--json", "recipe.toml"]).assert().success().json();
    assert_eq!(report[0]["problems"].as_array().unwrap().len(), 0, "{report}");
    let run =
        ["run", "recipe.toml", "--set", "train.epochs=1", "--set", "backbone.width=4", "--set", "eval.restarts=1"];
    let text = sandbox.curricle(run).assert().success().stderr_text();
    assert!(text.contains("labels: as given, no label noise\n"), "{text}");

    for class in ["a", "b"] {
        sandbox.write(&format!("damaged/{class}/1.jpg"), "not an image");
    }
    let refused =
        unwrapped(&sandbox.curricle(["init", "none", "--images", "damaged"]).assert().failure().stderr_text());
    assert!(refused.contains("none of its 2 files can be decoded as an image"), "{refused}");
    assert!(!sandbox.path("none").exists());

    // In another folder, the path is absolute.
    sandbox.curricle(["init", "project", "--images", "photos"]).assert().success();
    sandbox.curricle(["check", "project/recipe.toml"]).assert().success();
}

#[test]
fn init_uses_all_classes_if_there_are_too_few_to_split() {
    let sandbox = Sandbox::new();
    sandbox.write_images("photos", 2, 3);
    let found = sandbox.curricle(["init", "--images", "photos"]).assert().success().stderr_text();
    assert!(found.contains("train: 2 classes, 6 samples (3 per class); test: 2 classes, 6 samples"), "{found}");
    sandbox.curricle(["run", "recipe.toml", "--set", "train.epochs=1", "--set", "backbone.width=4"]).assert().success();
}

#[test]
fn init_refuses_data_that_is_not_what_it_seems() {
    let sandbox = Sandbox::new();
    let refused = |args: &[&str]| {
        let command = ["init", "new"].into_iter().chain(args.iter().copied());
        let message = unwrapped(&sandbox.curricle(command).assert().failure().stderr_text());
        assert!(!sandbox.path("new").exists());
        message
    };
    for split in ["test", "train"] {
        sandbox.write_images(&format!("split/{split}"), 4, 2);
    }
    let message = refused(&["--images", "split"]);
    assert!(message.contains("its folders `test`, `train` look like splits, not classes"), "{message}");
    assert!(message.contains("such as `split/train`"), "{message}");

    sandbox.write_images("single", 4, 1);
    let message = refused(&["--images", "single"]);
    assert!(message.contains("no training class has more than one sample"), "{message}");

    sandbox.write("list.csv", "a/0.png,a\na/1.png,a\nb/0.png,b\nb/1.png,b\n");
    let message = refused(&["--csv", "list.csv"]);
    assert!(message.contains("`list.csv`: none of its 4 files can be decoded"), "{message}");
    assert!(message.contains("a/0.png`: No such file or directory"), "{message}");
    assert!(message.contains("relative to the folder of the list, unless `root` names another"), "{message}");
    sandbox.write("absolute.csv", "/nowhere/a/0.png,a\n/nowhere/a/1.png,a\n/nowhere/b/0.png,b\n/nowhere/b/1.png,b\n");
    let message = refused(&["--csv", "absolute.csv", "--root", "single"]);
    assert!(message.contains("the paths in the list are absolute"), "{message}");
    let message = refused(&["--images", "list.csv"]);
    assert!(message.contains("it is a file; use `--csv` for a list of images"), "{message}");
    let message = refused(&["--csv", "single"]);
    assert!(message.contains("it is a folder; use `--images`"), "{message}");
    let message = refused(&["--features", "list.csv"]);
    assert!(message.contains("save it with `safetensors.torch.save_file({\"features\""), "{message}");
    let message = unwrapped(&sandbox.curricle(["init", "--root", "single"]).assert().code(2).stderr_text());
    assert!(message.contains("--csv <FILE>"), "{message}");
}

#[test]
fn init_reads_a_list_of_images_in_another_folder() {
    let sandbox = Sandbox::new();
    sandbox.write_images("photos", 4, 2);
    let folders = std::fs::read_dir(sandbox.path("photos")).unwrap().flatten();
    let mut list = String::from("path,label\n");
    for folder in folders {
        let class = folder.file_name().into_string().unwrap();
        for file in std::fs::read_dir(folder.path()).unwrap().flatten() {
            list += &format!("{class}/{},{class}\n", file.file_name().to_string_lossy());
        }
    }
    sandbox.write("lists/all.csv", list);
    let init = ["init", "project", "--csv", "lists/all.csv", "--root", "photos"];
    sandbox.curricle(init).assert().success();
    sandbox.curricle(["check", "project/recipe.toml"]).assert().success();
}

#[test]
fn inherited_noise_on_own_data_is_a_warning() {
    let sandbox = Sandbox::new();
    sandbox.write_images("photos", 6, 3);
    let data = "[data]\nsource = \"folder\"\npath = \"photos\"\n";
    sandbox.write("inherits.toml", format!("extends = \"curricle:methods/ms\"\n{data}"));
    sandbox.write(
        "meant.toml",
        format!("extends = \"curricle:methods/ms\"\n{data}[noise]\nname = \"pair\"\nratio = 0.3\n"),
    );
    let warnings = |recipe: &str| {
        let report = sandbox.curricle(["check", "--json", recipe]).assert().success().json();
        report[0]["problems"].as_array().unwrap().iter().filter(|problem| problem["setting"] == "noise").count()
    };
    assert_eq!((warnings("inherits.toml"), warnings("meant.toml")), (1, 0));
    let features = "[data]\nsource = \"features\"\npath = \"f.safetensors\"\n[backbone]\nname = \"mlp\"\n";
    sandbox.write("features.toml", format!("extends = \"curricle:methods/ms\"\n{features}"));
    let report = sandbox.curricle(["check", "--json", "--no-files", "features.toml"]).assert().success().json();
    assert!(report.to_string().contains("flipped on purpose"), "{report}");
    let explained = sandbox.curricle(["explain", "inherits.toml"]).assert().success().stderr_text();
    assert!(unwrapped(&explained).contains("labels of your own data are flipped on purpose"), "{explained}");
}

#[test]
fn data_lists_published_sets_and_verifies_a_folder() {
    let sandbox = Sandbox::new();
    let listed = sandbox.curricle(["data"]).assert().success().stdout_text();
    for expected in
        ["cub200: CUB-200-2011", "1150585339 bytes, md5 97eceeb196236b17998738112f37df78", "size and hash not known"]
    {
        assert!(listed.contains(expected), "{listed}");
    }
    sandbox.write("birds/images.txt", "1 001.A/a.jpg\n");
    let text = sandbox.curricle(["data", "verify", "cub200", "birds"]).assert().code(1).stdout_text();
    assert!(text.contains("`birds/images.txt` differs from the published file"), "{text}");
    assert!(text.ends_with("`birds` is not the complete `cub200`\n"), "{text}");
}

#[test]
fn completions_ask_the_program_for_recipes_and_components() {
    let sandbox = Sandbox::new();
    let script = sandbox.curricle(["completions", "bash"]).assert().success().stdout_text();
    assert!(script.contains("COMPLETE="), "{script}");
    let complete = |words: &[&str], last: &str| {
        let mut command = sandbox.curricle(["--", "curricle"].into_iter().chain(words.iter().copied()));
        command.env("COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", last).env("_CLAP_IFS", "\n");
        command.assert().success().stdout_text()
    };
    assert!(complete(&["bench", "quick"], "2").contains("quickstart"));
    assert!(complete(&["run", "methods/bs"], "2").contains("methods/bspml"));
    assert!(complete(&["probe", "loss", "proxy"], "3").contains("proxy_anchor"));
    assert!(complete(&["run", "methods/ms", "--set", "train.ep"], "4").contains("train.epochs="));
}

#[test]
fn zsh_completes_when_it_loads_the_script() {
    let sandbox = Sandbox::new();
    let script = sandbox.curricle(["completions", "zsh"]).assert().success().stdout_text();
    // Without this, the first completion of a shell finds nothing.
    assert!(
        script.ends_with("[[ $funcstack[1] != _curricle ]] || _clap_dynamic_completer_curricle \"$@\"\n"),
        "{script}"
    );
}

#[test]
fn bash_completes_the_value_of_a_setting() {
    let sandbox = Sandbox::new();
    let script = sandbox.curricle(["completions", "bash"]).assert().success().stdout_text();
    let program = env!("CARGO_BIN_EXE_curricle");
    // What bash passes for a word that it has split at `=` or `:`.
    let complete = |words: &str, line: &str, last: &str| {
        let script = format!(
            "curricle() {{ {:?} \"$@\"; }}; export -f curricle\n{}\nCOMP_WORDS=({words}) COMP_LINE={line:?}\n\
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n_curricle curricle {last:?} ''; echo \"${{COMPREPLY[*]}}\"",
            program,
            script.replace("compopt", "true")
        );
        let output = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_string() + &String::from_utf8_lossy(&output.stderr)
    };
    let set = "curricle run methods/ms --set loss.name";
    assert_eq!(complete(&format!("{set} '=' proxy"), &format!("{set}=proxy"), "proxy"), "proxy_anchor");
    assert_eq!(complete(&format!("{set} '='"), &format!("{set}="), "").split_whitespace().next(), Some("arcface"));
    assert_eq!(
        complete("curricle run curricle : methods/bs", "curricle run curricle:methods/bs", "methods/bs"),
        "methods/bspml"
    );
    assert_eq!(complete("curricle bench quick", "curricle bench quick", "quick"), "quickstart");
}
