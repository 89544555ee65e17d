//! Connection for reading documents.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use proto::FileRegion;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension,
    blob::Blob,
    config::DbConfig,
    types::{FromSqlError, ValueRef},
};
use sys::beneath::{Metadata, OpenError};
use wire::file::FileId;

use super::{
    super::{BackendError, Body, LoadError},
    DatabaseProblem, SqliteOptions,
    files::{Files, Lease},
    schema::{CREATE, DIGEST_BYTES, Digest, TABLE},
};

/// Query for a document: the body only if it is short, and the digest only if it is as long as one. A damaged database may
/// have anything in their places, which is not read into memory to find out that it is wrong. Lengths are in bytes, which
/// SQLite knows without reading.
const FIND: &str = "SELECT number, CASE WHEN octet_length(digest) = 16 THEN digest END, octet_length(body),
    CASE WHEN octet_length(body) <= ?2 THEN body END
    FROM documents WHERE id = ?1";
const _: () = assert!(DIGEST_BYTES == 16);
/// Size of the largest bodies that come with their row, in bytes. SQLite reads such a value into memory of its own. For a
/// larger one, that and the copy cost more than a second access to the row, which reads it in place.
const COLUMN_MAX: u64 = 64 << 10;
/// Size of one read of a body that is copied to a temporary file, in bytes.
const CHUNK_BYTES: usize = 256 << 10;
/// Least time between two warnings: a damaged document in demand must not fill the log.
const WARNING_INTERVAL: Duration = Duration::from_secs(1);

/// Connection of one thread, which reads documents.
#[derive(Debug)]
pub struct SqliteReader {
    connection: Connection,
    /// Dropped after the connection.
    _lease: Arc<Lease>,
    /// State of the database since before it was opened.
    metadata: Metadata,
    memory_max: u64,
    spool: Box<Path>,
    /// Time of the last warning of damage.
    warned: Option<Instant>,
}

/// Reason why a row gives no document.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error("a value of the wrong type")]
    Type(#[from] FromSqlError),
    #[error("its digest does not match")]
    Digest,
    #[error("it claims to be larger than the database")]
    Size,
    #[error("cannot copy it to a temporary file: {0}")]
    Spool(io::Error),
}

impl SqliteReader {
    pub(super) fn open(path: &Path, files: &Files, options: &SqliteOptions) -> Result<Self, BackendError> {
        let failed = |problem| BackendError::Database { path: path.to_owned(), problem };
        let unreadable = |error: OpenError| BackendError::Open { path: path.to_owned(), error: error.into() };
        let metadata = Metadata::at(path).map_err(unreadable)?;
        if !path.is_file() {
            return Err(failed(DatabaseProblem::NotRegular));
        }
        let (header, lease) = files.open(path).map_err(|error| unreadable(error.into()))?;
        header.check().map_err(failed)?;
        let connection = connect(path, options).map_err(failed)?;
        // SQLite opens by name as well, and might have met another file.
        if !Metadata::at(path).is_ok_and(|now| lease.is_of(&now)) {
            return Err(failed(DatabaseProblem::Replaced));
        }
        let (memory_max, spool) = (options.memory_max, options.spool.clone().into_boxed_path());
        Ok(Self { connection, _lease: lease, metadata, memory_max, spool, warned: None })
    }

    pub(super) fn is_of(&self, metadata: &Metadata) -> bool {
        self.metadata == *metadata
    }

    #[cfg(test)]
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Reads a body. Returns the number of its bytes in a temporary file, too.
    pub(super) fn read(&mut self, id: &FileId) -> Result<(Body, u64), LoadError> {
        let error = match self.find(id) {
            Ok(found) => return found.ok_or(LoadError::Missing),
            Err(error) => error,
        };
        let load_error = error.load_error();
        let is_warning_due = self.warned.is_none_or(|at| at.elapsed() >= WARNING_INTERVAL);
        if load_error == LoadError::Failed && is_warning_due {
            self.warned = Some(Instant::now());
            tracing::warn!(%id, %error, "a document cannot be read");
        }
        Err(load_error)
    }

    fn find(&self, id: &FileId) -> Result<Option<(Body, u64)>, ReadError> {
        let mut statement = self.connection.prepare_cached(FIND)?;
        let mut rows = statement.query((id.as_bytes(), COLUMN_MAX.min(self.memory_max).cast_signed()))?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let digest = row.get_ref(1)?.as_blob()?;
        if let ValueRef::Blob(body) = row.get_ref(3)? {
            let body = Bytes::copy_from_slice(body);
            return matching(&Digest::of(id, &body), digest).map(|()| Some((Body::Memory(body), 0)));
        }
        let size = u64::try_from(row.get_ref(2)?.as_i64()?).map_err(|_| ReadError::Size)?;
        if size > self.metadata.size {
            return Err(ReadError::Size);
        }
        // While the row is being read, so is the blob: no writer comes between.
        let blob = self.connection.blob_open("main", TABLE, "body", row.get_ref(0)?.as_i64()?, true)?;
        if blob.len() as u64 != size {
            return Err(ReadError::Size);
        }
        if size > self.memory_max {
            let file = self.spool(id, &blob, digest)?;
            return Ok(Some((Body::File(FileRegion { file: Arc::new(file.into()), offset: 0, len: size }), size)));
        }
        let mut body = vec![0; blob.len()];
        blob.read_at_exact(&mut body, 0)?;
        matching(&Digest::of(id, &body), digest)?;
        Ok(Some((Body::Memory(body.into()), 0)))
    }

