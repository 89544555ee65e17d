//! A document as it is cached and sent.

use std::sync::Arc;

use bytes::Bytes;
use layouts::Located;
use proto::FileRegion;
use sys::beneath::Metadata;

/// Where the bytes are. Both are cheap to clone.
#[derive(Clone, Debug)]
pub enum Body {
    Memory(Bytes),
    File(FileRegion),
}

/// A document as it was at one moment, and what its back end needs to know to see whether it still is. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Document {
    pub body: Body,
    pub(super) origin: Origin,
}

/// What a document was made from.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    File(Arc<FileOrigin>),
    Database(DatabaseOrigin),
}

#[derive(Debug)]
pub(super) struct FileOrigin {
    pub(super) located: Located,
    pub(super) metadata: Metadata,
    /// The last change was long enough ago for the next one to have another time.
    pub(super) settled: bool,
}

/// The whole database as it was: its documents are as old as it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct DatabaseOrigin {
    pub(super) metadata: Metadata,
    pub(super) settled: bool,
    /// What lies in a temporary file that exists for this document alone.
    pub(super) spooled_bytes: u64,
}

impl Document {
    /// Bytes of the body.
    #[expect(clippy::len_without_is_empty, reason = "an empty document is a document")]
    pub fn len(&self) -> u64 {
        match &self.body {
            Body::Memory(bytes) => bytes.len() as u64,
            Body::File(region) => region.len,
        }
    }

    /// Bytes that keeping this document costs. A temporary file counts like memory, which it is on some machines.
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

    /// Descriptors that keeping this document costs.
    pub fn descriptors(&self) -> usize {
        usize::from(matches!(self.body, Body::File(_)))
    }
}
