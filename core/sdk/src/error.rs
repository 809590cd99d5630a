//! The error type of components.

/// Result of everything that can fail in a component.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a component failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting has an unusable value. The engine underlines it in the recipe, so the message should say what is
    /// wrong and what would be valid.
    #[error("setting `{path}`: {message}")]
    Setting {
        /// Dotted path within the component's table, e.g. `lambda.start`.
        path: String,
        /// What is wrong with the value.
        message: String,
    },
    /// libtorch rejected an operation. Only the first line of its message is kept; a C++ stack trace follows it.
    #[error("libtorch: {0}")]
    Torch(String),
    /// The component panicked.
    #[error("panicked: {0}")]
    Panic(String),
    /// Anything else, as a message for the user.
    #[error("{0}")]
    Other(String),
}

impl Error {
    /// A setting with an unusable value.
    pub fn setting(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Setting { path: path.into(), message: message.into() }
    }

    /// Any other failure, as a message for the user.
    pub fn other(message: impl Into<String>) -> Self {
        Self::Other(message.into())
    }

    /// The first line of libtorch's message.
    pub(crate) fn torch(message: &str) -> Self {
        Self::Torch(message.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("unknown error").to_string())
    }
}

impl From<tch::TchError> for Error {
    fn from(error: tch::TchError) -> Self {
        match error {
            tch::TchError::Torch(message) => Self::torch(&message),
            other => Self::Other(other.to_string()),
        }
    }
}
