//! The engine: turns a recipe into a finished run.
//!
//! Data flows one way, and each arrow is one module: recipe text → [`recipe`] → [`data`] (and
//! label noise) → sampler → [`backbone`] → loss and weights → [`train`] → [`eval`] → [`track`] →
//! result. [`run`] drives all of it; [`report`] turns results into tables and figures.

mod any_float;
pub mod audit;
pub mod backbone;
pub mod bench;
pub mod data;
pub mod device;
pub mod doctor;
pub mod error;
pub mod eval;
pub mod files;
pub mod plugin;
pub mod probe;
pub mod recipe;
pub mod registry;
pub mod report;
pub mod run;
pub mod tensor_file;
pub mod track;
pub mod train;

pub use error::{Error, Result, caught};
