//! The one list of back ends, and all of them behind one `match`.

use layouts::AnyLayout;
use wire::file::FileId;

use super::{Absence, Backend, BackendError, Document, Filesystem};

macro_rules! backends {
    ($($(#[doc = $about:literal])+ $kind:ident = $name:literal $(| $alias:literal)* => $backend:ty,)+) => {
        service::choices! {
            /// Where documents come from.
            pub enum BackendKind: "backend", "--backend", default Filesystem {
                $($(#[doc = $about])+ $kind = $name $(| $alias)*,)+
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
            /// See [`Backend::BLOCKS`].
            pub fn blocks(&self) -> bool {
                match self { $(Self::$kind(_) => <$backend>::BLOCKS,)+ }
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
    Filesystem = "fs" | "filesystem" | "sendfile" => Filesystem<AnyLayout>,
}
