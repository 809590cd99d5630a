//! TensorBoard, metrics files and progress.
