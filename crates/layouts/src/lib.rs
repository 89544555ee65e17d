#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod error;
mod flat;
mod manifest;
mod path;
mod table;
#[cfg(test)]
mod tests;
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
    table::{AnyLayout, LayoutKind, UnknownLayout},
    tree::Tree,
    zotero::Zotero,
};

/// Which file beneath a directory an id means.
///
/// A layout chooses a path and opens no contents: what it names is opened beneath the root, by whoever asked, so that
/// a wrong answer can leave the directory as little as a link in it can.
pub trait Layout: Send + Sync + 'static {
    /// The file that `id` means. There need not be one: the path is an answer to "where would it be?".
    ///
    /// # Errors
    /// `Missing` for an id that can mean nothing here; otherwise what was met on the way.
    fn locate(&self, root: &Root, id: &FileId) -> Result<Located, OpenError>;

    /// Whether `id` still means the file that it was found to mean; a cheap look.
    fn still_means(&self, root: &Root, _id: &FileId, located: &Located) -> bool {
        let Located { path, chosen_from } = located;
        chosen_from.is_none_or(|directory| root.stat(path.parent()) == Ok(directory))
    }

    /// Every id that has a file, and that file, in the order of the ids. A file behind several ids occurs as often.
    ///
    /// # Errors
    /// A directory cannot be read.
    fn list(&self, root: &Path) -> Result<Vec<(FileId, PathBuf)>, LayoutError>;
}

/// Where a document is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    pub path: RelativePath,
    /// State of the directory around it, if the path is a choice from that directory's entries: while it stays as it
    /// is, so does the choice.
    pub chosen_from: Option<Metadata>,
}

impl From<RelativePath> for Located {
    fn from(path: RelativePath) -> Self {
        Self { path, chosen_from: None }
    }
}
