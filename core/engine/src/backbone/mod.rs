//! Networks and their embedding layer.
