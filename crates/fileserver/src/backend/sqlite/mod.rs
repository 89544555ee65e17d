//! Back end whose documents are rows of an SQLite database.

mod files;
mod header;
mod import;
mod problem;
mod read;
mod schema;

use std::{
    env,
    path::{Path, PathBuf},
    time::Duration,
};

use file_cache::FileState;
use sys::{beneath::Metadata, clock::unix_coarse};
use wire::file::FileId;

use self::files::Files;
pub use self::{
    import::{ImportError, ImportOptions, Imported, Progress, import},
    problem::DatabaseProblem,
    read::SqliteReader,
};
use super::{
    Backend, BackendError, Document, LoadError,
    document::{DatabaseOrigin, Origin},
};

/// Options of a [`Sqlite`].
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// Size of the largest bodies that are read into memory, in bytes; larger ones are copied to an unnamed temporary file.
    pub memory_max: u64,
    /// Directory of the temporary files.
    pub spool: PathBuf,
    /// Bytes of the database that SQLite may map into memory. A database that is truncated while it is mapped ends the
    /// process by SIGBUS; since nobody knows who truncates a file on a server, 0 is the default.
    pub mmap_bytes: u64,
    /// Time that a load waits for a writer before it fails.
    pub busy: Duration,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { memory_max: 2 << 20, spool: env::temp_dir(), mmap_bytes: 0, busy: Duration::from_millis(100) }
    }
}

/// Database of documents. A document that does not match its digest is never served.
#[derive(Debug)]
pub struct Sqlite {
    path: PathBuf,
    options: SqliteOptions,
    files: Files,
}

impl Sqlite {
    /// # Errors
    /// `path` is no database of documents, or cannot be read.
    pub fn open(path: &Path, options: SqliteOptions) -> Result<Self, BackendError> {
        let database = Self { path: path.to_owned(), options, files: Files::default() };
        // An error is reported at the start rather than to the first client.
        database.reader()?;
        Ok(database)
    }
}

impl Backend for Sqlite {
    const BLOCKS: bool = true;
    type Reader = SqliteReader;

    fn reader(&self) -> Result<SqliteReader, BackendError> {
        SqliteReader::open(&self.path, &self.files, &self.options)
    }

    fn load(&self, reader: &mut SqliteReader, id: &FileId) -> Result<Document, LoadError> {
        // The time before the state, and both before the database is read: a change after this changes its state, too.
        let now = unix_coarse();
        let metadata = Metadata::at(&self.path).map_err(|_| LoadError::Failed)?;
        if !reader.is_of(&metadata) {
            *reader = self.reader().map_err(|error| read::load_error_at_opening(&error))?;
        }
        let (body, spooled_bytes) = reader.read(id)?;
        let state = FileState::new(metadata, now);
        Ok(Document { body, origin: Origin::Database(DatabaseOrigin { state, spooled_bytes }) })
    }

    fn is_current(&self, document: &Document, _id: &FileId) -> bool {
        let Origin::Database(origin) = &document.origin else { return false };
        origin.state.is_unchanged(|| Metadata::at(&self.path))
    }
}

#[cfg(test)]
mod tests;