    /// Copies a body to an unnamed file, piece by piece.
    fn spool(&self, id: &FileId, blob: &Blob<'_>, digest: &[u8]) -> Result<File, ReadError> {
        let mut file = tempfile::tempfile_in(&self.spool).map_err(ReadError::Spool)?;
        let mut found = Digest::of_document(id);
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut copied = 0;
        while copied < blob.len() {
            let read = blob.read_at(&mut chunk, copied)?;
            found.update(&chunk[..read]);
            file.write_all(&chunk[..read]).map_err(ReadError::Spool)?;
            copied += read;
        }
        matching(&found.finish(), digest).map(|()| file)
    }
}

fn matching(found: &[u8], stored: &[u8]) -> Result<(), ReadError> {
    if found == stored { Ok(()) } else { Err(ReadError::Digest) }
}

fn connect(path: &Path, options: &SqliteOptions) -> Result<Connection, DatabaseProblem> {
    // An absolute path is never taken for a URI.
    let path = std::path::absolute(path).map_err(|_| DatabaseProblem::NotRegular)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(options.busy)?;
    // A damaged database may contain any SQL.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "mmap_size", i64::try_from(options.mmap_bytes).unwrap_or(i64::MAX))?;
    let schema = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    let sql: Option<String> = connection.query_row(schema, [TABLE], |row| row.get(0)).optional()?;
    if sql.as_deref() == Some(CREATE) { Ok(connection) } else { Err(DatabaseProblem::Schema) }
}

impl ReadError {
    fn load_error(&self) -> LoadError {
        let may_pass = match self {
            Self::Sqlite(error) => may_pass(error),
            Self::Spool(error) => is_exhaustion(error),
            Self::Type(_) | Self::Digest | Self::Size => false,
        };
        if may_pass { LoadError::Unavailable } else { LoadError::Failed }
    }
}

/// Returns the error for a client when the database could not be opened again.
pub(super) fn load_error_at_opening(error: &BackendError) -> LoadError {
    let may_pass = match error {
        BackendError::Open { error, .. } => is_exhaustion(error),
        BackendError::Database { problem: DatabaseProblem::Sqlite(error), .. } => may_pass(error),
        BackendError::Database { problem: DatabaseProblem::Replaced, .. } => true,
        BackendError::Database { .. } | BackendError::Layout(_) => false,
    };
    if may_pass {
        return LoadError::Unavailable;
    }
    tracing::warn!(%error, "the database has changed and cannot be opened");
    LoadError::Failed
}

fn may_pass(error: &rusqlite::Error) -> bool {
    match error.sqlite_error_code() {
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::OutOfMemory
            | ErrorCode::FileLockingProtocolFailed,
        ) => true,
        // SQLite does not say why it could not open something.
        Some(ErrorCode::CannotOpen) => File::open("/dev/null").is_err_and(|error| is_exhaustion(&error)),
        _ => false,
    }
}

/// True for a lack of descriptors, memory or disk space.
pub(super) fn is_exhaustion(error: &io::Error) -> bool {
    let is_full =
        matches!(error.kind(), io::ErrorKind::OutOfMemory | io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    is_full
        || error
            .raw_os_error()
            .is_some_and(|code| matches!(OpenError::from(io::Error::from_raw_os_error(code)), OpenError::Exhausted))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use layouts::Flat;
    use rusqlite::limits::Limit;

    use super::{
        super::{super::Backend, ImportOptions, Sqlite, import},
        *,
    };

    /// Larger than what this connection may read.
    const LARGE: i64 = 8 << 20;
    const READ_MAX: i32 = 1 << 20;

    /// A value in the place of the digest or the body is rejected by its length or its type, without being read.
    #[test]
    fn a_digest_of_the_wrong_length_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let (content, database) = (directory.path().join("content"), directory.path().join("db"));
        fs::create_dir(&content).unwrap();
        fs::write(content.join("D"), "document").unwrap();
        import(&content, &Flat, &database, ImportOptions::default(), |_| {}).unwrap();
        let id = FileId::new(b"D").unwrap();
        // A text is as long as its characters in front of the first NUL, as SQLite's length() has it.
        for (place, value) in [
            ("digest", "zeroblob(?1)"),
            ("digest", "CAST('0123456789abcdef' || zeroblob(?1) AS TEXT)"),
            ("digest", "'text of 16 bytes'"),
            ("digest", "x''"),
            ("digest", "16"),
            ("body", "CAST(zeroblob(?1) AS TEXT)"),
        ] {
            let writer = Connection::open(&database).unwrap();
            let before: (Vec<u8>, Vec<u8>) = writer
                .query_row("SELECT digest, body FROM documents", [], |row| Ok((row.get(0)?, row.get(1)?)))
                .unwrap();
            let parameters = if value.contains("?1") { vec![LARGE] } else { Vec::new() };
            let update = format!("UPDATE documents SET {place} = {value}");
            writer.execute(&update, rusqlite::params_from_iter(parameters)).unwrap();

            let reader = Sqlite::open(&database, SqliteOptions::default()).unwrap().reader().unwrap();
            reader.connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, READ_MAX).unwrap();
            let error = reader.find(&id).unwrap_err();
            let is_read =
                matches!(&error, ReadError::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::TooBig));
            assert!(!is_read && error.load_error() == LoadError::Failed, "{place} = {value}: {error}");
            drop(reader);
            writer.execute("UPDATE documents SET digest = ?1, body = ?2", before).unwrap();
        }
        let reader = Sqlite::open(&database, SqliteOptions::default()).unwrap().reader().unwrap();
        assert!(reader.find(&id).unwrap().is_some());
    }
}
