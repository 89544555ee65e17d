//! Resolution of a path beneath a directory without openat2(2), which older kernels and sandboxes do not know: one
//! openat(2) for each component, none of which follows a link. Links are read, and their text is walked in the same way.

use std::{
    collections::VecDeque,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{self, Mode, OFlags},
    io::Errno,
};

/// Links that one resolution follows, as many as the kernel's own (path_resolution(7)).
const LINKS_MAX: usize = 40;
/// Length of a path, in bytes (PATH_MAX).
const PATH_MAX: usize = 4096;

/// Opens what `path` means, which lies beneath `root` or is `root` itself.
///
/// # Errors
/// Those of openat(2); EXDEV where `..` or a link leads out of `root`.
pub(super) fn open(root: BorrowedFd<'_>, path: &[u8], flags: OFlags, follows_links: bool) -> Result<OwnedFd, Errno> {
    if path.is_empty() {
        return Err(Errno::NOENT);
    }
    let mut walk = Walk {
        root,
        parents: Vec::new(),
        ahead: VecDeque::new(),
        links_left: if follows_links { LINKS_MAX } else { 0 },
    };
    walk.go_on_with(path)?;
    while let Some(name) = walk.ahead.pop_front() {
        match &name[..] {
            b"" | b"." => {}
            b".." => drop(walk.parents.pop().ok_or(Errno::XDEV)?),
            name if walk.ahead.is_empty() => {
                if let Some(opened) = walk.open(name, flags)? {
                    return Ok(opened);
                }
            }
            name => {
                if let Some(directory) = walk.open(name, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC)? {
                    walk.parents.push(directory);
                }
            }
        }
    }
    fs::openat(walk.here(), c".", flags, Mode::empty())
}

struct Walk<'a> {
    root: BorrowedFd<'a>,
    /// Directories from `root` to where the walk is. `..` goes back to the one that it came through, wherever that has
    /// been moved to meanwhile.
    parents: Vec<OwnedFd>,
    /// Components that are still to be walked. An empty one stands for a slash at the end.
    ahead: VecDeque<Vec<u8>>,
    links_left: usize,
}

impl Walk<'_> {
    fn here(&self) -> BorrowedFd<'_> {
        self.parents.last().map_or(self.root, AsFd::as_fd)
    }

    /// Puts the components of a path, or of a link's text, before the others.
    fn go_on_with(&mut self, path: &[u8]) -> Result<(), Errno> {
        if path.starts_with(b"/") {
            return Err(Errno::XDEV);
        }
        if path.len() >= PATH_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        for component in path.split(|&byte| byte == b'/').rev() {
            self.ahead.push_front(component.to_vec());
        }
        Ok(())
    }

    /// Opens a component, or walks on with its text if it is a link.
    fn open(&mut self, name: &[u8], flags: OFlags) -> Result<Option<OwnedFd>, Errno> {
        let refused = match fs::openat(self.here(), name, flags | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(opened) => return Ok(Some(opened)),
            // ELOOP is a link, and so is ENOTDIR where a directory is asked for.
            Err(refused @ (Errno::LOOP | Errno::NOTDIR)) => refused,
            Err(other) => return Err(other),
        };
        // It may have been replaced since it was refused: then it is no link, and the refusal stands.
        let text = fs::readlinkat(self.here(), name, Vec::new()).map_err(|_| refused)?;
        self.links_left = self.links_left.checked_sub(1).ok_or(Errno::LOOP)?;
        self.go_on_with(text.to_bytes())?;
        Ok(None)
    }
}
