//! The one list of back ends, and all of them behind one `match`.

use std::path::Path;

use layouts::{AnyLayout, LayoutKind};
use wire::file::FileId;

use super::{Absence, Backend, BackendError, Document, Filesystem, FilesystemOptions};

/// What any back end may need to know.
#[derive(Clone, Copy, Debug)]
pub struct BackendOptions {
    /// Which file of a directory an id means.
    pub layout: LayoutKind,
    /// Documents up to this size are handed over in memory, larger ones as files, if there is a choice; bytes.
    pub memory_max: u64,
}

macro_rules! backends {
    ($($(#[doc = $about:literal])+ $kind:ident = $name:literal $(| $alias:literal)* => $backend:ty, $open:ident,)+) => {
        service::choices! {
            /// Where documents come from.
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

        /// Any back end of the table. A load does system calls; one more branch before them is not felt.
        #[derive(Debug)]
        pub enum AnyBackend {
            $($kind($backend),)+
        }

        /// A reader of the back end that made it.
        pub enum AnyReader {
            $($kind(<$backend as Backend>::Reader),)+
        }

        impl AnyBackend {
            /// # Errors
            /// `content` is nothing that this kind of back end can serve.
            pub fn open(kind: BackendKind, content: &Path, options: &BackendOptions) -> Result<Self, BackendError> {
                match kind { $(BackendKind::$kind => $open(content, options).map(Self::$kind),)+ }
            }

            /// # Errors
            /// See [`BackendError`].
            pub fn reader(&self) -> Result<AnyReader, BackendError> {
                match self { $(Self::$kind(backend) => backend.reader().map(AnyReader::$kind),)+ }
            }

            /// See [`Backend::load`].
            ///
            /// # Errors
            /// See [`Absence`]. `Failed` for a reader of another back end, too.
            pub fn load(&self, reader: &mut AnyReader, id: &FileId) -> Result<Document, Absence> {
                match (self, reader) {
                    $((Self::$kind(backend), AnyReader::$kind(reader)) => backend.load(reader, id),)+
                    #[allow(unreachable_patterns, reason = "reachable with more than one back end")]
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
    /// files of a directory, organised by a layout, sent by sendfile(2)
    Filesystem = "fs" | "filesystem" | "sendfile" => Filesystem<AnyLayout>, open_directory,
}

fn open_directory(directory: &Path, options: &BackendOptions) -> Result<Filesystem<AnyLayout>, BackendError> {
    let layout = options.layout.open(directory)?;
    Filesystem::open(directory, layout, FilesystemOptions { memory_max: options.memory_max })
}
