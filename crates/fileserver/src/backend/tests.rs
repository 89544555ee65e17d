//! Tests of the choice of a back end, and helpers for tests of all.

use super::{AnyBackend, BackendKind, Body, Document, Filesystem, FilesystemOptions};

/// The bytes that would be sent.
pub(super) fn contents(document: &Document) -> Vec<u8> {
    match &document.body {
        Body::Memory(bytes) => bytes.to_vec(),
        Body::File(region) => testkit::dialogue::contents(region),
    }
}

#[test]
fn a_choice_of_a_back_end_is_that_back_end() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("file"), "contents").unwrap();
    let layout = layouts::LayoutKind::Flat.open(directory.path()).unwrap();
    let options = FilesystemOptions { memory_max: 100 };
    let backend = AnyBackend::Filesystem(Filesystem::open(directory.path(), layout, options).unwrap());
    assert_eq!((backend.kind(), backend.kind().blocks()), (BackendKind::Filesystem, false));
    let mut reader = backend.reader().unwrap();
    let id = wire::file::FileId::new(b"file").unwrap();
    assert_eq!(contents(&backend.load(&mut reader, &id).unwrap()), b"contents");
}
