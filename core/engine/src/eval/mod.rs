//! Retrieval and clustering metrics.
