//! Warnings about settings that are legal and yet cannot work.

/// A setting that is accepted but will not do what a user expects, found before training.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// Dotted path of the setting below the component's own table; empty for the whole component.
    pub path: String,
    /// What will happen, and what would be better.
    pub message: String,
}

impl Advice {
    /// Advice about one setting.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

/// What is known of the training data when advice is asked for.
#[derive(Debug, Clone, Copy)]
pub struct DataFacts<'a> {
    /// Number of training samples in each class, in the order of class ids; empty where nobody
    /// knows yet.
    pub class_sizes: &'a [usize],
    /// Size of the embedding.
    pub embedding_size: usize,
    /// Samples in one batch, 0 where nobody knows yet.
    pub batch_size: usize,
}
