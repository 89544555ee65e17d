//! List of all back ends.

use std::{fmt, path::Path, time::Duration};

use clap::ValueEnum;
use layouts::{AnyLayout, LayoutKind};
use service::choice_name;
use wire::file::FileId;

use super::{Backend, BackendError, Document, Filesystem, FilesystemOptions, LoadError, Sqlite, SqliteOptions};

/// Options of all back ends.
#[derive(Clone, Copy, Debug)]
pub struct BackendOptions {
    /// Layout of the directory.
    pub layout: LayoutKind,
    /// Size of the largest documents that are handed over in memory, in bytes; larger ones are handed over as files.
    pub memory_max: u64,
    /// Interval between two checks of a manifest.
    pub revalidate: Duration,
}

macro_rules! backends {
    ($($(#[$attribute:meta])+ $kind:ident => $backend:ty, $open:ident;)+) => {
        /// Back end that documents come from.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
        pub enum BackendKind {
            $($(#[$attribute])+ $kind,)+
        }

        impl BackendKind {
            /// See [`Backend::BLOCKS`].
            pub fn blocks(self) -> bool {
                match self { $(Self::$kind => <$backend>::BLOCKS,)+ }
            }
        }

        impl fmt::Display for BackendKind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&choice_name(self))
            }
        }

        /// Back end of any kind, without a virtual call.
        #[derive(Debug)]
        pub enum AnyBackend {
            $($kind($backend),)+
        }

        /// Reader of the back end of the same name.
        #[derive(Debug)]
        pub enum AnyReader {
            $($kind(<$backend as Backend>::Reader),)+
        }

        impl AnyBackend {
            /// Opens `content`.
            ///
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
            pub fn load(&self, reader: &mut AnyReader, id: &FileId) -> Result<Document, LoadError> {
                match (self, reader) {
                    $((Self::$kind(backend), AnyReader::$kind(reader)) => backend.load(reader, id),)+
                    _ => Err(LoadError::Failed),
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
    /// files of a directory; large ones are sent by sendfile
    #[default]
    #[value(name = "fs", aliases = ["filesystem", "sendfile"])]
    Filesystem => Filesystem<AnyLayout>, open_directory;
    /// rows of an SQLite database made by `fileserver import`, each verified by its digest
    Sqlite => Sqlite, open_database;
}

fn open_directory(directory: &Path, options: &BackendOptions) -> Result<Filesystem<AnyLayout>, BackendError> {
    let layout = options.layout.open(directory)?.revalidate_every(options.revalidate);
    Filesystem::open(directory, layout, FilesystemOptions { memory_max: options.memory_max })
}

fn open_database(database: &Path, options: &BackendOptions) -> Result<Sqlite, BackendError> {
    Sqlite::open(database, SqliteOptions { memory_max: options.memory_max, ..SqliteOptions::default() })
}
