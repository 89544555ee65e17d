//! Where files and FIFOs are.

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

/// Where files and FIFOs are.
#[derive(Debug)]
pub struct Places {
    root: Root,
    /// The root's names, as absolute paths may begin.
    root_names: Vec<PathBuf>,
    pub(crate) fifos: Directory,
}

impl Places {
    /// # Errors
    /// A directory cannot be opened.
    pub fn new(root: &Path, fifo_dir: &Path) -> anyhow::Result<Self> {
        let cannot = |path: &Path| format!("cannot open the directory {}", path.display());
        let root_names = [std::path::absolute(root), root.canonicalize()];
        Ok(Self {
            root: Root::open(root).with_context(|| cannot(root))?,
            root_names: root_names.into_iter().flatten().collect(),
            fifos: Directory::open(fifo_dir).with_context(|| cannot(fifo_dir))?,
        })
    }

    /// The path from the root; `None` for an absolute one that begins elsewhere.
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

    /// # Errors
    /// Why the client cannot have it.
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

/// Where a path is not found, whether that is because it leads out of the root.
fn file_outcome(error: OpenError, path: &[u8]) -> Outcome {
    if error == OpenError::Missing && climbs_out(path) { Outcome::OutsideRoot } else { error.into() }
}

/// Whether `..` leads above where the path starts, links aside.
fn climbs_out(path: &[u8]) -> bool {
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
    fn only_what_leads_above_the_root_climbs_out() {
        for path in [&b".."[..], b"../x", b"a/../../x", b"./../x", b"a//../..//"] {
            assert!(climbs_out(path), "{}", path.escape_ascii());
        }
        for path in [&b"a/../x"[..], b"a/b/../../c", b"...", b"a..", b""] {
            assert!(!climbs_out(path), "{}", path.escape_ascii());
        }
    }
}
