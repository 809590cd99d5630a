//! Broken and hostile libraries: each gives an error with the file, the component and the cause, and
//! none crashes the program.

use crate::support::plugins::{cpp_fixture, raw, raw_throws, rust_plugin};
use crate::support::{Printed, Sandbox};
use assert_cmd::assert::Assert;
use std::path::Path;

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is Unicode")
}

/// What was printed, without the line breaks that depend on the width.
fn flat(assert: &Assert) -> String {
    let all = assert.stderr_text();
    all.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ")
}

/// Expects an ordinary failure with these words; a crash has no exit code.
fn fails_with(assert: &Assert, code: i32, words: &[&str]) {
    let shown = flat(assert);
    let status = assert.get_output().status;
    assert_eq!(status.code(), Some(code), "{status}: {shown}");
    for word in words {
        assert!(shown.contains(word), "no `{word}` in: {shown}");
    }
}

fn refused(sandbox: &Sandbox, library: &Path, words: &[&str]) {
    let name = library.file_name().unwrap().to_str().unwrap();
    let assert = sandbox.curricle(["plugin", "list", text(library)]).assert();
    fails_with(&assert, 2, &[&[name], words].concat());
}

#[test]
fn files_that_are_not_libraries_are_refused() {
    let sandbox = Sandbox::new();
    refused(&sandbox, &sandbox.write("text.so", "hello"), &["is not a dynamic library"]);
    refused(&sandbox, &sandbox.write("empty.so", ""), &["is empty"]);
    refused(&sandbox, &sandbox.write("static.so", "!<arch>\n"), &["is a static library", "cdylib"]);
    refused(&sandbox, &sandbox.path("missing.so"), &["does not exist"]);
    std::fs::create_dir(sandbox.path("folder.so")).unwrap();
    refused(&sandbox, &sandbox.path("folder.so"), &["is a folder"]);

    let good = std::fs::read(raw("")).unwrap();
    refused(&sandbox, &sandbox.write("half.so", &good[..good.len() / 4]), &["is truncated"]);
    let mut other = good;
    other[18..20].copy_from_slice(&243u16.to_le_bytes());
    refused(&sandbox, &sandbox.write("riscv.so", other), &["is a library for riscv64"]);
}

#[test]
fn invalid_headers_and_records_are_refused() {
    let sandbox = Sandbox::new();
    for (fault, words) in [
        ("NO_SYMBOL", ["does not export `CURRICLE_PLUGIN_V2`", "export_plugin"]),
        ("OLD_SYMBOL", ["exports `CURRICLE_PLUGIN_V1`, of an earlier version", "rebuild it with the SDK"]),
        ("MAGIC", ["starts with `CARRIAGE` instead of `CURRICLE`", "export"]),
        ("ABI", ["uses version 7.1 of the plugin ABI", "this program uses version 2"]),
        ("SHORT_HEADER", ["has a header of 40 bytes", "at least 96"]),
        ("NULL_VISIT", ["has a null `visit`", "header"]),
        ("LIBTORCH", ["was built for libtorch 1.0.0", "runs libtorch 2.13.0"]),
        ("TCH", ["was built with tch 0.1.0", "uses tch 0.26.0"]),
        ("TARGET", ["was built for vax-vms", "rebuild it"]),
        ("VISIT_FAILS", ["not today", "cannot list its components"]),
        ("NULL_COMPONENT", ["passed a null or unaligned `curricle_component`", "author"]),
        ("NO_COMPONENTS", ["has no components", "author"]),
        ("TWICE", ["has two components", "`raw`"]),
        ("SHORT_COMPONENT", ["passed a `curricle_component` of 64 bytes", "at least 112"]),
        ("NULL_TABLE", ["loss `raw`: passed a null or unaligned `curricle_loss_table`", "author"]),
        ("NULL_FUNCTION", ["loss `raw`: has a null `forward`", "author"]),
        ("SHORT_TABLE", ["loss `raw`: passed a `curricle_loss_table` of 8 bytes", "at least 16"]),
        ("UNKNOWN_KIND", ["unknown kind `optimizer`", "`raw`"]),
        ("NAME_NOT_UTF8", ["the name of a component is not valid UTF-8", "author"]),
        ("NAME_LENGTH", ["the name of a component has a length of 18446744073709551615", "author"]),
        ("NAME_NO_NAME", ["invalid name", "`raw loss`"]),
        ("SCHEMA_NOT_JSON", ["loss `raw`", "schema is not JSON"]),
        ("SCHEMA_NO_OBJECT", ["loss `raw`", "does not describe an object"]),
        ("SCHEMA_FAILS", ["loss `raw`", "no schema today"]),
        ("SCHEMA_LENGTH", ["loss `raw`", "its settings schema has a length of 18446744073709551615"]),
        ("SCHEMA_KEYWORD", ["loss `raw`", "uses `not`, which is not checked"]),
        ("SCHEMA_NAME", ["loss `raw`", "with a setting `name`, which recipes could not set"]),
    ] {
        refused(&sandbox, &raw(fault), &words);
    }
}

