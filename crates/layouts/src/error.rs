//! Why a directory cannot be used with a layout.

use std::{
    io,
    path::{Path, PathBuf},
};

#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    #[error("cannot read {path}: {source}", path = .path.display())]
    Read { path: PathBuf, source: io::Error },
    /// `line` counts from 1.
    #[error("{path}, line {line}: {problem}", path = .path.display())]
    Malformed { path: PathBuf, line: usize, problem: &'static str },
}

impl LayoutError {
    /// For `map_err`.
    pub fn reading(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Read { path: path.to_owned(), source }
    }
}
