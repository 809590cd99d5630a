//! From a resolved recipe to a finished run.
//!
//! Data flows one way: [`data`] (and label noise) → sampler → [`backbone`] → loss and weights →
//! [`train`] → evaluation → [`track`] → result, held together by [`run`]. Text becomes a recipe in
//! `curricle-recipe`; what needs components or a network to be checked is checked in
//! [`preflight`]. Modules use only the modules above them in the list of `docs/architecture.md`.

pub mod audit;
pub mod backbone;
pub mod bench;
pub mod conformance;
pub mod data;
pub mod device;
pub mod doctor;
mod error;
mod experiment;
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

pub use error::{Error, Result, caught};
pub use experiment::{Experiment, component_settings};
pub use method::Method;
pub use registry::{ComponentOrigin, RegisteredComponent, Registry};
