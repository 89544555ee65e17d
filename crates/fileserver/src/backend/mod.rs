//! Back ends, from which documents come.

mod document;
mod error;
mod filesystem;
mod sqlite;
mod table;

use wire::file::FileId;

pub use self::{
    document::{Body, Document},
    error::{BackendError, LoadError},
    filesystem::{Filesystem, FilesystemOptions},
    sqlite::{
        DatabaseProblem, ImportError, ImportOptions, Imported, Progress, Sqlite, SqliteOptions, SqliteReader, import,
    },
    table::{AnyBackend, AnyReader, BackendKind, BackendOptions},
};

/// Collection of documents. Shared by all threads; each of them has a reader of its own.
pub trait Backend: Send + Sync + 'static {
    /// True if a load waits for a disk by more than a page fault, or for a lock: then it must not run on an event loop.
    const BLOCKS: bool;
    /// State that a thread needs to load documents, such as a connection.
    type Reader: Send;

    /// Makes a reader.
    ///
    /// # Errors
    /// See [`BackendError`].
    fn reader(&self) -> Result<Self::Reader, BackendError>;

    /// Loads the document with this id, as it is now, complete.
    ///
    /// # Errors
    /// See [`LoadError`].
    fn load(&self, reader: &mut Self::Reader, id: &FileId) -> Result<Document, LoadError>;

    /// True if the document with this id would be the same if it were loaded again. A cheap check, which is false where it
    /// cannot be certain.
    fn is_current(&self, document: &Document, id: &FileId) -> bool;
}

#[cfg(test)]
mod tests;
