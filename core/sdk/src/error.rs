//! The one error type of components.

/// Result of everything a component does.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a component could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting has a value the component cannot work with. The engine underlines it in the
    /// recipe, so the message should say what is wrong and what would be right.
    #[error("setting `{path}`: {message}")]
    Setting {
        /// Dotted path below the component's own table, e.g. `lambda.start`.
        path: String,
        /// What is wrong with it.
        message: String,
    },
    /// libtorch refused an operation. Only the first line of its message is kept: the rest is a
    /// C++ stack.
    #[error("libtorch: {0}")]
    Torch(String),
    /// The component panicked.
    #[error("panicked: {0}")]
    Panic(String),
    /// Anything else, in words for the user.
    #[error("{0}")]
    Other(String),
}

impl Error {
    /// A setting that cannot be used, and why.
    pub fn setting(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Setting { path: path.into(), message: message.into() }
    }

    /// Any other failure, in words for the user.
    pub fn other(message: impl Into<String>) -> Self {
        Self::Other(message.into())
    }

    /// The first line of libtorch's message.
    pub(crate) fn torch(message: &str) -> Self {
        Self::Torch(message.lines().next().unwrap_or("unknown error").trim().to_string())
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
