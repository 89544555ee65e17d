//! Paths beneath a root.

use std::{
    ffi::OsStr,
    fmt,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Path of parts with a `/` between them, none of them empty, `.` or `..`, and none with a NUL: by its text alone, such a
/// path only leads down. The kernel takes care of links (`sys::beneath`).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelativePath(Box<[u8]>);

impl RelativePath {
    pub fn new(path: impl Into<Box<[u8]>>) -> Option<Self> {
        let path = path.into();
        let is_part = |part: &[u8]| !part.is_empty() && part != b"." && part != b"..";
        (!path.contains(&0) && path.split(|&byte| byte == b'/').all(is_part)).then_some(Self(path))
    }

    /// Makes a path of one part.
    pub fn name(name: &[u8]) -> Option<Self> {
        if name.contains(&b'/') { None } else { Self::new(name) }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// Returns the directory that it is in; `.` is the root.
    pub fn parent(&self) -> &[u8] {
        self.0.iter().rposition(|&byte| byte == b'/').map_or(b".", |slash| &self.0[..slash])
    }

    /// Returns the path with that of the root in front.
    pub fn beneath(&self, root: &Path) -> PathBuf {
        root.join(self.as_path())
    }
}

impl fmt::Debug for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl fmt::Display for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.escape_ascii().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_only_leads_down() {
        for good in [&b"a"[..], b"a/b", b"...", b".a", b"a/..b", b"\xff\n"] {
            assert_eq!(RelativePath::new(good).unwrap().as_bytes(), good);
        }
        for bad in [&b""[..], b"/", b"/a", b"a/", b"a//b", b".", b"..", b"a/.", b"../a", b"a/../b", b"a\0", b"a/\0"] {
            assert_eq!(RelativePath::new(bad), None, "{}", bad.escape_ascii());
        }
        assert_eq!(RelativePath::name(b"a/b"), None);
    }

    #[test]
    fn a_parent_is_the_directory_around_it() {
        for (path, parent) in [(&b"a"[..], &b"."[..]), (b"a/b", b"a"), (b"a/b/c", b"a/b")] {
            assert_eq!(RelativePath::new(path).unwrap().parent(), parent);
        }
    }
}