fn recipe(loss: &str, sampler: &str, weights: &str) -> String {
    format!(
        "[data]\nsource = \"strokes\"\nclasses = 8\nper_class = 6\nsize = 16\n\
         [backbone]\nname = \"conv4\"\nwidth = 4\n\
         [embedding]\nsize = 4\n\
         [sampler]\n{sampler}\n[loss]\n{loss}\n[weights]\n{weights}\n\
         [optimizer]\nname = \"sgd\"\nlr = 0.001\n\
         [train]\nepochs = 1\n\
         [eval]\ncluster = \"never\"\n\
         [track]\nhistograms = false\nimages = false\nprojector = false\n"
    )
}

const LOSS: &str = "name = \"ms\"";
const SAMPLER: &str = "name = \"pk\"\nclasses = 3\nper_class = 2";
const WEIGHTS: &str = "name = \"uniform\"";

fn run(sandbox: &Sandbox, library: &Path, recipe: &str) -> Assert {
    sandbox.write("r.toml", recipe);
    sandbox.curricle(["run", "r.toml", "--plugin", text(library), "--force"]).assert()
}

#[test]
fn a_name_clash_reports_both_sources() {
    let sandbox = Sandbox::new();
    let library = raw("BUILT_IN_NAME");
    fails_with(
        &run(&sandbox, &library, &recipe(LOSS, SAMPLER, WEIGHTS)),
        2,
        &["BUILT_IN_NAME.so", "has a loss `ms`", "another one built in"],
    );
    let first = raw("");
    let second = sandbox.path("second.so");
    let mut bytes = std::fs::read(&first).unwrap();
    bytes.push(0);
    std::fs::write(&second, bytes).unwrap();
    sandbox.write("r.toml", recipe(LOSS, SAMPLER, WEIGHTS));
    let both = ["run", "r.toml", "--plugin", text(&first), "--plugin", text(&second)];
    fails_with(
        &sandbox.curricle(both).assert(),
        2,
        &["second.so", "`raw`", first.file_name().unwrap().to_str().unwrap()],
    );
}

#[test]
fn a_c_library_that_returns_nothing_is_an_error() {
    let sandbox = Sandbox::new();
    for (fault, code, words) in [
        ("", 1, "returned null instead of the loss"),
        ("NULL_INSTANCE", 2, "created no instance and reported no error"),
        ("SILENT", 2, "failed without an error message"),
        ("ERROR_NOT_UTF8", 2, "bad \u{fffd}\u{fffd} text"),
        ("NULL_TENSOR_SPEC", 2, "passed a null or unaligned `curricle_tensor_spec`"),
        ("TENSOR_HUGE", 1, "declared tensor `huge` with the shape [200000, 200000], which needs 160.0 GB"),
        ("TENSOR_DIMENSIONS", 2, "the shape of tensor `huge` has a length of 18446744073709551615"),
        ("TENSOR_TYPE", 2, "declared tensor `huge` with the unknown type 99"),
        ("BORROWED", 1, "returned a borrowed tensor as the loss"),
        ("CHDIR_IN_DESTROY", 1, "was destroyed, it changed the working directory and did not restore it"),
        ("LOGS_BORROWED", 1, "returned a borrowed tensor as the logged scalar `borrowed`"),
        ("LOG_LENGTH", 1, "the name of a logged scalar has a length of 18446744073709551615"),
        ("ERROR_LENGTH", 1, "an endless path"),
    ] {
        let library = raw(fault);
        let name = library.file_name().unwrap().to_str().unwrap();
        let assert = run(&sandbox, &library, &recipe("name = \"raw\"", SAMPLER, WEIGHTS));
        fails_with(&assert, code, &[name, "loss `raw`", words]);
    }
}

