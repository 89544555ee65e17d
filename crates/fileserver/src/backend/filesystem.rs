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
    /// `directory` cannot be opened as a directory.
    pub fn open(directory: &Path, layout: L, options: FilesystemOptions) -> Result<Self, BackendError> {
        let failed = |errno| BackendError::Open { path: directory.to_owned(), source: io::Error::from(errno) };
        Ok(Self { root: Root::open(directory).map_err(failed)?, layout, options })
    }
}

impl<L: Layout> Backend for Filesystem<L> {
    const BLOCKS: bool = false;
    type Reader = ();

    fn reader(&self) -> Result<(), BackendError> {
        Ok(())
    }

    fn load(&self, _reader: &mut (), id: &FileId) -> Result<Document, Absence> {
        let located = self.layout.locate(&self.root, id)?;
        let opened = self.root.open_file(located.path.as_bytes())?;
        let file = File::from(opened.file);
        let (body, metadata) = match read_unchanging(&file, opened.metadata, self.options.memory_max)? {
            Some((contents, metadata)) => (Body::Memory(contents.into()), metadata),
            // Large, or being written just now: then the descriptor is at least one file's.
            None => {
                let metadata = Metadata::of(&file)?;
                (Body::File(FileRegion { file: Arc::new(file.into()), offset: 0, len: metadata.size }), metadata)
            }
        };
        // Read after the file: what changes from here on has a later time than it.
        let now = unix_coarse();
        let settled = metadata.is_settled(now) && located.chosen_from.is_none_or(|directory| directory.is_settled(now));
        Ok(Document { body, origin: Origin::File(Arc::new(FileOrigin { located, metadata, settled })) })
    }

    fn is_current(&self, document: &Document, _id: &FileId) -> bool {
        let Origin::File(origin) = &document.origin else { return false };
        let Located { path, chosen_from } = &origin.located;
        origin.settled
            && self.root.stat(path.as_bytes()) == Ok(origin.metadata)
            && chosen_from.is_none_or(|directory| self.root.stat(path.parent()) == Ok(directory))
    }
}
