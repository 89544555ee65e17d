//! Checks of paths for `--check-config`, which makes nothing.

use std::{io, path::Path};

/// Checks that a file could be made.
///
/// # Errors
/// The path is a directory, or that which it should be in is none.
pub fn check_file_path(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::Error::other(format!("{} is a directory", path.display())));
    }
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => check_directory(parent),
        None => Ok(()),
    }
}

/// Checks that a directory is there.
///
/// # Errors
/// It is not, or is none.
pub fn check_directory(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(io::Error::other(format!("{} is not a directory", path.display()))),
        Err(error) => Err(io::Error::new(error.kind(), format!("cannot open {}: {error}", path.display()))),
    }
}
