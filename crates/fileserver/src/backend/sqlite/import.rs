//! Import of a directory into a database.

use std::{
    fs::{self, File, Permissions},
    io,
    os::unix::fs::{FileExt, PermissionsExt},
    path::{Path, PathBuf},
    thread,
};

use layouts::{Layout, LayoutError};
use rusqlite::{Connection, blob::ZeroBlob};
use sys::{
    beneath::{Metadata, OpenError, Opened, Root},
    clock::unix_coarse,
    contents::read_unchanging,
};
use wire::file::FileId;

use super::{
    header::Header,
    schema::{APPLICATION_ID, BODY_BYTES_MAX, CREATE, DIGEST_BYTES, Digest, FORMAT, TABLE},
};

const INSERT: &str = "INSERT INTO documents (id, digest, body) VALUES (?1, ?2, ?3)";
/// Size of the largest documents that are read at once, in bytes; larger ones are read piece by piece.
const MEMORY_MAX: u64 = 8 << 20;
const CHUNK_BYTES: usize = 1 << 20;
/// Number of times that a large file is read while it changes.
const READ_TRIES: usize = 3;

/// Options of an import.
#[derive(Clone, Copy, Debug)]
pub struct ImportOptions {
    /// Size of the database's pages, in bytes: a power of two from 512 to 65536.
    pub page_bytes: u32,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self { page_bytes: 32 << 10 }
    }
}

/// Progress of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub documents: usize,
    pub documents_total: usize,
    pub bytes: u64,
}

/// Result of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    pub documents: usize,
    pub bytes: u64,
    /// Number of files that had gone before they could be read.
    pub vanished: usize,
}

/// Reason why an import fails. The message is complete: there is no source to print behind it.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("cannot open {path}: {error}", path = .path.display())]
    Directory { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error("cannot read document {id}: {error}")]
    Document { id: FileId, error: io::Error },
    #[error("document {0} changes while it is being read")]
    Changing(FileId),
    #[error("document {0} is larger than SQLite can store (1 GB)")]
    TooLarge(FileId),
    #[error("{path} is not a database of documents, and is not replaced", path = .0.display())]
    Foreign(PathBuf),
    #[error("{path} exists: another program is writing to the database, or was interrupted while it did", path = .0.display())]
    Journal(PathBuf),
    #[error("cannot write {path}: {error}", path = .path.display())]
    Write { path: PathBuf, error: io::Error },
    #[error("page size {0}: not a power of two from 512 to 65536")]
    PageSize(u32),
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

/// Writes every document of `directory` to a new database, which takes the place of `database` when it is complete and on
/// the disk. Readers of the old one notice, and nobody sees an incomplete one.
///
/// A document is imported as a server of the directory would send it, read by the same rules.
///
/// Not for a process that serves `database` itself: reading the header of the old one releases the process's locks on it
/// (fcntl(2)).
///
/// # Errors
/// See [`ImportError`]. `database` is then what it was before.
pub fn import<L: Layout>(
    directory: &Path,
    layout: &L,
    database: &Path,
    options: ImportOptions,
    mut progress: impl FnMut(Progress),
) -> Result<Imported, ImportError> {
    if !options.page_bytes.is_power_of_two() || !(512..=65536).contains(&options.page_bytes) {
        return Err(ImportError::PageSize(options.page_bytes));
    }
    check_replaceable(database)?;
    let opening = |errno| ImportError::Directory { path: directory.to_owned(), error: io::Error::from(errno) };
    let root = Root::open(directory).map_err(opening)?;
    let mut ids = layout.list(directory)?;
    // A database in the directory that it is made from is no document.
    if let Ok(old) = fs::canonicalize(database) {
        ids.retain(|(_, path)| fs::canonicalize(path).is_ok_and(|path| path != old));
    }
    let writing = |error| ImportError::Write { path: database.to_owned(), error };
    let parent = database.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    // Readable as far as the user's mask allows: the server may run as another user.
    let temporary =
        tempfile::Builder::new().prefix(".import-").permissions(Permissions::from_mode(0o666)).tempfile_in(parent);
    let temporary = temporary.map_err(|error| writing(without_path(error)))?;

    let mut connection = create(temporary.path(), options)?;
    let transaction = connection.transaction()?;
    let mut imported = Imported::default();
    for (id, _) in &ids {
        match add(&transaction, &root, layout, id)? {
            Some(bytes) => {
                imported.documents += 1;
                imported.bytes += bytes;
            }
            None => imported.vanished += 1,
        }
        let documents = imported.documents + imported.vanished;
        progress(Progress { documents, documents_total: ids.len(), bytes: imported.bytes });
    }
    transaction.commit()?;
    connection.close().map_err(|(_, error)| error)?;
    temporary.as_file().sync_all().map_err(writing)?;
    temporary.persist(database).map_err(|error| writing(error.error))?;
    File::open(parent).and_then(|parent| parent.sync_all()).map_err(writing)?;
    Ok(imported)
}

/// Returns the error of the system call: tempfile adds the path of a file that the user knows nothing of.
fn without_path(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|error| error.source()?.downcast_ref::<io::Error>()?.raw_os_error());
    inner.map_or(error, io::Error::from_raw_os_error)
}

