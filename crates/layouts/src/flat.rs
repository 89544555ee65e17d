//! Layout of files side by side.

use std::{
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use sys::beneath::{OpenError, Root};
use wire::file::FileId;

use crate::{Layout, LayoutError, Located, RelativePath};

/// Layout in which the id is the name of a file in the directory itself.
#[derive(Clone, Copy, Debug)]
pub struct Flat;

impl Layout for Flat {
    fn locate(&self, _root: &Root, id: &FileId) -> Result<Located, OpenError> {
        RelativePath::name(id.as_bytes()).map(Located::from).ok_or(OpenError::Missing)
    }

    fn list(&self, root: &Path) -> Result<Vec<(FileId, PathBuf)>, LayoutError> {
        list(root, |beneath, id| {
            let path = self.locate(beneath, id)?.path;
            beneath.open_file(path.as_bytes()).map(|_| path)
        })
    }
}

/// Lists the names in a directory that are ids and mean a file, according to `locate`.
pub(crate) fn list(
    directory: &Path,
    locate: impl Fn(&Root, &FileId) -> Result<RelativePath, OpenError>,
) -> Result<Vec<(FileId, PathBuf)>, LayoutError> {
    let root = open_root(directory)?;
    let listing = root.list(b".", |_| true).map_err(failed(directory))?;
    let ids = listing.names.iter().filter_map(|name| FileId::new(&name.bytes));
    found(directory, ids.map(|id| (locate(&root, &id), id)))
}

/// Returns the documents among `candidates`, in order. Only what is no file is left out: a listing without files that cannot
/// be opened would show fewer documents than there are.
pub(crate) fn found(
    directory: &Path,
    candidates: impl Iterator<Item = (Result<RelativePath, OpenError>, FileId)>,
) -> Result<Vec<(FileId, PathBuf)>, LayoutError> {
    let mut found = Vec::new();
    for (outcome, id) in candidates {
        match outcome {
            Ok(path) => found.push((id, path.beneath(directory))),
            Err(OpenError::Missing | OpenError::Directory | OpenError::NotRegular) => {}
            Err(error) => return Err(failed(&directory.join(OsStr::from_bytes(id.as_bytes())))(error)),
        }
    }
    found.sort_unstable();
    Ok(found)
}

pub(crate) fn open_root(directory: &Path) -> Result<Root, LayoutError> {
    Root::open(directory).map_err(io::Error::from).map_err(LayoutError::reading(directory))
}

pub(crate) fn failed(path: &Path) -> impl FnOnce(OpenError) -> LayoutError {
    move |error| LayoutError::Read { path: path.to_owned(), error: error.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_leaves_out_only_what_is_no_file() {
        let list = |outcome: Result<&[u8], OpenError>| {
            let path = |path| RelativePath::new(path).unwrap();
            let id = FileId::new(b"B").unwrap();
            found(
                Path::new("/d"),
                [(outcome.map(path), id.clone()), (Ok(path(b"a")), FileId::new(b"A").unwrap())].into_iter(),
            )
        };
        let names = |found: Vec<(FileId, PathBuf)>| {
            found.into_iter().map(|(id, path)| format!("{id} {}", path.display())).collect::<Vec<_>>()
        };
        assert_eq!(names(list(Ok(b"b/c")).unwrap()), ["A /d/a", "B /d/b/c"]);
        for none in [OpenError::Missing, OpenError::Directory, OpenError::NotRegular] {
            assert_eq!(names(list(Err(none)).unwrap()), ["A /d/a"], "{none:?}");
        }
        for error in [OpenError::Denied, OpenError::Exhausted] {
            let message = list(Err(error)).unwrap_err().to_string();
            assert!(message.contains("/d/B"), "{message}");
        }
    }
}
