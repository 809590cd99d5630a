//! The curricle program.
fn main() {}
