//! Where documents come from.

mod document;
mod error;
mod filesystem;
mod sqlite;
mod table;
#[cfg(test)]
mod tests;

use wire::file::FileId;

pub use self::{
    document::{Body, Document},
    error::{Absence, BackendError},
    filesystem::{Filesystem, FilesystemOptions},
    sqlite::{
        DatabaseProblem, ImportError, ImportOptions, Imported, Progress, Sqlite, SqliteOptions, SqliteReader, import,
    },
    table::{AnyBackend, AnyReader, BackendKind, BackendOptions},
};

/// A collection of documents. Shared by all threads; what one of them needs alone is its reader.
pub trait Backend: Send + Sync + 'static {
    /// Whether a load waits for a disk by more than a page fault, or for a lock: then it must not run on an event loop.
    const BLOCKS: bool;
    /// What a thread needs to load documents: a connection, say.
    type Reader: Send;

    /// # Errors
    /// See [`BackendError`].
    fn reader(&self) -> Result<Self::Reader, BackendError>;

    /// The document with this id, as it is now, whole.
    ///
    /// # Errors
    /// See [`Absence`].
    fn load(&self, reader: &mut Self::Reader, id: &FileId) -> Result<Document, Absence>;

    /// Whether the document would be the same if it were loaded again; a cheap look, and sometimes "no" for want of
    /// certainty. `id` is that of the document.
    fn is_current(&self, document: &Document, id: &FileId) -> bool;
}
