//! Libraries compiled with older and with newer headers than the program's load and run.

use crate::support::Sandbox;
use crate::support::plugins::{Headers, memory_cpp, plain};
use std::path::Path;

fn train(library: &Path, sampler: &str, loss: &str, weights: &str) {
    let sandbox = Sandbox::new();
    sandbox.write(
        "r.toml",
        format!(
            "[data]\nsource = \"strokes\"\nclasses = 8\nper_class = 8\nsize = 16\n\
             [backbone]\nname = \"conv4\"\nwidth = 4\n[embedding]\nsize = 4\n\
             [sampler]\n{sampler}\n[loss]\n{loss}\n[weights]\n{weights}\n\
             [optimizer]\nname = \"sgd\"\nlr = 0.001\n[train]\nepochs = 2\n\
             [eval]\ncluster = \"never\"\n[track]\nhistograms = false\nimages = false\nprojector = false\n"
        ),
    );
    let library = library.to_str().expect("the path is Unicode");
    sandbox.curricle(["run", "r.toml", "--plugin", library]).assert().success();
}

fn c_library(headers: Headers) {
    train(&plain(headers), "name = \"plain\"", "name = \"ms\"", "name = \"plain\"");
}

fn cpp_library(headers: Headers) {
    let sampler = "name = \"pk\"\nclasses = 3\nper_class = 2";
    train(&memory_cpp(headers), sampler, "name = \"cross_batch_memory_cpp\"\nsize = 16", "name = \"uniform\"");
}

#[test]
fn a_c_library_with_the_headers_of_the_program_runs() {
    c_library(Headers::Current);
}

#[test]
fn libraries_of_the_first_release_run() {
    c_library(Headers::Frozen);
    cpp_library(Headers::Frozen);
}

#[test]
fn libraries_that_are_newer_than_the_program_run() {
    c_library(Headers::Newer);
    cpp_library(Headers::Newer);
}
