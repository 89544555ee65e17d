//! The one list of layouts.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use sys::beneath::{OpenError, Root};
use wire::file::FileId;

use crate::{Flat, Layout, LayoutError, Located, Manifest, Tree, Zotero};

macro_rules! layouts {
    ($($(#[doc = $about:literal])+ $kind:ident = $name:literal => $open:expr;)+) => {
        /// How a directory is organised.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum LayoutKind {
            $($(#[doc = $about])+ $kind,)+
        }

        impl LayoutKind {
            pub const ALL: &[Self] = &[$(Self::$kind,)+];

            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }

            pub fn about(self) -> &'static str {
                match self { $(Self::$kind => concat!($($about,)+).trim_ascii(),)+ }
            }

            /// # Errors
            /// Something in `directory` that this layout needs cannot be read, or is not well-formed.
            pub fn open(self, directory: &Path) -> Result<AnyLayout, LayoutError> {
                match self { $(Self::$kind => $open(directory).map(AnyLayout::$kind),)+ }
            }
        }

        /// Any layout of the table, without a virtual call.
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

            fn still_means(&self, root: &Root, id: &FileId, located: &Located) -> bool {
                match self { $(Self::$kind(layout) => layout.still_means(root, id, located),)+ }
            }

            fn list(&self, directory: &Path) -> Result<Vec<(FileId, PathBuf)>, LayoutError> {
                match self { $(Self::$kind(layout) => layout.list(directory),)+ }
            }
        }
    };
}

layouts! {
    /// a directory named by the id, in it the first `.pdf` by name: Zotero's storage
    Zotero = "zotero" => |_: &Path| Ok(Zotero);
    /// the id is the name of a file in the directory
    Flat = "flat" => |_: &Path| Ok(Flat);
    /// the id is a path, its parts separated by `/`
    Tree = "tree" => |_: &Path| Ok(Tree);
    /// `manifest.tsv` in the directory says which: lines of an id, a tab and a path
    Manifest = "manifest" => Manifest::open;
}

impl AnyLayout {
    /// How often a layout that has read something beforehand looks whether it has changed: see
    /// [`Manifest::revalidate_every`]. The others look each time.
    #[must_use]
    pub fn revalidate_every(self, interval: Duration) -> Self {
        match self {
            Self::Manifest(manifest) => Self::Manifest(manifest.revalidate_every(interval)),
            other @ (Self::Zotero(_) | Self::Flat(_) | Self::Tree(_)) => other,
        }
    }
}

/// Not the name of a layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown layout `{0}`; there are {names}", names = LayoutKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", "))]
pub struct UnknownLayout(pub String);

impl FromStr for LayoutKind {
    type Err = UnknownLayout;

    fn from_str(name: &str) -> Result<Self, UnknownLayout> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name).ok_or_else(|| UnknownLayout(name.to_owned()))
    }
}

impl fmt::Display for LayoutKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
