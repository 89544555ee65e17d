//! Lack of descriptors, which passes and is reported as such. Alone in its process, since it takes all descriptors of it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::{fs, fs::File, thread, time::Duration};

use fileserver::backend::{
    Backend, Filesystem, FilesystemOptions, ImportOptions, LoadError, Sqlite, SqliteOptions, import,
};
use layouts::{Flat, LayoutKind};
use sys::beneath::Metadata;
use wire::file::FileId;

#[test]
fn a_lack_of_descriptors_is_not_a_missing_document() {
    let directory = tempfile::tempdir().unwrap();
    let content = directory.path().join("content");
    fs::create_dir_all(content.join("DOCUMENT")).unwrap();
    fs::write(content.join("DOCUMENT/a.pdf"), [b'x'; 100_000]).unwrap();
    fs::write(content.join("file"), [b'x'; 100_000]).unwrap();
    thread::sleep(Metadata::TIMESTAMP_STEP + Duration::from_millis(10));
    let database = directory.path().join("db");
    import(&content, &Flat, &database, ImportOptions::default(), |_| ()).unwrap();

    let flat = Filesystem::open(&content, Flat, FilesystemOptions { memory_max: 0 }).unwrap();
    let layout = LayoutKind::Zotero.open(&content).unwrap();
    let zotero = Filesystem::open(&content, layout, FilesystemOptions { memory_max: 1 << 20 }).unwrap();
    let options = SqliteOptions { memory_max: 0, ..SqliteOptions::default() };
    let sqlite = Sqlite::open(&database, options).unwrap();
    let mut reader = sqlite.reader().unwrap();
    let (file, document) = (FileId::new(b"file").unwrap(), FileId::new(b"DOCUMENT").unwrap());
    let mut load = || {
        [
            flat.load(&mut (), &file).map(|found| found.len()),
            zotero.load(&mut (), &document).map(|found| found.len()),
            sqlite.load(&mut reader, &file).map(|found| found.len()),
        ]
    };
    assert_eq!(load(), [Ok(100_000); 3]);

    let used = fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let before = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let tight = rustix::process::Rlimit { current: Some(used + 8), ..before };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, tight).unwrap();
    let all: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    let without = load();
    // A reader whose database has been replaced needs a descriptor as well, and reads on when there is one.
    drop(all);
    assert_eq!(load(), [Ok(100_000); 3]);
    let all: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    fs::rename(content.join("file"), content.join("moved")).unwrap();
    fs::hard_link(&database, directory.path().join("link")).unwrap();
    let replaced = load();
    drop(all);
    assert_eq!(without, [Err(LoadError::Unavailable); 3]);
    assert_eq!(replaced[2], Err(LoadError::Unavailable));
    assert_eq!(load(), [Err(LoadError::Missing), Ok(100_000), Ok(100_000)]);
}
