//! Layout of files in nested directories.

use std::path::{Path, PathBuf};

use sys::beneath::{Kind, OpenError, Root};
use wire::file::FileId;

use crate::{
    Layout, LayoutError, Located, RelativePath,
    flat::{failed, found, open_root},
};

/// Layout in which the id is a path beneath the directory, its parts separated by `/`.
///
/// A listing descends into directories, but not through links to directories, which may form cycles: a file behind such a
/// link has an id by which it is found, and another one by which it is listed.
#[derive(Clone, Copy, Debug)]
pub struct Tree;

impl Layout for Tree {
    fn locate(&self, _root: &Root, id: &FileId) -> Result<Located, OpenError> {
        RelativePath::new(id.as_bytes()).map(Located::from).ok_or(OpenError::Missing)
    }

    fn list(&self, directory: &Path) -> Result<Vec<(FileId, PathBuf)>, LayoutError> {
        let root = open_root(directory)?;
        let mut candidates = Vec::new();
        let mut pending = vec![b".".to_vec()];
        while let Some(inside) = pending.pop() {
            let listing = match root.list(&inside, |_| true) {
                // Removed since its parent was read.
                Err(OpenError::Missing) if inside != b"." => continue,
                outcome => outcome.map_err(failed(directory))?,
            };
            for name in listing.names {
                let path = if inside == b"." { name.bytes } else { [&inside[..], b"/", &name.bytes].concat() };
                match name.kind {
                    Kind::Directory => pending.push(path),
                    Kind::Special => {}
                    Kind::Regular | Kind::Unknown => candidates.extend(FileId::new(&path)),
                }
            }
        }
        let open = |id: &FileId| {
            let path = self.locate(&root, id)?.path;
            root.open_file(path.as_bytes()).map(|_| path)
        };
        found(directory, candidates.into_iter().map(|id| (open(&id), id)))
    }
}
