//! Zotero's storage.

use std::path::{Path, PathBuf};

use sys::beneath::{Kind, Name, OpenError, Root};
use wire::file::FileId;

use crate::{Layout, LayoutError, Located, RelativePath, flat};

const SUFFIX: &[u8] = b".pdf";

/// A directory named by the id, and in it the first file by name (in the order of bytes) that ends with `.pdf`.
/// Directories, FIFOs and what cannot be opened are no files, whatever they are called.
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

/// What the directory does not tell of a link, opening it does.
fn is_file(root: &Root, path: &RelativePath, kind: Kind) -> Result<bool, OpenError> {
    match kind {
        Kind::Regular => Ok(true),
        Kind::Directory | Kind::Special => Ok(false),
        Kind::Unknown => match root.open_file(path.as_bytes()) {
            // Not a matter of this file: another one must not answer for it.
            Err(OpenError::Exhausted) => Err(OpenError::Exhausted),
            outcome => Ok(outcome.is_ok()),
        },
    }
}
