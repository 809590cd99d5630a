//! The engine: turns a resolved recipe into a finished run.
//!
//! Data flows one way: [`data`] (and label noise) → sampler → [`backbone`] → loss and weights →
//! [`train`] → evaluation → [`track`] → result; [`run`] drives all of it. Whatever components,
//! networks or files decide about a recipe is checked in [`preflight`]. A module uses only modules
//! below it; `docs/architecture.md` lists them in order.

pub mod audit;
pub mod backbone;
pub mod bench;
mod call;
pub mod conformance;
pub mod data;
mod declarations;
pub mod device;
pub mod doctor;
mod embedding_import;
mod error;
mod experiment;
mod held;
mod last_words;
mod method;
pub mod plugin;
pub mod preflight;
pub mod probe;
pub mod progress;
mod registry;
pub mod run;
pub mod stop;
mod tensor_file;
pub mod track;
pub mod train;

pub use embedding_import::read_embeddings;
pub use error::{Error, Result, caught};
pub use experiment::{Experiment, component_settings};
pub use held::Held;
pub use method::Method;
pub use registry::{ComponentOrigin, RegisteredComponent, Registry};
