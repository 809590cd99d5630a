//! The built-in weights, one file each.
