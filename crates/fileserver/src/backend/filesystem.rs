//! Back end whose documents are files of a directory.

use std::{fs::File, io, path::Path, sync::Arc};

use file_cache::FileState;
use layouts::Layout;
use proto::FileRegion;
use sys::{
    beneath::{Metadata, Opened, Root},
    clock::unix_coarse,
    contents::read_unchanging,
};
use wire::file::FileId;

use super::{
    Backend, BackendError, Body, Document, LoadError,
    document::{FileOrigin, Origin},
};

/// Options of a [`Filesystem`].
#[derive(Clone, Copy, Debug)]
pub struct FilesystemOptions {
    /// Size of the largest files that are read into memory, in bytes; larger ones are handed over as open descriptors. 0
    /// when nothing is cached: contents that are not kept are better sent from the descriptor than read.
    pub memory_max: u64,
}

/// Directory of documents. Loads are as short as the page cache makes them, and do not block an event loop.
#[derive(Debug)]
pub struct Filesystem<L> {
    root: Root,
    layout: L,
    options: FilesystemOptions,
}

impl<L: Layout> Filesystem<L> {
    /// # Errors
    /// `directory` cannot be opened as a directory.
    pub fn open(directory: &Path, layout: L, options: FilesystemOptions) -> Result<Self, BackendError> {
        let failed = |errno| BackendError::Open { path: directory.to_owned(), error: io::Error::from(errno) };
        Ok(Self { root: Root::open(directory).map_err(failed)?, layout, options })
    }
}

impl<L: Layout> Backend for Filesystem<L> {
    const BLOCKS: bool = false;
    type Reader = ();

    fn reader(&self) -> Result<(), BackendError> {
        Ok(())
    }

    fn load(&self, _reader: &mut (), id: &FileId) -> Result<Document, LoadError> {
        // Before anything is read: what has settled by now gets another time if it changes while it is read.
        let now = unix_coarse();
        let located = self.layout.locate(&self.root, id)?;
        let Opened { file, metadata } = self.root.open_file(located.path.as_bytes())?;
        let file = File::from(file);
        let memory_max = if metadata.is_settled(now) { self.options.memory_max } else { 0 };
        let contents = read_unchanging(&file, metadata, memory_max)?;
        let (body, metadata) = match contents.filter(|(_, metadata)| metadata.is_settled(now)) {
            Some((contents, metadata)) => (Body::Memory(contents.into()), metadata),
            // Large, or being written just now: the descriptor is at least that of one file.
            None => {
                let metadata = Metadata::of(&file)?;
                (Body::File(FileRegion { file: Arc::new(file.into()), offset: 0, len: metadata.size }), metadata)
            }
        };
        let mut state = FileState::new(metadata, now);
        state.is_settled &= located.chosen_from.is_none_or(|directory| directory.is_settled(now));
        Ok(Document { body, origin: Origin::File(Arc::new(FileOrigin { located, state })) })
    }

