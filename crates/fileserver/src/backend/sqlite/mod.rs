//! Documents that are rows of an SQLite database.

mod files;
mod header;
mod import;
mod problem;
mod read;
mod schema;
#[cfg(test)]
mod tests;

use std::{
    env,
    path::{Path, PathBuf},
    time::Duration,
};

use sys::{beneath::Metadata, clock::unix_coarse};
use wire::file::FileId;

use self::files::Files;
pub use self::{
    import::{ImportError, ImportOptions, Imported, Progress, import},
    problem::DatabaseProblem,
    read::SqliteReader,
};
use super::{
    Absence, Backend, BackendError, Document,
    document::{DatabaseOrigin, Origin},
};

/// How a [`Sqlite`] reads.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// Bodies up to this size are read into memory, larger ones copied to an unnamed temporary file; bytes.
    pub memory_max: u64,
    /// Where the temporary files are made.
    pub spool: PathBuf,
    /// How much of the database SQLite may map into memory; bytes. A database that is truncated while it is mapped
    /// ends the process by SIGBUS, therefore 0 is the default: a file on a server is anybody's guess.
    pub mmap_bytes: u64,
    /// How long a load waits for a writer before it gives up.
    pub busy: Duration,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { memory_max: 2 << 20, spool: env::temp_dir(), mmap_bytes: 0, busy: Duration::from_millis(100) }
    }
}

/// See the module's description. Nothing leaves it that does not match its digest.
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
        // Said at the start rather than to the first client.
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

    fn load(&self, reader: &mut SqliteReader, id: &FileId) -> Result<Document, Absence> {
        // The time before the state, and both before the look into the database: whoever changes it after this changes
        // its state too.
        let now = unix_coarse();
        let metadata = Metadata::at(&self.path).map_err(|_| Absence::Failed)?;
        let settled = metadata.is_settled(now);
        if !reader.is_of(&metadata) {
            *reader = self.reader().map_err(|error| read::absence_at_opening(&error))?;
        }
        let (body, spooled_bytes) = reader.read(id)?;
        Ok(Document { body, origin: Origin::Database(DatabaseOrigin { metadata, settled, spooled_bytes }) })
    }

    fn is_current(&self, document: &Document, _id: &FileId) -> bool {
        let Origin::Database(origin) = &document.origin else { return false };
        origin.settled && Metadata::at(&self.path) == Ok(origin.metadata)
    }
}
