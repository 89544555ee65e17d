//! List of all layouts.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::ValueEnum;
use sys::beneath::{OpenError, Root};
use wire::file::FileId;

use crate::{Flat, Layout, LayoutError, Located, Manifest, Tree, Zotero};

macro_rules! layouts {
    ($($(#[$attribute:meta])+ $kind:ident => $open:expr;)+) => {
        /// Layout of a directory.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
        pub enum LayoutKind {
            $($(#[$attribute])+ $kind,)+
        }

        impl LayoutKind {
            /// Makes this layout of `directory`.
            ///
            /// # Errors
            /// Something in `directory` that this layout needs cannot be read, or is not well-formed.
            pub fn open(self, directory: &Path) -> Result<AnyLayout, LayoutError> {
                match self { $(Self::$kind => $open(directory).map(AnyLayout::$kind),)+ }
            }
        }

        /// Layout of any kind, without a virtual call.
        #[derive(Debug)]
        pub enum AnyLayout {
            $($kind($kind),)+
        }

        impl AnyLayout {
            pub fn kind(&self) -> LayoutKind {
                match self { $(Self::$kind(_) => LayoutKind::$kind,)+ }
            }
        }

        impl Layout for AnyLayout {
            fn locate(&self, root: &Root, id: &FileId) -> Result<Located, OpenError> {
                match self { $(Self::$kind(layout) => layout.locate(root, id),)+ }
            }

            fn is_current(&self, root: &Root, id: &FileId, located: &Located) -> bool {
                match self { $(Self::$kind(layout) => layout.is_current(root, id, located),)+ }
            }

            fn list(&self, directory: &Path) -> Result<Vec<(FileId, PathBuf)>, LayoutError> {
                match self { $(Self::$kind(layout) => layout.list(directory),)+ }
            }
        }
    };
}

layouts! {
    /// the first `.pdf` by name in the directory named by the id (Zotero's storage)
    #[default]
    Zotero => |_: &Path| Ok(Zotero);
    /// the file of that name in the directory
    Flat => |_: &Path| Ok(Flat);
    /// the file at that path; parts are separated by `/`
    Tree => |_: &Path| Ok(Tree);
    /// the file that `manifest.tsv` in the directory names: lines of an id, a tab and a path
    Manifest => Manifest::open;
}

impl AnyLayout {
    /// Sets the interval between two checks of a layout that reads a file beforehand: see [`Manifest::revalidate_every`]. The
    /// others read the directory each time.
    #[must_use]
    pub fn revalidate_every(self, interval: Duration) -> Self {
        match self {
            Self::Manifest(manifest) => Self::Manifest(manifest.revalidate_every(interval)),
            other @ (Self::Zotero(_) | Self::Flat(_) | Self::Tree(_)) => other,
        }
    }
}

impl fmt::Display for LayoutKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}
