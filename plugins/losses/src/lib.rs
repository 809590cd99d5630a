//! The built-in losses, one file each.
