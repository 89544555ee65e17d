//! Why there is no document, or no collection of them.

use std::{io, path::PathBuf};

use layouts::LayoutError;
use sys::beneath::OpenError;
use wire::file::Status;

use super::DatabaseProblem;

/// Why there is no document to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// There is none with this id.
    Missing,
    /// Not now: out of descriptors, or somebody else holds a lock. May pass.
    Unavailable,
    /// It cannot be read, or is damaged.
    Failed,
}

impl From<OpenError> for Absence {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Missing | OpenError::Directory | OpenError::NotRegular => Self::Missing,
            OpenError::Exhausted => Self::Unavailable,
            OpenError::Denied | OpenError::Failed(_) => Self::Failed,
        }
    }
}

impl From<Absence> for Status {
    fn from(absence: Absence) -> Self {
        match absence {
            Absence::Missing => Self::Missing,
            Absence::Unavailable => Self::Unavailable,
            Absence::Failed => Self::Failed,
        }
    }
}

/// Why a collection cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    #[error("cannot open {path}: {source}", path = .path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("{path}: {problem}", path = .path.display())]
    Database { path: PathBuf, problem: DatabaseProblem },
    #[error(transparent)]
    Layout(#[from] LayoutError),
}
