#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod error;
mod flat;
mod manifest;
mod path;
mod table;
mod tree;
mod zotero;

use std::path::{Path, PathBuf};

use sys::beneath::{Metadata, OpenError, Root};
use wire::file::FileId;

pub use self::{
    error::LayoutError,
    flat::Flat,
    manifest::Manifest,
    path::RelativePath,
    table::{AnyLayout, LayoutKind},
    tree::Tree,
    zotero::Zotero,
};

/// Mapping from ids to files beneath a directory.
///
/// A layout chooses a path and opens no contents. The caller opens it beneath the root, so that a wrong path can leave the
/// directory as little as a link in it can.
pub trait Layout: Send + Sync + 'static {
    /// Returns the path at which the file for `id` would be. There need not be one.
    ///
    /// # Errors
    /// `Missing` for an id that can have no file here; otherwise the error of reading the directory.
    fn locate(&self, root: &Root, id: &FileId) -> Result<Located, OpenError>;

    /// True if `id` still means the file that it was found to mean. A cheap check.
    fn is_current(&self, root: &Root, _id: &FileId, located: &Located) -> bool {
        let Located { path, chosen_from } = located;
        chosen_from.is_none_or(|directory| root.stat(path.parent()) == Ok(directory))
    }

    /// Lists every id that has a file, with that file, in the order of the ids. A file with several ids occurs as often.
    ///
    /// # Errors
    /// A directory cannot be read.
    fn list(&self, root: &Path) -> Result<Vec<(FileId, PathBuf)>, LayoutError>;
}

/// Location of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    pub path: RelativePath,
    /// State of its directory, if the path was chosen from the directory's entries: while the directory is unchanged, so is
    /// the choice.
    pub chosen_from: Option<Metadata>,
}

impl From<RelativePath> for Located {
    fn from(path: RelativePath) -> Self {
        Self { path, chosen_from: None }
    }
}

#[cfg(test)]
mod tests;
