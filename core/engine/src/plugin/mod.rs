//! Components in dynamic libraries.
//!
//! A library is named by a recipe or on the command line, never found by itself. It is looked at
//! from outside (`image`), hashed and compared with its pin, opened, shaken hands with
//! (`header`), and only then asked for its components, which are the same records as those of
//! built-in ones. It stays loaded for the life of the process.

mod header;
mod image;
mod load;

pub use load::{Plugin, open};
