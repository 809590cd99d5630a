//! Plugins: components in dynamic libraries, and losses in Python files (`python`).
//!
//! A library is named by a recipe or on the command line, never discovered automatically. Its hash is
//! compared with the pin, its bytes are checked (`library_file`), it is opened, its header is validated
//! (`header`), and only then is it asked for its components, which are the same records as those of
//! built-in ones. It stays loaded until the process ends.

mod header;
mod library_file;
mod load;
mod python;

pub use load::{Plugin, open};
pub use python::{Interpreter, set_interpreter};
