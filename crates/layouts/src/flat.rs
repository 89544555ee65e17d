//! Files side by side.

use std::{
    io,
    path::{Path, PathBuf},
};

use sys::beneath::{OpenError, Root};
use wire::file::FileId;

use crate::{Layout, LayoutError, Located, RelativePath};

/// The id is the name of a file in the directory itself.
#[derive(Clone, Copy, Debug)]
pub struct Flat;

impl Layout for Flat {
    fn locate(&self, _root: &Root, id: &FileId) -> Result<Located, OpenError> {
        RelativePath::name(id.as_bytes()).map(Located::from).ok_or(OpenError::Missing)
    }

    fn list(&self, root: &Path) -> Result<Vec<(FileId, PathBuf)>, LayoutError> {
        list(root, |beneath, id| {
            let path = RelativePath::name(id.as_bytes())?;
            beneath.open_file(path.as_bytes()).is_ok().then_some(path)
        })
    }
}

/// The names in a directory that are ids and mean a file, according to `locate`.
pub(crate) fn list(
    directory: &Path,
    locate: impl Fn(&Root, &FileId) -> Option<RelativePath>,
) -> Result<Vec<(FileId, PathBuf)>, LayoutError> {
    let root = open_root(directory)?;
    let listing = root.list(b".", |_| true).map_err(failed(directory))?;
    let ids = listing.names.iter().filter_map(|name| FileId::new(&name.bytes));
    let found = ids.filter_map(|id| locate(&root, &id).map(|path| (id, path.beneath(directory))));
    let mut found: Vec<_> = found.collect();
    found.sort_unstable();
    Ok(found)
}

pub(crate) fn open_root(directory: &Path) -> Result<Root, LayoutError> {
    Root::open(directory).map_err(io::Error::from).map_err(LayoutError::reading(directory))
}

pub(crate) fn failed(path: &Path) -> impl FnOnce(OpenError) -> LayoutError {
    move |error| LayoutError::Read { path: path.to_owned(), source: error.into() }
}
