//! Losses in Python files.
//!
//! A file is served by a process of the user's own interpreter (`worker.py`, started by `worker`), so that its torch
//! may be any version and a crash is an error, which repeats what the process printed last (`output`). The process
//! describes the classes of the file, each of which becomes an ordinary component (`loss`). Tensors cross in shared
//! memory (`memory`); loss and gradients come back and enter the graph as a function with known derivatives.

mod interpreter;
mod loss;
mod memory;
mod output;
mod worker;

pub use interpreter::{Interpreter, set_interpreter};

use super::load::Plugin;
use curricle_recipe::Refusal;
use curricle_sdk::{Component, ComponentKind};
use loss::{PythonClass, PythonFactory};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use worker::{Failure, Worker};

/// Whether a plugin is a Python file.
pub(super) fn is_python(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "py")
}

/// What the process says of its file.
#[derive(Deserialize)]
struct Description {
    python: String,
    torch: String,
    sha256: String,
    losses: Vec<PythonClass>,
}

/// Starts the process of a file and asks it for the file's losses.
pub(super) fn open(path: &Path, absolute: PathBuf, sha256: String) -> Result<Plugin, Refusal> {
    let refuse = |failure: Failure| {
        let (what, fix) = failure.refusal();
        Refusal::new(path, what, fix)
    };
    let (worker, description) = Worker::start(&absolute, &interpreter::chosen()).map_err(refuse)?;
    let Description { python, torch, sha256: read, losses } = description;
    if read != sha256 {
        return Err(Refusal::new(path, "changed while it was loaded", "run the command again"));
    }
    let worker = Arc::new(worker);
    // Components live as long as the program, as those of libraries do.
    let component = |class: PythonClass| {
        let factory: &'static PythonFactory = Box::leak(Box::new(PythonFactory::new(Arc::clone(&worker), class)));
        let class = factory.class();
        Component {
            kind: ComponentKind::Loss,
            name: &class.name,
            version: &class.version,
            summary: &class.summary,
            factory,
        }
    };
    let mut components: Vec<_> = losses.into_iter().map(component).collect();
    components.sort_by_key(|component| component.name);
    Ok(Plugin { path: absolute, sha256, sdk: format!("Python {python} with torch {torch}"), components })
}
