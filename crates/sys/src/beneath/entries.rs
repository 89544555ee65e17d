//! Entries of a directory with their sizes and times, for a listing.

use rustix::{
    fs::{self, AtFlags, Dir, FileType, Mode, OFlags},
    io,
};

use super::{Metadata, OpenError, Root};

/// A regular file or directory that a path beneath the root leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: Vec<u8>,
    pub is_directory: bool,
    /// Bytes.
    pub size: u64,
    /// Last modification, nanoseconds since the epoch.
    pub modified_ns: i64,
}

/// Entries of a directory, and its state since before they were read.
#[derive(Clone, Debug)]
pub struct Entries {
    pub entries: Vec<Entry>,
    /// There are more, which were not read.
    pub is_truncated: bool,
    pub metadata: Metadata,
}

/// Kind of a file, as far as a program is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub is_directory: bool,
    pub is_regular: bool,
    /// True if somebody may execute it.
    pub is_executable: bool,
}

impl Root {
    /// Looks at what a path means without opening it, following only links that stay beneath the root.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn look(&self, relative: &[u8]) -> Result<Seen, OpenError> {
        let stat = fs::fstat(self.resolve(relative, OFlags::PATH)?)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let mode = Mode::from_raw_mode(stat.st_mode);
        let is_executable = mode.intersects(Mode::XUSR | Mode::XGRP | Mode::XOTH);
        Ok(Seen { is_directory: kind.is_dir(), is_regular: kind.is_file(), is_executable })
    }

    /// Returns the regular files and directories of a directory, in no order, and at most `entries_max` of them; `keep` is
    /// asked about each name. A link counts as what it leads to, where that is beneath the root;  A `relative` of `.` means the root.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn entries(
        &self,
        relative: &[u8],
        entries_max: usize,
        mut keep: impl FnMut(&[u8]) -> bool,
    ) -> Result<Entries, OpenError> {
        let directory = self.resolve(relative, OFlags::DIRECTORY)?;
        let metadata = Metadata::of(&directory)?;
        let (mut entries, mut is_truncated) = (Vec::new(), false);
        // Not opened again: what another process has opened this one may not.
        for found in Dir::new(io::fcntl_dupfd_cloexec(&directory, 0)?)? {
            let found = found?;
            let name = found.file_name();
            if matches!(name.to_bytes(), b"." | b"..") || !keep(name.to_bytes()) {
                continue;
            }
            let Ok(mut stat) = fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let mut kind = FileType::from_raw_mode(stat.st_mode);
            if kind.is_symlink() {
                // As by its path from the root: a link may lead above this directory, and not above the root.
                let path = [relative, b"/", name.to_bytes()].concat();
                let target = self.resolve(&path, OFlags::PATH).ok();
                let Some(followed) = target.and_then(|target| fs::fstat(target).ok()) else { continue };
                stat = followed;
                kind = FileType::from_raw_mode(stat.st_mode);
            }
            if !kind.is_file() && !kind.is_dir() {
                continue;
            }
            if entries.len() == entries_max {
                is_truncated = true;
                break;
            }
            let Metadata { size, modified_ns, .. } = Metadata::from(&stat);
            entries.push(Entry { name: name.to_bytes().to_vec(), is_directory: kind.is_dir(), size, modified_ns });
        }
        Ok(Entries { entries, is_truncated, metadata })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn entries_are_what_paths_beneath_the_root_lead_to() {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        for (name, contents) in [("root/a/file", "12345"), ("root/above", "123"), ("outside", "1")] {
            std::fs::write(outer.path().join(name), contents).unwrap();
        }
        for (target, link) in [
            ("../above", "up"),
            ("../../outside", "out"),
            ("/etc", "etc"),
            ("b", "dir"),
            ("self", "self"),
            ("gone", "x"),
        ] {
            symlink(target, root.join("a").join(link)).unwrap();
        }
        let _socket = std::os::unix::net::UnixListener::bind(root.join("a/socket")).unwrap();
        let opened = Root::open(&root).unwrap();
        let names = |opened: &Root, max| {
            let mut read = opened.entries(b"a", max, |name| name != b"never").unwrap();
            read.entries.sort_by(|left, right| left.name.cmp(&right.name));
            let shown = read.entries.iter().map(|entry| {
                let name = String::from_utf8_lossy(&entry.name).into_owned();
                if entry.is_directory { name + "/" } else { format!("{name} {}", entry.size) }
            });
            (shown.collect::<Vec<_>>().join(" "), read.is_truncated)
        };
        assert_eq!(names(&opened, 9), ("b/ dir/ file 5 up 3".into(), false));

        assert_eq!((names(&opened, 4).1, names(&opened, 3).1), (false, true));
        assert_eq!(opened.entries(b"nowhere", 9, |_| true).unwrap_err(), OpenError::Missing);
        assert_eq!(opened.entries(b"a/file", 9, |_| true).unwrap_err(), OpenError::Missing);
        assert_eq!(opened.entries(b".", 9, |_| true).unwrap().entries.len(), 2);
        assert_eq!(names(&opened.without_symlinks(), 9), ("b/ file 5".into(), false));
    }
}
