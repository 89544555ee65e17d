//! The root of the files, and the directory of the FIFOs.

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use anyhow::Context;
use sys::{
    beneath::{OpenError, Root},
    fifo::Directory,
};

use crate::{copy::Source, outcome::Outcome};

/// The two directories of a server, opened at the start.
#[derive(Debug)]
pub struct Directories {
    root: Root,
    /// Names of the root with which an absolute path may begin.
    root_names: Vec<PathBuf>,
    pub(crate) fifos: Directory,
}

impl Directories {
    /// Opens both directories.
    ///
    /// # Errors
    /// A directory cannot be opened.
    pub fn new(root: &Path, fifo_dir: &Path) -> anyhow::Result<Self> {
        let cannot = |flag: &str, path: &Path| format!("cannot open the directory of {flag}, {}", path.display());
        let root_names = [std::path::absolute(root), root.canonicalize()];
        Ok(Self {
            root: Root::open(root).with_context(|| cannot("--root", root))?,
            root_names: root_names.into_iter().flatten().collect(),
            fifos: Directory::open(fifo_dir).with_context(|| cannot("--fifo-dir", fifo_dir))?,
        })
    }

    /// Returns the path relative to the root; `None` for an absolute one that begins elsewhere.
    fn relative<'a>(&self, path: &'a [u8]) -> Option<&'a [u8]> {
        if !path.starts_with(b"/") {
            return Some(path);
        }
        let beneath = |name: &PathBuf| {
            let name = name.as_os_str().as_bytes();
            let rest = path.strip_prefix(name.strip_suffix(b"/").unwrap_or(name))?;
            let slashes = rest.iter().take_while(|&&byte| byte == b'/').count();
            let relative = &rest[slashes..];
            (rest.is_empty() || slashes > 0).then_some(if relative.is_empty() { b"." } else { relative })
        };
        self.root_names.iter().find_map(beneath)
    }

    /// Opens a file beneath the root.
    ///
    /// # Errors
    /// The outcome that tells why the client cannot have it.
    pub(crate) fn open_source(&self, path: &[u8]) -> Result<Source, Outcome> {
        let relative = self.relative(path).ok_or(Outcome::OutsideRoot)?;
        let opened = self.root.open_file(relative).map_err(|error| {
            if let OpenError::Failed(errno) = error {
                tracing::warn!("{}: {errno}", path.escape_ascii());
            }
            file_outcome(error, relative)
        })?;
        Ok(Source { file: opened.file, metadata: opened.metadata })
    }
}

/// Converts an error; a missing file whose path leads out of the root is told apart.
fn file_outcome(error: OpenError, path: &[u8]) -> Outcome {
    if error == OpenError::Missing && leads_above(path) { Outcome::OutsideRoot } else { error.into() }
}

/// True if `..` leads above the start of the path, links aside.
fn leads_above(path: &[u8]) -> bool {
    let mut depth = 0_usize;
    for component in path.split(|&byte| byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." if depth == 0 => return true,
            b".." => depth -= 1,
            _ => depth += 1,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leads_above_the_root_is_recognised() {
        for path in [&b".."[..], b"../x", b"a/../../x", b"./../x", b"a//../..//"] {
            assert!(leads_above(path), "{}", path.escape_ascii());
        }
        for path in [&b"a/../x"[..], b"a/b/../../c", b"...", b"a..", b""] {
            assert!(!leads_above(path), "{}", path.escape_ascii());
        }
    }
}
