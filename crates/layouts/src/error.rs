//! Errors of layouts.

use std::{
    io,
    path::{Path, PathBuf},
};

/// Reason why a directory cannot be used with a layout. The message is complete: there is no source to print behind it.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    #[error("cannot read {path}: {error}", path = .path.display())]
    Read { path: PathBuf, error: io::Error },
    /// Malformed line, counted from 1.
    #[error("{path}, line {line}: {problem}", path = .path.display())]
    Malformed { path: PathBuf, line: usize, problem: &'static str },
}

impl LayoutError {
    /// Makes the error of reading `path`, for `map_err`.
    pub fn reading(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Read { path: path.to_owned(), error }
    }
}
