//! Documents that are files of a directory.

use std::{fs::File, io, path::Path, sync::Arc};

use layouts::{Layout, Located};
use proto::FileRegion;
use sys::{
    beneath::{Metadata, Root},
    clock::unix_coarse,
    contents::read_unchanging,
};
use wire::file::FileId;

use super::{Absence, Backend, BackendError, Body, Document, document::FileOrigin, document::Origin};

/// How a [`Filesystem`] hands documents over.
#[derive(Clone, Copy, Debug)]
pub struct FilesystemOptions {
    /// Files up to this size are read into memory, larger ones handed over as open descriptors; bytes. 0 when nothing
    /// is cached: contents that are not kept are better sent from the descriptor than read.
    pub memory_max: u64,
}

/// See the module's description. Loads are as short as the page cache makes them, and run where they are asked for.
#[derive(Debug)]
pub struct Filesystem<L> {
    root: Root,
    layout: L,
    options: FilesystemOptions,
}

impl<L: Layout> Filesystem<L> {
    /// # Errors
    /// `directory` cannot be opened as a directory, or not with this layout.
    pub fn open(directory: &Path, options: FilesystemOptions) -> Result<Self, BackendError> {
        let open = |error| BackendError::Open { path: directory.to_owned(), source: io::Error::from(error) };
        let root = Root::open(directory).map_err(open)?;
        Ok(Self { root, layout: L::open(directory)?, options })
    }
}
