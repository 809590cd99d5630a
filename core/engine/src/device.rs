//! Where tensors live.