#[test]
fn a_library_that_ends_the_process_is_named() {
    let sandbox = Sandbox::new();
    for (fault, words) in [
        ("EXIT_WHEN_LOADED", "plugin `libraw-EXIT_WHEN_LOADED.so` ended the process"),
        ("EXIT_IN_VISIT", "plugin `libraw-EXIT_IN_VISIT.so` ended the process"),
        ("EXIT_IN_DESTROY", "loss `raw` ended the process"),
        ("QUICK_EXIT", "loss `raw` ended the process"),
    ] {
        let assert = run(&sandbox, &raw(fault), &recipe("name = \"raw\"", SAMPLER, WEIGHTS));
        fails_with(&assert, 1, &[words]);
    }
    // A crash has no exit code.
    let library = raw("CRASH_IN_VISIT");
    let crashed = sandbox.curricle(["plugin", "list", text(&library)]).assert().interrupted();
    let shown = flat(&crashed);
    assert!(shown.contains("plugin `libraw-CRASH_IN_VISIT.so` aborted"), "{shown}");
}

#[test]
fn misbehaving_losses_end_the_run_with_an_error() {
    let library = rust_plugin("tests/fixtures/hostile", "hostile");
    let sandbox = Sandbox::new();
    for (fault, code, words) in [
        ("panic in forward", 1, "panicked: asked to panic in forward"),
        ("panic in tensors", 2, "asked to panic in tensors"),
        ("panic in check", 2, "panicked: asked to panic in check"),
        ("error", 1, "asked to fail"),
        ("torch", 1, "libtorch: mat1 and mat2 shapes cannot be multiplied"),
        ("shape", 1, "must return a scalar, not a tensor of shape [6, 6]"),
        ("type", 1, "returned a scalar of type Double"),
        ("nan", 1, "not finite in epoch 1, step 1"),
        ("no gradient", 1, "detached from the embeddings"),
        ("undeclared", 1, "tensor `nothing` was used but not declared"),
        ("negative shape", 2, "tensor `t`"),
        ("twice", 2, "tensor `t`"),
    ] {
        let loss = format!("name = \"hostile_loss\"\nfault = \"{fault}\"");
        let assert = run(&sandbox, &library, &recipe(&loss, SAMPLER, WEIGHTS));
        fails_with(&assert, code, &["libhostile.so", "loss `hostile_loss`", words]);
    }
    // A setting is underlined in the recipe.
    let loss = "name = \"hostile_loss\"\nfault = \"setting\"";
    let assert = run(&sandbox, &library, &recipe(loss, SAMPLER, WEIGHTS));
    fails_with(&assert, 2, &["`loss.fault`: asked to be refused", "refused by `hostile_loss`"]);
    // Neither of these stops the run.
    for fault in ["panic in drop", "panic in advice"] {
        let loss = format!("name = \"hostile_loss\"\nfault = \"{fault}\"");
        run(&sandbox, &library, &recipe(&loss, SAMPLER, WEIGHTS)).success();
    }
    // The loss has to be on the device of the embeddings.
    sandbox.write("r.toml", recipe("name = \"hostile_loss\"\nfault = \"device\"", SAMPLER, WEIGHTS));
    let args = ["run", "r.toml", "--plugin", text(&library), "--force", "--device", "cuda"];
    fails_with(&sandbox.curricle_on_fakecuda(args).assert(), 1, &["libhostile.so", "returned a scalar on Cpu"]);
}

