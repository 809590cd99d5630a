//! The built-in samplers, one file each.
