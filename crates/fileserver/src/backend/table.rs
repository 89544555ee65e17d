//! The one list of back ends.

use std::{fmt, str::FromStr};

use layouts::AnyLayout;
use wire::file::FileId;

use super::{Absence, Backend, BackendError, Document, Filesystem, Sqlite};

macro_rules! backends {
    ($($(#[doc = $about:literal])+ $kind:ident = $name:literal $(, $alias:literal)* => $backend:ty;)+) => {
        /// Where documents are kept.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum BackendKind {
            $($(#[doc = $about])+ $kind,)+
        }

        impl BackendKind {
            pub const ALL: &[Self] = &[$(Self::$kind,)+];

            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }

            pub fn about(self) -> &'static str {
                match self { $(Self::$kind => concat!($($about,)+).trim_ascii(),)+ }
            }

            /// Other names for it.
            pub fn aliases(self) -> &'static [&'static str] {
                match self { $(Self::$kind => &[$($alias,)*],)+ }
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
            pub fn kind(&self) -> BackendKind {
                match self { $(Self::$kind(_) => BackendKind::$kind,)+ }
            }

            /// See [`Backend::BLOCKS`].
            pub fn blocks(&self) -> bool {
                match self { $(Self::$kind(_) => <$backend as Backend>::BLOCKS,)+ }
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
    Filesystem = "fs", "filesystem" => Filesystem<AnyLayout>;
    /// rows of an SQLite database that `fileserver import` has made, each checked against its digest
    Sqlite = "sqlite" => Sqlite;
}

/// Not the name of a back end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown back end `{0}`; there are {names}", names = BackendKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", "))]
pub struct UnknownBackend(pub String);

impl FromStr for BackendKind {
    type Err = UnknownBackend;

    fn from_str(name: &str) -> Result<Self, UnknownBackend> {
        let is_called = |kind: &Self| kind.name() == name || kind.aliases().contains(&name);
        Self::ALL.iter().copied().find(is_called).ok_or_else(|| UnknownBackend(name.to_owned()))
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
