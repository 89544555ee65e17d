//! The one list of back ends.

use std::{path::Path, time::Duration};

use layouts::{AnyLayout, LayoutKind};
use wire::file::FileId;

use super::{Absence, Backend, BackendError, Document, Filesystem, FilesystemOptions, Sqlite, SqliteOptions};

/// What a back end may need to know.
#[derive(Clone, Copy, Debug)]
pub struct BackendOptions {
    /// Which file of a directory an id means.
    pub layout: LayoutKind,
    /// Documents up to this size are handed over in memory, larger ones as files; bytes.
    pub memory_max: u64,
    /// How often a list that says which file an id means is looked at again.
    pub revalidate: Duration,
}

macro_rules! backends {
    ($($(#[doc = $about:literal])+ $kind:ident = $name:literal $(| $alias:literal)* => $backend:ty, $open:ident;)+) => {
        service::choices! {
            /// Where documents are kept.
            pub enum BackendKind: "backend", "--backend", default Filesystem {
                $($(#[doc = $about])+ $kind = $name $(| $alias)*,)+
            }
        }

        impl BackendKind {
            /// See [`Backend::BLOCKS`].
            pub fn blocks(self) -> bool {
                match self { $(Self::$kind => <$backend>::BLOCKS,)+ }
            }
        }

        /// Any back end of the table, without a virtual call.
        #[derive(Debug)]
        pub enum AnyBackend {
            $($kind($backend),)+
        }

        /// A reader of the back end of the same name.
        #[derive(Debug)]
        pub enum AnyReader {
            $($kind(<$backend as Backend>::Reader),)+
        }

        impl AnyBackend {
            /// # Errors
            /// `content` is nothing that this kind of back end can serve.
            pub fn open(kind: BackendKind, content: &Path, options: &BackendOptions) -> Result<Self, BackendError> {
                match kind { $(BackendKind::$kind => $open(content, options).map(Self::$kind),)+ }
            }

            pub fn kind(&self) -> BackendKind {
                match self { $(Self::$kind(_) => BackendKind::$kind,)+ }
            }

            /// See [`Backend::reader`].
            ///
            /// # Errors
            /// Those of the back end.
            pub fn reader(&self) -> Result<AnyReader, BackendError> {
                match self { $(Self::$kind(backend) => backend.reader().map(AnyReader::$kind),)+ }
            }

            /// See [`Backend::load`]; a reader of another back end reads nothing.
            ///
            /// # Errors
            /// Those of the back end.
            pub fn load(&self, reader: &mut AnyReader, id: &FileId) -> Result<Document, Absence> {
                match (self, reader) {
                    $((Self::$kind(backend), AnyReader::$kind(reader)) => backend.load(reader, id),)+
                    _ => Err(Absence::Failed),
                }
            }

            /// See [`Backend::is_current`].
            pub fn is_current(&self, document: &Document, id: &FileId) -> bool {
                match self { $(Self::$kind(backend) => backend.is_current(document, id),)+ }
            }
        }
    };
}

backends! {
    /// files of a directory, small ones read, large ones sent by the kernel from their descriptors
    Filesystem = "fs" | "filesystem" | "sendfile" => Filesystem<AnyLayout>, open_directory;
    /// rows of an SQLite database that `fileserver import` has made, each checked against its digest
    Sqlite = "sqlite" => Sqlite, open_database;
}

fn open_directory(directory: &Path, options: &BackendOptions) -> Result<Filesystem<AnyLayout>, BackendError> {
    let layout = options.layout.open(directory)?.revalidate_every(options.revalidate);
    Filesystem::open(directory, layout, FilesystemOptions { memory_max: options.memory_max })
}

fn open_database(database: &Path, options: &BackendOptions) -> Result<Sqlite, BackendError> {
    Sqlite::open(database, SqliteOptions { memory_max: options.memory_max, ..SqliteOptions::default() })
}