    fn is_current(&self, document: &Document, id: &FileId) -> bool {
        let Origin::File(origin) = &document.origin else { return false };
        let FileOrigin { located, state } = &**origin;
        state.is_unchanged(|| self.root.stat(located.path.as_bytes()))
            && self.layout.is_current(&self.root, id, located)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, OpenOptions},
        os::unix::{
            fs::{FileExt, symlink},
            net::UnixListener,
        },
        path::PathBuf,
        thread,
        time::Duration,
    };

    use layouts::{Flat, Zotero};

    use super::{super::tests::contents, *};

    const MEMORY_MAX: u64 = 1_000;
    const OPTIONS: FilesystemOptions = FilesystemOptions { memory_max: MEMORY_MAX };

    fn id(name: &str) -> FileId {
        FileId::new(name.as_bytes()).unwrap()
    }

    fn settle() {
        thread::sleep(Metadata::TIMESTAMP_STEP + Duration::from_millis(10));
    }

    /// `root/` with a small and a large file.
    fn files() -> (tempfile::TempDir, PathBuf) {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("small"), [b's'; 100]).unwrap();
        fs::write(root.join("large"), [b'l'; 5_000]).unwrap();
        fs::write(root.join("empty"), []).unwrap();
        settle();
        (outer, root)
    }

    #[test]
    fn small_files_are_memory_and_large_ones_descriptors() {
        let (_outer, root) = files();
        let backend = Filesystem::open(&root, Flat, OPTIONS).unwrap();
        for (name, len, descriptors) in [("small", 100, 0), ("large", 5_000, 1), ("empty", 0, 0)] {
            let document = backend.load(&mut (), &id(name)).unwrap();
            assert_eq!((document.len(), document.descriptors()), (len, descriptors), "{name}");
            assert_eq!(contents(&document), fs::read(root.join(name)).unwrap(), "{name}");
            assert!(backend.is_current(&document, &id(name)), "{name}");
        }
        let uncached = Filesystem::open(&root, Flat, FilesystemOptions { memory_max: 0 }).unwrap();
        assert_eq!(uncached.load(&mut (), &id("small")).unwrap().descriptors(), 1);
    }

    #[test]
    fn only_regular_files_of_the_directory_are_documents() {
        let (outer, root) = files();
        fs::write(outer.path().join("secret"), "secret").unwrap();
        symlink("../secret", root.join("escape")).unwrap();
        symlink("/etc/passwd", root.join("absolute")).unwrap();
        symlink("small", root.join("link")).unwrap();
        fs::create_dir(root.join("directory")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join("fifo"), rustix::fs::Mode::RUSR).unwrap();
        UnixListener::bind(root.join("socket")).unwrap();
        let backend = Filesystem::open(&root, Flat, OPTIONS).unwrap();
        for name in ["none", "escape", "absolute", "directory", "fifo", "socket", "..", ".", "../secret", "small/"] {
            assert_eq!(backend.load(&mut (), &id(name)).unwrap_err(), LoadError::Missing, "{name}");
        }
        assert_eq!(contents(&backend.load(&mut (), &id("link")).unwrap()), [b's'; 100]);
    }

    #[test]
    fn every_change_is_noticed_and_a_replaced_file_stays_whole() {
        let (_outer, root) = files();
        let backend = Filesystem::open(&root, Flat, OPTIONS).unwrap();
        type Change = fn(&Path);
        let changes: [(&str, Change); 4] = [
            ("replaced", |path| {
                let new = path.with_extension("new");
                fs::write(&new, fs::read(path).unwrap()).unwrap();
                fs::rename(new, path).unwrap();
            }),
            ("rewritten", |path| {
                OpenOptions::new().write(true).open(path).unwrap().write_all_at(b"x", 0).unwrap();
            }),
            ("truncated", |path| OpenOptions::new().write(true).open(path).unwrap().set_len(50).unwrap()),
            ("removed", |path| fs::remove_file(path).unwrap()),
        ];
        for (what, change) in changes {
            for name in ["small", "large"] {
                settle();
                let document = backend.load(&mut (), &id(name)).unwrap();
                let before = contents(&document);
                change(&root.join(name));
                assert!(!backend.is_current(&document, &id(name)), "{name} {what}");
                if what == "replaced" {
                    assert_eq!(contents(&document), before, "{name}");
                }
            }
        }
        assert_eq!(backend.load(&mut (), &id("small")).unwrap_err(), LoadError::Missing);
    }

    /// Its times cannot be trusted yet: a second change in the same tick would look like none.
    #[test]
    fn a_file_that_has_just_changed_is_not_trusted() {
        let (_outer, root) = files();
        let backend = Filesystem::open(&root, Flat, OPTIONS).unwrap();
        fs::write(root.join("small"), "new").unwrap();
        let fresh = backend.load(&mut (), &id("small")).unwrap();
        assert!(!backend.is_current(&fresh, &id("small")));
        assert_eq!((fresh.descriptors(), contents(&fresh)), (1, b"new".to_vec()));
    }

    /// In Zotero's layout another file may come to be the first one.
    #[test]
    fn a_new_first_file_is_noticed() {
        let (_outer, root) = files();
        fs::create_dir(root.join("DOCUMENT")).unwrap();
        fs::write(root.join("DOCUMENT/b.pdf"), "b").unwrap();
        settle();
        let backend = Filesystem::open(&root, Zotero, OPTIONS).unwrap();
        let document = backend.load(&mut (), &id("DOCUMENT")).unwrap();
        assert!(backend.is_current(&document, &id("DOCUMENT")));
        fs::write(root.join("DOCUMENT/a.pdf"), "a").unwrap();
        assert!(!backend.is_current(&document, &id("DOCUMENT")));
        assert_eq!(contents(&backend.load(&mut (), &id("DOCUMENT")).unwrap()), b"a");
    }

    /// A file that is written in place while it is read: what is in memory is of one moment.
    #[test]
    fn no_mixture_is_kept_in_memory() {
        // Reading takes long enough for a write to come in between.
        const BYTES: usize = 4_000_000;
        const WRITES: u8 = 12;
        let (_outer, root) = files();
        fs::write(root.join("file"), vec![0; BYTES]).unwrap();
        let backend = Filesystem::open(&root, Flat, FilesystemOptions { memory_max: 1 << 23 }).unwrap();
        let loaded = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let file = OpenOptions::new().write(true).open(root.join("file")).unwrap();
                for value in 1..=WRITES {
                    // Now it is read.
                    settle();
                    thread::sleep(Duration::from_millis(20));
                    file.write_all_at(&vec![value; BYTES], 0).unwrap();
                }
            });
            let mut in_memory = 0;
            while !writer.is_finished() {
                let document = backend.load(&mut (), &id("file")).unwrap();
                if let Body::Memory(bytes) = &document.body {
                    assert!(*bytes == vec![bytes[0]; BYTES], "a mixture");
                    in_memory += 1;
                }
            }
            in_memory
        });
        assert!(loaded > 0, "nothing was ever at rest");
    }

    #[test]
    fn every_open_error_is_a_load_error() {
        use sys::beneath::OpenError;
        // ENOENT, EXDEV, ENXIO, EACCES, EMFILE, ENFILE, EIO.
        for (errno, error) in [
            (2, LoadError::Missing),
            (18, LoadError::Missing),
            (6, LoadError::Missing),
            (13, LoadError::Failed),
            (24, LoadError::Unavailable),
            (23, LoadError::Unavailable),
            (5, LoadError::Failed),
        ] {
            assert_eq!(LoadError::from(OpenError::from(io::Error::from_raw_os_error(errno))), error, "{errno}");
        }
    }
}
