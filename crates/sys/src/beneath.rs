//! Files of a directory tree, opened by a path that the kernel keeps beneath its root.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::{self, Path, PathBuf},
    time::Duration,
};

use rustix::{
    fs::{self, AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat},
    io::{Errno, retry_on_intr},
};

pub(crate) mod broker;
mod entries;
mod walk;

use broker::Brokered;
pub use entries::{Entries, Entry, Seen};

/// A rename somewhere in the tree can make one resolution uncertain (openat2(2), EAGAIN); twice in a row is rare.
const RESOLVE_TRIES: usize = 8;

/// The directory whose files may be opened. It stays the same directory when its name comes to mean another, which
/// [`Root::reopen_if_replaced`] finds.
#[derive(Debug)]
pub struct Root {
    directory: OwnedFd,
    resolver: Resolver,
    follows_links: bool,
    /// Absolute path by which it was opened.
    path: PathBuf,
    /// Device and inode. While the directory is open, no other one has them.
    identity: Identity,
}

/// Device and inode.
type Identity = (u64, u64);

/// Way to resolve a path beneath a directory.
#[derive(Clone, Copy, Debug)]
enum Resolver {
    /// openat2(2).
    Kernel,
    /// One openat(2) for each component ([`walk`]), where openat2 is not known.
    Walk,
    /// Another process, where this one may not read the directory since it is confined.
    Broker(Brokered),
}

/// A regular file, opened for reading.
#[derive(Debug)]
pub struct Opened {
    pub file: OwnedFd,
    pub metadata: Metadata,
}

/// Contents of a directory, and its state since before they were read.
#[derive(Debug)]
pub struct Listing {
    pub names: Vec<Name>,
    pub metadata: Metadata,
}

/// A directory's entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    pub bytes: Vec<u8>,
    pub kind: Kind,
}

/// Kind of a directory's entry, as the directory says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Regular,
    Directory,
    /// A link, or the file system does not say: opening it will tell.
    Unknown,
    /// A FIFO, socket or device.
    Special,
}

/// Identity and state of a file. Two that are equal are one file, unchanged: contents cannot change without the
/// change time, which unlike the modification time nobody can set, and which tells a reused inode number apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    pub device: u64,
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// Last modification, nanoseconds since the epoch.
    pub modified_ns: i64,
    /// Last change of contents or inode, nanoseconds since the epoch.
    pub changed_ns: i64,
}

/// Reason that a file cannot be served, by whose affair it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// There is no such file beneath the root, or only by leaving it.
    #[error("no such file beneath the root")]
    Missing,
    #[error("a directory")]
    Directory,
    /// A FIFO, socket or device.
    #[error("not a regular file")]
    NotRegular,
    #[error("permission denied")]
    Denied,
    /// Out of descriptors; may pass.
    #[error("out of file descriptors")]
    Exhausted,
    #[error(transparent)]
    Failed(Errno),
}

impl From<Errno> for OpenError {
    fn from(errno: Errno) -> Self {
        match errno {
            // EXDEV is an escape by `..`, by an absolute link or by a magic link; EINVAL a name the file system cannot
            // have; ENXIO a socket or a device that is not there.
            Errno::NOENT | Errno::NOTDIR | Errno::XDEV | Errno::LOOP | Errno::NAMETOOLONG | Errno::INVAL => {
                Self::Missing
            }
            Errno::NXIO | Errno::NODEV => Self::NotRegular,
            Errno::ACCESS | Errno::PERM => Self::Denied,
            Errno::MFILE | Errno::NFILE => Self::Exhausted,
            other => Self::Failed(other),
        }
    }
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Errno::from_io_error(&error).unwrap_or(Errno::IO).into()
    }
}

/// For messages: the nearest error of the system.
impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Missing => Errno::NOENT,
            OpenError::Directory => Errno::ISDIR,
            OpenError::NotRegular => Errno::NXIO,
            OpenError::Denied => Errno::ACCESS,
            OpenError::Exhausted => Errno::MFILE,
            OpenError::Failed(errno) => errno,
        }
        .into()
    }
}

impl From<&Stat> for Metadata {
    fn from(stat: &Stat) -> Self {
        // Nanoseconds in an i64 reach the year 2262.
        let nanoseconds = |seconds: i64, rest| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified_ns: nanoseconds(stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or(0)),
            changed_ns: nanoseconds(stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or(0)),
        }
    }
}

impl Metadata {
    /// # Errors
    /// Those of fstat(2).
    pub fn of(file: impl AsFd) -> Result<Self, OpenError> {
        Ok(Self::from(&fs::fstat(file)?))
    }

    /// Returns the metadata of what a path means now, links followed.
    ///
    /// # Errors
    /// Those of stat(2).
    pub fn at(path: impl rustix::path::Arg) -> Result<Self, OpenError> {
        Ok(Self::from(&fs::stat(path)?))
    }

    /// Two changes further apart than this have different change times: several ticks of the kernel's coarse clock.
    pub const TIMESTAMP_STEP: Duration = Duration::from_millis(50);

    /// True if the last change was long enough before `now`, since the epoch, for the next one to have another time:
    /// a file that is not settled may change and look the same.
    pub fn is_settled(&self, now: Duration) -> bool {
        let changed = u64::try_from(self.changed_ns).map(Duration::from_nanos);
        changed.is_ok_and(|changed| changed + Self::TIMESTAMP_STEP <= now)
    }
}

