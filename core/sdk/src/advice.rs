//! Warnings about settings that are valid but degenerate.

/// A warning about a setting that is valid but will not do what the user expects, given before training.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// Dotted path of the setting within the component's table; empty for the whole component.
    pub path: String,
    /// What will happen, and what to use instead.
    pub message: String,
}

impl Advice {
    /// Advice about one setting.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

/// What is known about the training data when advice is requested.
#[derive(Debug, Clone, Copy)]
pub struct DataFacts<'a> {
    /// Number of training samples per class, in the order of class ids; empty if not known yet.
    pub class_sizes: &'a [usize],
    /// Size of the embedding.
    pub embedding_size: usize,
    /// Samples in one batch, 0 if not known yet.
    pub batch_size: usize,
}