/// Checks that a file of this name may be replaced, if there is one.
fn check_replaceable(database: &Path) -> Result<(), ImportError> {
    for suffix in ["-journal", "-wal"] {
        let mut name = database.as_os_str().to_owned();
        name.push(suffix);
        match fs::exists(&name) {
            // It would be applied to the new database.
            Ok(true) => return Err(ImportError::Journal(name.into())),
            Ok(false) => {}
            Err(error) => return Err(ImportError::Write { path: database.to_owned(), error }),
        }
    }
    let foreign = || ImportError::Foreign(database.to_owned());
    match fs::symlink_metadata(database) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(ImportError::Write { path: database.to_owned(), error }),
        Ok(metadata) if !metadata.is_file() => return Err(foreign()),
        Ok(metadata) if metadata.len() == 0 => return Ok(()),
        Ok(_) => {}
    }
    let header = File::open(database).and_then(|file| Header::read(&file));
    let header = header.map_err(|error| ImportError::Write { path: database.to_owned(), error })?;
    // A database of another format may be replaced, too.
    if header.is_ours() { Ok(()) } else { Err(foreign()) }
}

fn create(path: &Path, options: ImportOptions) -> Result<Connection, ImportError> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "page_size", options.page_bytes)?;
    // Before it has its name, a failed import leaves nothing worth keeping.
    connection.pragma_update_and_check(None, "journal_mode", "off", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "off")?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", FORMAT)?;
    connection.execute_batch(CREATE)?;
    Ok(connection)
}

/// Adds a document and returns its size; `None` when it has gone since it was listed.
fn add<L: Layout>(database: &Connection, root: &Root, layout: &L, id: &FileId) -> Result<Option<u64>, ImportError> {
    let failed = |error: OpenError| ImportError::Document { id: id.clone(), error: error.into() };
    let opened = layout.locate(root, id).and_then(|located| root.open_file(located.path.as_bytes()));
    let Opened { file, metadata } = match opened {
        Err(OpenError::Missing) => return Ok(None),
        outcome => outcome.map_err(failed)?,
    };
    let file = File::from(file);
    let metadata = wait_until_settled(&file, metadata).map_err(failed)?;
    if metadata.size > MEMORY_MAX {
        return add_large(database, &file, metadata, id).map(Some);
    }
    let contents = read_unchanging(&file, metadata, MEMORY_MAX).map_err(failed)?;
    let (contents, _) = contents.ok_or_else(|| ImportError::Changing(id.clone()))?;
    database.prepare_cached(INSERT)?.execute((id.as_bytes(), Digest::of(id, &contents), &contents))?;
    Ok(Some(contents.len() as u64))
}

/// Waits until a later change is certain to have another time. Else it might go unnoticed, and half of it be kept for ever.
fn wait_until_settled(file: &File, mut metadata: Metadata) -> Result<Metadata, OpenError> {
    for _ in 0..READ_TRIES {
        if metadata.is_settled(unix_coarse()) {
            break;
        }
        thread::sleep(Metadata::TIMESTAMP_STEP);
        metadata = Metadata::of(file)?;
    }
    // It has settled, or its time lies in the future and means nothing.
    Ok(metadata)
}

/// Adds a document piece by piece: first a row of its size, then its body, then the digest.
fn add_large(database: &Connection, file: &File, mut metadata: Metadata, id: &FileId) -> Result<u64, ImportError> {
    for _ in 0..READ_TRIES {
        if metadata.size > BODY_BYTES_MAX {
            return Err(ImportError::TooLarge(id.clone()));
        }
        database.prepare_cached(INSERT)?.execute((id.as_bytes(), [0; DIGEST_BYTES], ZeroBlob(metadata.size)))?;
        let number = database.last_insert_rowid();
        let digest = copy(database, file, number, id)?;
        let after =
            Metadata::of(file).map_err(|error| ImportError::Document { id: id.clone(), error: error.into() })?;
        if let Some(digest) = digest.filter(|_| after == metadata) {
            database.blob_open("main", TABLE, "digest", number, false)?.write_all_at(&digest, 0)?;
            return Ok(metadata.size);
        }
        database.execute("DELETE FROM documents WHERE number = ?1", [number])?;
        metadata = after;
    }
    Err(ImportError::Changing(id.clone()))
}

/// Fills a body from a file and returns the digest; `None` when the file has become shorter.
fn copy(
    database: &Connection,
    file: &File,
    number: i64,
    id: &FileId,
) -> Result<Option<[u8; DIGEST_BYTES]>, ImportError> {
    let mut blob = database.blob_open("main", TABLE, "body", number, false)?;
    let mut digest = Digest::of_document(id);
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut copied = 0;
    while copied < blob.len() {
        let piece = CHUNK_BYTES.min(blob.len() - copied);
        match file.read_exact_at(&mut chunk[..piece], copied as u64) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            outcome => outcome.map_err(|error| ImportError::Document { id: id.clone(), error })?,
        }
        digest.update(&chunk[..piece]);
        blob.write_all_at(&chunk[..piece], copied)?;
        copied += piece;
    }
    Ok(Some(digest.finish()))
}
