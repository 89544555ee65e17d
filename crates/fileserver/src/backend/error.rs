//! Errors of loading a document, and of opening a back end.

use std::{io, path::PathBuf};

use layouts::LayoutError;
use sys::beneath::OpenError;
use wire::file::Status;

use super::DatabaseProblem;

/// Reason why there is no document to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// There is no document with this id.
    Missing,
    /// The document cannot be loaded now, for want of descriptors or of a lock. This may pass.
    Unavailable,
    /// The document cannot be read, or is damaged.
    Failed,
}

impl From<OpenError> for LoadError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Missing | OpenError::Directory | OpenError::NotRegular => Self::Missing,
            OpenError::Exhausted => Self::Unavailable,
            OpenError::Denied | OpenError::Failed(_) => Self::Failed,
        }
    }
}

impl From<LoadError> for Status {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Missing => Self::Missing,
            LoadError::Unavailable => Self::Unavailable,
            LoadError::Failed => Self::Failed,
        }
    }
}

/// Reason why a collection cannot be served. The message is complete: there is no source to print behind it.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    #[error("cannot serve {path}: {error}", path = .path.display())]
    Open { path: PathBuf, error: io::Error },
    #[error("cannot serve {path}: {problem}", path = .path.display())]
    Database { path: PathBuf, problem: DatabaseProblem },
    #[error(transparent)]
    Layout(#[from] LayoutError),
}
