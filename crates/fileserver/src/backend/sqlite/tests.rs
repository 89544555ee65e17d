//! Laws of import and reading.

use std::{fs, os::unix::fs::symlink, thread, time::Duration};

use layouts::{Flat, LayoutKind, Tree};
use rusqlite::Connection;

use super::{
    super::{Body, tests::contents},
    *,
};

/// Size of the largest bodies in memory, so that small tests cover both ways.
const MEMORY_MAX: u64 = 20_000;
/// Two changes further apart than this have different times.
const STEP: Duration = Duration::from_millis(60);

fn id(name: &str) -> FileId {
    FileId::new(name.as_bytes()).unwrap()
}

fn options() -> SqliteOptions {
    SqliteOptions { memory_max: MEMORY_MAX, ..SqliteOptions::default() }
}

fn body(size: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..size).map(|_| random.u8(..)).collect()
}

/// Directory of documents of every interesting size, and its database.
struct Collection {
    outer: tempfile::TempDir,
    documents: Vec<(FileId, Vec<u8>)>,
}

impl Collection {
    fn new() -> Self {
        let outer = tempfile::tempdir().unwrap();
        fs::create_dir(outer.path().join("content")).unwrap();
        let sizes = [0, 1, 9_999, 20_000, 20_001, 300_000];
        let documents: Vec<_> = sizes.iter().map(|&size| (id(&format!("D{size}")), body(size, size as u64))).collect();
        let collection = Self { outer, documents };
        for (id, body) in &collection.documents {
            collection.write(&id.to_string(), body);
        }
        collection
    }

    fn write(&self, name: &str, body: &[u8]) {
        fs::write(self.content().join(name), body).unwrap();
    }

    fn content(&self) -> PathBuf {
        self.outer.path().join("content")
    }

    fn database(&self) -> PathBuf {
        self.outer.path().join("documents.db")
    }

    fn import(&self) -> Result<Imported, ImportError> {
        import(&self.content(), &Flat, &self.database(), ImportOptions::default(), |_| ())
    }

    fn open(&self) -> Result<Sqlite, BackendError> {
        Sqlite::open(&self.database(), options())
    }
}

#[test]
fn every_document_comes_back_as_it_was() {
    let collection = Collection::new();
    let mut seen = Vec::new();
    let done = import(&collection.content(), &Flat, &collection.database(), ImportOptions::default(), |progress| {
        seen.push(progress);
    });
    let bytes: usize = collection.documents.iter().map(|(_, body)| body.len()).sum();
    assert_eq!(done.unwrap(), Imported { documents: 6, bytes: bytes as u64, vanished: 0 });
    assert_eq!(seen.last(), Some(&Progress { documents: 6, documents_total: 6, bytes: bytes as u64 }));
    assert!(seen.is_sorted_by(|a, b| a.documents < b.documents));

    let sqlite = collection.open().unwrap();
    let mut reader = sqlite.reader().unwrap();
    for (id, body) in &collection.documents {
        let document = sqlite.load(&mut reader, id).unwrap();
        assert_eq!((document.len(), contents(&document)), (body.len() as u64, body.clone()), "{id}");
        assert_eq!(matches!(document.body, Body::File(_)), body.len() as u64 > MEMORY_MAX, "{id}");
        assert!(document.held_bytes() >= body.len(), "{id}");
    }
    for absent in ["D2", "d1", "D1 ", "%"] {
        assert_eq!(sqlite.load(&mut reader, &id(absent)).unwrap_err(), LoadError::Missing, "{absent}");
    }
}

/// Size that an import does not read at once, nor a reader.
#[test]
fn a_large_document_comes_back_as_it_was() {
    let collection = Collection::new();
    let whole: Vec<u8> = body(1 << 16, 1).into_iter().cycle().take((9 << 20) + 17).collect();
    collection.write("large", &whole);
    collection.import().unwrap();
    let sqlite = collection.open().unwrap();
    let document = sqlite.load(&mut sqlite.reader().unwrap(), &id("large")).unwrap();
    assert!(contents(&document) == whole);
}

#[test]
fn an_import_takes_what_a_server_would_send() {
    let outer = tempfile::tempdir().unwrap();
    let content = outer.path().join("content");
    fs::create_dir_all(content.join("sub")).unwrap();
    fs::write(outer.path().join("secret"), "secret").unwrap();
    fs::write(content.join("sub/file"), "file").unwrap();
    symlink("sub/file", content.join("inside")).unwrap();
    symlink("../secret", content.join("escape")).unwrap();
    let database = outer.path().join("db");
    let layout = LayoutKind::Tree.open(&content).unwrap();
    assert_eq!(import(&content, &layout, &database, ImportOptions::default(), |_| ()).unwrap().documents, 2);
    let sqlite = Sqlite::open(&database, options()).unwrap();
    let mut reader = sqlite.reader().unwrap();
    for (name, want) in [("sub/file", Ok("file")), ("inside", Ok("file")), ("escape", Err(LoadError::Missing))] {
        let found = sqlite.load(&mut reader, &id(name)).map(|document| contents(&document));
        assert_eq!(found, want.map(|text| text.as_bytes().to_vec()), "{name}");
    }
}

