//! Document as it is cached and sent.

use std::sync::Arc;

use bytes::Bytes;
use file_cache::FileState;
use layouts::Located;
use proto::FileRegion;

/// Bytes of a document, or the file that has them. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Body {
    Memory(Bytes),
    File(FileRegion),
}

/// Document as it was at one moment, and what its back end needs to check whether it has changed. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Document {
    pub body: Body,
    pub(super) origin: Origin,
}

/// Origin of a document.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    File(Arc<FileOrigin>),
    Database(DatabaseOrigin),
}

#[derive(Debug)]
pub(super) struct FileOrigin {
    pub(super) located: Located,
    /// State of the file. Settled only if the directory that it was chosen from has settled, too.
    pub(super) state: FileState,
}

/// State of the whole database: its documents are as old as it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct DatabaseOrigin {
    pub(super) state: FileState,
    /// Bytes in a temporary file that exists for this document alone.
    pub(super) spooled_bytes: u64,
}

impl Document {
    /// Length of the body in bytes.
    #[expect(clippy::len_without_is_empty, reason = "an empty document is a document")]
    pub fn len(&self) -> u64 {
        match &self.body {
            Body::Memory(bytes) => bytes.len() as u64,
            Body::File(region) => region.len,
        }
    }

    /// Memory that this document holds, in bytes. A temporary file counts like memory, which it is on some machines.
    pub fn held_bytes(&self) -> usize {
        let origin = match &self.origin {
            Origin::File(origin) => size_of::<FileOrigin>() + origin.located.path.as_bytes().len(),
            Origin::Database(origin) => usize::try_from(origin.spooled_bytes).unwrap_or(usize::MAX),
        };
        let body = match &self.body {
            Body::Memory(bytes) => bytes.len(),
            Body::File(_) => 0,
        };
        size_of::<Self>().saturating_add(origin).saturating_add(body)
    }

    /// Number of descriptors that this document holds.
    pub fn descriptors(&self) -> usize {
        usize::from(matches!(self.body, Body::File(_)))
    }
}