impl From<FileType> for Kind {
    fn from(file_type: FileType) -> Self {
        match file_type {
            FileType::RegularFile => Self::Regular,
            FileType::Directory => Self::Directory,
            FileType::Symlink | FileType::Unknown => Self::Unknown,
            FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice => Self::Special,
        }
    }
}

impl Root {
    /// # Errors
    /// Those of open(2) and openat2(2). Where the kernel or a sandbox does not know openat2 (ENOSYS), paths are resolved
    /// component by component, with the same outcome and more system calls.
    pub fn open(path: impl AsRef<Path>) -> rustix::io::Result<Self> {
        let path = path.as_ref();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = fs::openat(fs::CWD, path, flags, Mode::empty())?;
        let stat = fs::fstat(&directory)?;
        let resolver = match fs::openat2(&directory, c".", flags, Mode::empty(), ResolveFlags::BENEATH) {
            Ok(_) => Resolver::Kernel,
            Err(Errno::NOSYS) => Resolver::Walk,
            Err(other) => return Err(other),
        };
        // Where the current directory has no name any more, the path says as much as an absolute one could.
        let path = path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut root = Self { directory, resolver, follows_links: true, path, identity: (stat.st_dev, stat.st_ino) };
        if let Some(directory) = broker::find(&root.path)
            && root.is_refused()
        {
            root.resolver = Resolver::Broker(directory);
        }
        Ok(root)
    }

    /// Opens the directory that the path of this root means now, if that is another one: it was removed and made again, or
    /// replaced by renaming, or a link on the way leads elsewhere. `None` where it is the same, or cannot be opened.
    pub fn reopen_if_replaced(&self) -> Option<Self> {
        let there = fs::stat(&self.path).ok()?;
        if (there.st_dev, there.st_ino) == self.identity {
            return None;
        }
        Some(Self { follows_links: self.follows_links, ..Self::open(&self.path).ok()? })
    }

    /// The same directory, beneath which no link is followed.
    #[must_use]
    pub fn without_symlinks(self) -> Self {
        Self { follows_links: false, ..self }
    }

    /// Opens a regular file for reading, following only links that stay beneath the root. `relative` is a path without
    /// a leading slash. Never blocks on a FIFO or a device.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_file(&self, relative: &[u8]) -> Result<Opened, OpenError> {
        let file = self.resolve(relative, OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let stat = fs::fstat(&file)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind.is_dir() {
            return Err(OpenError::Directory);
        }
        if !kind.is_file() {
            return Err(OpenError::NotRegular);
        }
        Ok(Opened { metadata: Metadata::from(&stat), file })
    }

    /// The entries of a directory, in no order, without `.` and `..`; `keep` is asked about each name. A `relative` of
    /// `.` means the root.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn list(&self, relative: &[u8], mut keep: impl FnMut(&[u8]) -> bool) -> Result<Listing, OpenError> {
        let directory = self.resolve(relative, OFlags::DIRECTORY)?;
        let metadata = Metadata::of(&directory)?;
        let mut names = Vec::new();
        for entry in Dir::new(directory)? {
            let entry = entry?;
            let bytes = entry.file_name().to_bytes();
            if bytes != b"." && bytes != b".." && keep(bytes) {
                names.push(Name { bytes: bytes.to_vec(), kind: entry.file_type().into() });
            }
        }
        Ok(Listing { names, metadata })
    }

    fn resolve(&self, relative: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        self.resolver.open(self, relative, flags, self.follows_links)
    }

    /// Absolute path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True if this process may not read the directory.
    pub fn is_refused(&self) -> bool {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        fs::openat(&self.directory, c".", flags, Mode::empty()).is_err_and(|error| error == Errno::ACCESS)
    }

    /// True if another process opens the files, since this one is confined and was so before the directory had its name.
    pub fn is_brokered(&self) -> bool {
        matches!(self.resolver, Resolver::Broker(_))
    }

    /// State of whatever a path means now; one cheap call, to be compared with what [`Root::open_file`] once said.
    ///
    /// It may follow a link out of the root, so it is no permission to open anything: only equality with a file that
    /// was opened beneath the root means something.
    ///
    /// # Errors
    /// See [`OpenError`]. An absolute path is `Missing`.
    pub fn stat(&self, relative: &[u8]) -> Result<Metadata, OpenError> {
        if relative.starts_with(b"/") {
            return Err(OpenError::Missing);
        }
        if !self.follows_links {
            // A directory on the way may have become a link meanwhile, which changes nothing of the file.
            return Metadata::of(self.resolve(relative, OFlags::PATH)?);
        }
        Ok(Metadata::from(&fs::statat(&self.directory, relative, AtFlags::empty())?))
    }
}

impl Resolver {
    fn open(self, root: &Root, relative: &[u8], flags: OFlags, follows_links: bool) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | flags;
        match self {
            Self::Kernel => resolve(&root.directory, relative, flags, follows_links),
            Self::Walk => retry_on_intr(|| walk::open(root.directory.as_fd(), relative, flags, follows_links)),
            Self::Broker(directory) => directory.open(root.identity, relative, flags, follows_links),
        }
    }
}

/// openat2(2), again when a rename meanwhile made its outcome uncertain.
fn resolve(directory: &OwnedFd, path: &[u8], flags: OFlags, follows_links: bool) -> Result<OwnedFd, Errno> {
    let mut how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    how.set(ResolveFlags::NO_SYMLINKS, !follows_links);
    let mut tries = RESOLVE_TRIES;
    loop {
        tries -= 1;
        match fs::openat2(directory, path, flags, Mode::empty(), how) {
            Err(Errno::AGAIN | Errno::INTR) if tries > 0 => {}
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests;