/// The database lies in the directory that it is made from: it is no document of its successor.
#[test]
fn a_database_does_not_contain_itself() {
    let outer = tempfile::tempdir().unwrap();
    fs::write(outer.path().join("file"), "file").unwrap();
    let database = outer.path().join("db");
    for _ in 0..2 {
        assert_eq!(import(outer.path(), &Tree, &database, ImportOptions::default(), |_| ()).unwrap().documents, 1);
    }
    assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 2, "nothing temporary is left");
}

#[test]
fn a_new_import_is_noticed_and_the_old_documents_stay_whole() {
    let collection = Collection::new();
    collection.import().unwrap();
    thread::sleep(STEP);
    let sqlite = collection.open().unwrap();
    let mut reader = sqlite.reader().unwrap();
    let large = id("D300000");
    let before = sqlite.load(&mut reader, &large).unwrap();
    assert!(sqlite.is_current(&before, &large));

    collection.write("D300000", b"new");
    fs::remove_file(collection.content().join("D1")).unwrap();
    collection.import().unwrap();
    assert!(!sqlite.is_current(&before, &large));
    assert_eq!(contents(&before), body(300_000, 300_000));
    assert_eq!(contents(&sqlite.load(&mut reader, &large).unwrap()), b"new");
    assert_eq!(sqlite.load(&mut reader, &id("D1")).unwrap_err(), LoadError::Missing);
}

#[test]
fn a_database_changed_in_place_is_noticed() {
    let collection = Collection::new();
    collection.import().unwrap();
    thread::sleep(STEP);
    let sqlite = collection.open().unwrap();
    let mut reader = sqlite.reader().unwrap();
    let small = id("D1");
    let before = sqlite.load(&mut reader, &small).unwrap();
    let writer = Connection::open(collection.database()).unwrap();
    writer.execute("DELETE FROM documents WHERE id = ?1", [small.as_bytes()]).unwrap();
    assert!(!sqlite.is_current(&before, &small));
    assert_eq!(sqlite.load(&mut reader, &small).unwrap_err(), LoadError::Missing);
    // A writer that does not know of digests.
    writer.execute("UPDATE documents SET body = x'00' WHERE id = ?1", ["D9999".as_bytes()]).unwrap();
    assert_eq!(sqlite.load(&mut reader, &id("D9999")).unwrap_err(), LoadError::Failed);
    // A whole document under another's name.
    writer.execute("UPDATE documents SET id = x'5858' WHERE id = ?1", ["D20000".as_bytes()]).unwrap();
    assert_eq!(sqlite.load(&mut reader, &id("XX")).unwrap_err(), LoadError::Failed);
}

/// Returns the locks of this process on a file, as the kernel lists them (proc_locks(5)).
fn locks(path: &Path) -> usize {
    let inode = Metadata::at(path).unwrap().inode;
    let (process, inode) = (format!(" {} ", std::process::id()), format!(":{inode} "));
    let all = fs::read_to_string("/proc/locks").unwrap();
    all.lines().filter(|line| line.contains(&process) && line.contains(&inode)).count()
}

/// A reader in the middle of a transaction keeps its lock while others open, read and close the same file: a
/// writer of another process stays out.
#[test]
fn a_lock_survives_the_readers_that_come_and_go() {
    let collection = Collection::new();
    collection.import().unwrap();
    let sqlite = collection.open().unwrap();
    let mut reader = sqlite.reader().unwrap();
    assert_eq!(locks(&collection.database()), 0);
    let other = sqlite.reader().unwrap();
    let mut statement = other.connection().prepare("SELECT id FROM documents").unwrap();
    let mut rows = statement.query([]).unwrap();
    assert!(rows.next().unwrap().is_some());
    let before = locks(&collection.database());
    assert!(before > 0, "a reader holds a lock");

    drop(sqlite.reader().unwrap());
    assert_eq!(locks(&collection.database()), before, "after another reader");
    // As if there had been a writer: the next load opens the database again. By name, as a descriptor would be closed.
    let now = rustix::fs::Timespec { tv_sec: 1_000_000_000, tv_nsec: 0 };
    let times = rustix::fs::Timestamps { last_access: now, last_modification: now };
    let path = collection.database();
    rustix::fs::utimensat(rustix::fs::CWD, &path, &times, rustix::fs::AtFlags::empty()).unwrap();
    let state = Metadata::at(&path).unwrap();
    assert!(!reader.is_of(&state));
    assert!(sqlite.load(&mut reader, &id("D1")).is_ok());
    assert!(reader.is_of(&state));
    assert_eq!(locks(&collection.database()), before, "after a revalidation");
    drop(reader);
    assert_eq!(locks(&collection.database()), before, "after a reader has gone");
}

