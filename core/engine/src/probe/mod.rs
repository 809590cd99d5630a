//! Single components on data from a file, for comparison with other implementations.

pub mod weights;
