//! Layout of Zotero's storage.

use std::path::{Path, PathBuf};

use sys::beneath::{Kind, Name, OpenError, Root};
use wire::file::FileId;

use crate::{Layout, LayoutError, Located, RelativePath, flat};

const SUFFIX: &[u8] = b".pdf";

/// Layout of a directory for each id, and in it the first file by name (in the order of bytes) that ends with `.pdf`.
/// Directories, FIFOs and entries that cannot be opened are no files, whatever their names.
#[derive(Clone, Copy, Debug)]
pub struct Zotero;

impl Layout for Zotero {
    fn locate(&self, root: &Root, id: &FileId) -> Result<Located, OpenError> {
        let directory = RelativePath::name(id.as_bytes()).ok_or(OpenError::Missing)?;
        let mut listing = root.list(directory.as_bytes(), |name| name.ends_with(SUFFIX))?;
        listing.names.sort_unstable();
        for Name { bytes, kind } in listing.names {
            let path = RelativePath::new([directory.as_bytes(), b"/", &bytes].concat()).ok_or(OpenError::Missing)?;
            if is_file(root, &path, kind)? {
                return Ok(Located { path, chosen_from: Some(listing.metadata) });
            }
        }
        Err(OpenError::Missing)
    }

    fn list(&self, root: &Path) -> Result<Vec<(FileId, PathBuf)>, LayoutError> {
        flat::list(root, |beneath, id| self.locate(beneath, id).map(|located| located.path))
    }
}

/// True for a regular file. A link is opened to find out what it leads to.
fn is_file(root: &Root, path: &RelativePath, kind: Kind) -> Result<bool, OpenError> {
    match kind {
        Kind::Regular => Ok(true),
        Kind::Directory | Kind::Special => Ok(false),
        Kind::Unknown => match root.open_file(path.as_bytes()) {
            // That is no property of this file: another one must not take its place.
            Err(OpenError::Exhausted) => Err(OpenError::Exhausted),
            outcome => Ok(outcome.is_ok()),
        },
    }
}