/// A lock, a full disk, a lack of descriptors may pass; a database that is gone or damaged is a failure.
#[test]
fn what_may_pass_is_told_from_what_will_not() {
    let collection = Collection::new();
    collection.import().unwrap();
    let sqlite = collection.open().unwrap();
    let mut reader = sqlite.reader().unwrap();
    let writer = Connection::open(collection.database()).unwrap();
    writer.execute_batch("BEGIN EXCLUSIVE").unwrap();
    assert_eq!(sqlite.load(&mut reader, &id("D1")).unwrap_err(), LoadError::Unavailable);
    writer.execute_batch("COMMIT").unwrap();
    assert!(sqlite.load(&mut reader, &id("D1")).is_ok());

    for code in [24, 23, 12, 28, 122] {
        assert!(read::is_exhaustion(&std::io::Error::from_raw_os_error(code)), "{code}");
    }
    for code in [2, 5, 13] {
        assert!(!read::is_exhaustion(&std::io::Error::from_raw_os_error(code)), "{code}");
    }
    let nowhere = SqliteOptions { spool: collection.outer.path().join("none"), ..options() };
    let spoolless = Sqlite::open(&collection.database(), nowhere).unwrap();
    let mut spoolless_reader = spoolless.reader().unwrap();
    assert_eq!(spoolless.load(&mut spoolless_reader, &id("D300000")).unwrap_err(), LoadError::Failed);

    fs::write(collection.database(), "no longer").unwrap();
    assert_eq!(sqlite.load(&mut reader, &id("D1")).unwrap_err(), LoadError::Failed);
    fs::remove_file(collection.database()).unwrap();
    assert_eq!(sqlite.load(&mut reader, &id("D1")).unwrap_err(), LoadError::Failed);
    collection.import().unwrap();
    assert!(sqlite.load(&mut reader, &id("D1")).is_ok(), "and is back with the next import");
}

#[test]
fn what_is_no_database_of_documents_is_refused_by_name() {
    let collection = Collection::new();
    let problem = |sql: &str| {
        let _ = fs::remove_file(collection.database());
        collection.import().unwrap();
        Connection::open(collection.database()).unwrap().execute_batch(sql).unwrap();
        match collection.open().unwrap_err() {
            BackendError::Database { problem, .. } => problem,
            other @ (BackendError::Open { .. } | BackendError::Layout(_)) => panic!("{other}"),
        }
    };
    assert!(matches!(problem("PRAGMA application_id = 1"), DatabaseProblem::Foreign));
    assert!(matches!(problem("PRAGMA user_version = 2"), DatabaseProblem::Format(2)));
    assert!(matches!(problem("PRAGMA journal_mode = WAL"), DatabaseProblem::WriteAheadLog));
    assert!(matches!(problem("ALTER TABLE documents ADD more"), DatabaseProblem::Schema));
    assert!(matches!(problem("DROP TABLE documents"), DatabaseProblem::Schema));
    assert!(matches!(problem("DROP TABLE documents; CREATE VIEW documents AS SELECT 1"), DatabaseProblem::Schema));

    for (path, want) in [("content/D9999", "not a database of documents"), ("content", "not a regular file")] {
        let error = Sqlite::open(&collection.outer.path().join(path), options()).unwrap_err().to_string();
        assert!(error.contains(want) && error.contains(path), "{error}");
    }
    let error = Sqlite::open(&collection.outer.path().join("none"), options()).unwrap_err().to_string();
    assert!(error.contains("No such file"), "{error}");
}

#[test]
fn an_import_replaces_only_its_own_databases_and_atomically() {
    let collection = Collection::new();
    for (name, contents) in [("text", &b"precious"[..]), ("longer", &[b'x'; 4096]), ("magic", b"SQLite format 3\0")] {
        let path = collection.outer.path().join(name);
        fs::write(&path, contents).unwrap();
        let outcome = import(&collection.content(), &Flat, &path, ImportOptions::default(), |_| ());
        assert!(matches!(outcome, Err(ImportError::Foreign(_))), "{name}");
        assert_eq!(fs::read(&path).unwrap(), contents, "{name}");
    }
    collection.import().unwrap();
    let before = fs::read(collection.database()).unwrap();
    fs::write(collection.outer.path().join("documents.db-journal"), "hot").unwrap();
    assert!(matches!(collection.import(), Err(ImportError::Journal(_))));
    fs::remove_file(collection.outer.path().join("documents.db-journal")).unwrap();
    for page_bytes in [0, 256, 1000, 1 << 17] {
        let options = ImportOptions { page_bytes };
        let outcome = import(&collection.content(), &Flat, &collection.database(), options, |_| ());
        assert!(matches!(outcome, Err(ImportError::PageSize(_))), "{page_bytes}");
    }
    let outcome =
        import(&collection.outer.path().join("none"), &Flat, &collection.database(), ImportOptions::default(), |_| ());
    assert!(matches!(outcome, Err(ImportError::Directory { .. })));
    assert_eq!(fs::read(collection.database()).unwrap(), before);
}