#[test]
fn misbehaving_samplers_end_the_run_with_an_error() {
    let library = rust_plugin("tests/fixtures/hostile", "hostile");
    let sandbox = Sandbox::new();
    for (fault, code, words) in [
        ("panic in batches", 1, "panicked: asked to panic in batches"),
        ("panic in batch_size", 2, "panicked: asked to panic in batch_size"),
        ("too large", 1, "put sample 24 in batch 1"),
        ("negative", 1, "put sample -1 in batch 1"),
        ("no batches", 1, "returned no batches"),
        ("empty batch", 1, "returned an empty batch (2 of 2)"),
    ] {
        let sampler = format!("name = \"hostile_sampler\"\nfault = \"{fault}\"");
        let assert = run(&sandbox, &library, &recipe(LOSS, &sampler, WEIGHTS));
        fails_with(&assert, code, &["libhostile.so", "sampler `hostile_sampler`", words]);
    }
}

#[test]
fn misbehaving_weight_schemes_end_the_run_with_an_error() {
    let library = rust_plugin("tests/fixtures/hostile", "hostile");
    let sandbox = Sandbox::new();
    for (fault, code, words) in [
        ("panic in update", 1, "panicked: asked to panic in update"),
        ("panic in tensors", 2, "asked to panic in tensors"),
        ("panic in needs_embeddings", 2, "panicked: asked to panic in needs_embeddings"),
        ("panic in is_uniform", 2, "panicked: asked to panic in is_uniform"),
        ("too few", 1, "returned weights of length 23 for 24 samples"),
        ("too many", 1, "returned weights of length 25 for 24 samples"),
        ("above 1", 1, "returned a weight of 1.5 for sample 3"),
        ("below 0", 1, "returned a weight of -0.5 for sample 3"),
        ("nan", 1, "returned a weight of NaN for sample 3"),
        ("short column", 1, "returned column `c` of length 1 for 24 samples"),
    ] {
        let weights = format!("name = \"hostile_weights\"\nfault = \"{fault}\"");
        let assert = run(&sandbox, &library, &recipe(LOSS, SAMPLER, &weights));
        fails_with(&assert, code, &["libhostile.so", "weights `hostile_weights`", words]);
    }
}

#[test]
fn exceptions_of_cpp_end_the_run_in_words() {
    let library = cpp_fixture("throws");
    let sandbox = Sandbox::new();
    for (fault, code, words) in [
        ("constructor", 2, "thrown by the constructor"),
        ("exception", 1, "thrown by forward"),
        ("error", 1, "said by forward"),
        ("number", 1, "threw something that is not an exception"),
        ("torch", 1, "libtorch: mat1 and mat2 shapes cannot be multiplied"),
        ("tensors", 2, "thrown by tensors"),
        ("undefined", 1, "loss `throws`"),
    ] {
        let loss = format!("name = \"throws\"\nfault = \"{fault}\"");
        let assert = run(&sandbox, &library, &recipe(&loss, SAMPLER, WEIGHTS));
        fails_with(&assert, code, &["libthrows.so", "loss `throws`", words]);
    }
    let assert = run(&sandbox, &library, &recipe("name = \"throws\"\nfault = \"setting\"", SAMPLER, WEIGHTS));
    fails_with(&assert, 2, &["`loss.fault`: asked to be refused"]);
}

#[test]
fn exceptions_over_the_raw_interface_are_errors() {
    let sandbox = Sandbox::new();
    refused(&sandbox, &raw_throws("visit"), &["cannot list its components", "thrown by visit"]);
    refused(&sandbox, &raw_throws("schema"), &["sampler `raw_throws`", "thrown by schema"]);
    for (function, code, words) in [
        ("create", 2, "threw something that is not an exception"),
        ("batches", 1, "thrown by batches"),
        ("endless", 1, "a batch has a length of 18446744073709551615"),
        ("batch_size", 2, "has a batch size of 18446744073709551615"),
    ] {
        let assert = run(&sandbox, &raw_throws(function), &recipe(LOSS, "name = \"raw_throws\"", WEIGHTS));
        fails_with(&assert, code, &["libraw_throws", "sampler `raw_throws`", words]);
    }
    run(&sandbox, &raw_throws("destroy"), &recipe(LOSS, "name = \"raw_throws\"", WEIGHTS)).success();
}
