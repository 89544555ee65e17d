//! Directories that have been put in the place of those that a confined process may read.
//!
//! A rule of Landlock is about a directory and not about its name: what gets the name later is not covered. So a process beside
//! the confined one opens files beneath such a directory and hands them over, one for each request. It is asked for directories
//! by their place in a list that it has had from the start, and the kernel keeps paths beneath them: the confined process comes to no file that it could not have
//! read, had it been started a moment later.

use std::{
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use parking_lot::Mutex;
use rustix::{
    cmsg_space,
    fs::OFlags,
    io::{self, Errno, retry_on_intr},
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
        SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
    },
};

use super::{Identity, Root};

/// Bytes of a request before its path: the directory's place, if links are followed, the flags, and the identity.
const HEAD_BYTES: usize = 1 + 1 + 4 + 8 + 8;
/// Length of a request: one with a longer path is cut off, and PATH_MAX is less.
const REQUEST_BYTES_MAX: usize = HEAD_BYTES + 4096;
/// Flags of open(2) that a request can have.
const FLAGS: OFlags = OFlags::DIRECTORY.union(OFlags::NOCTTY).union(OFlags::NONBLOCK).union(OFlags::PATH);

/// Broker of this process, which it has where it is confined.
static OWN: OnceLock<Broker> = OnceLock::new();

/// The confined end.
#[derive(Debug)]
pub(crate) struct Broker {
    /// One request at a time, its answer included.
    channel: Mutex<OwnedFd>,
    /// Absolute paths.
    directories: Vec<PathBuf>,
}

/// The other end, in a process that is not confined.
#[derive(Debug)]
pub(crate) struct Opener {
    channel: OwnedFd,
    directories: Vec<PathBuf>,
}

/// A directory that a broker knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Brokered {
    broker: &'static Broker,
    at: u8,
}

/// Connects two ends about directories with these absolute paths.
///
/// # Errors
/// Those of socketpair(2).
pub(crate) fn pair(mut directories: Vec<PathBuf>) -> io::Result<(Broker, Opener)> {
    directories.truncate(usize::from(u8::MAX));
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let broker = Broker { channel: Mutex::new(ours), directories: directories.clone() };
    Ok((broker, Opener { channel: theirs, directories }))
}

impl Broker {
    /// Has all roots of this process use it where they cannot do without.
    pub(crate) fn install(self) {
        let _ = OWN.set(self); // A process is confined once.
    }

    pub(super) fn find(&'static self, path: &Path) -> Option<Brokered> {
        let at = self.directories.iter().position(|directory| directory == path)?;
        Some(Brokered { broker: self, at: u8::try_from(at).ok()? })
    }
}

/// Finds a directory that the broker of this process knows.
pub(super) fn find(path: &Path) -> Option<Brokered> {
    OWN.get()?.find(path)
}

impl Brokered {
    /// Opens what `relative` means beneath the directory with this identity.
    ///
    /// # Errors
    /// Those of openat2(2); ENOENT where the path of the directory means another one by now.
    pub(super) fn open(
        self,
        identity: Identity,
        relative: &[u8],
        flags: OFlags,
        follows_links: bool,
    ) -> io::Result<OwnedFd> {
        if relative.len() > REQUEST_BYTES_MAX - HEAD_BYTES {
            return Err(Errno::NAMETOOLONG);
        }
        let mut request = Vec::with_capacity(HEAD_BYTES + relative.len());
        request.extend([self.at, u8::from(follows_links)]);
        request.extend(flags.bits().to_ne_bytes());
        request.extend(identity.0.to_ne_bytes().into_iter().chain(identity.1.to_ne_bytes()));
        request.extend(relative);
        let channel = self.broker.channel.lock();
        // Where the other process has ended, so has the way to these files.
        let lost = |_| Errno::IO;
        rustix::net::send(&*channel, &request, SendFlags::NOSIGNAL).map_err(lost)?;
        let (mut answer, mut space) = ([0; 4], [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))]);
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut receive = || {
            let into = &mut [IoSliceMut::new(&mut answer)];
            recvmsg(&*channel, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        };
        let received = retry_on_intr(&mut receive).map_err(lost)?;
        drop(channel);
        let opened = ancillary.drain().find_map(|message| {
            if let RecvAncillaryMessage::ScmRights(mut descriptors) = message { descriptors.next() } else { None }
        });
        match (opened, i32::from_ne_bytes(answer)) {
            _ if received.bytes != answer.len() => Err(Errno::IO),
            (Some(opened), _) => Ok(opened),
            // The kernel drops a descriptor for which this process has no room.
            (None, 0) => Err(Errno::MFILE),
            (None, error) => Err(Errno::from_raw_os_error(error)),
        }
    }
}

impl Opener {
    pub(crate) fn has_directories(&self) -> bool {
        !self.directories.is_empty()
    }

    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.channel
    }

    /// Answers until the other process has ended.
    ///
    /// # Errors
    /// Those of the socket.
    pub(crate) fn serve(&self) -> io::Result<()> {
        let mut roots: Vec<Option<Root>> = self.directories.iter().map(|_| None).collect();
        let mut request = [0; REQUEST_BYTES_MAX];
        loop {
            let length = retry_on_intr(|| io::read(&self.channel, &mut request))?;
            if length == 0 {
                return Ok(());
            }
            let opened = self.open(&mut roots, &request[..length]);
            let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let descriptors = opened.as_ref().map(|opened| [opened.as_fd()]);
            if let Ok(descriptors) = &descriptors {
                ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
            }
            let answer = opened.as_ref().map_or_else(|error| error.raw_os_error(), |_| 0).to_ne_bytes();
            sendmsg(&self.channel, &[IoSlice::new(&answer)], &mut ancillary, SendFlags::NOSIGNAL)?;
        }
    }

    fn open(&self, roots: &mut [Option<Root>], request: &[u8]) -> io::Result<OwnedFd> {
        let (head, relative) = request.split_first_chunk::<HEAD_BYTES>().ok_or(Errno::INVAL)?;
        let [at, follows_links, numbers @ ..] = head;
        let (flags, identity) = numbers.split_first_chunk().ok_or(Errno::INVAL)?;
        let (device, inode) = identity.split_first_chunk().ok_or(Errno::INVAL)?;
        let inode = inode.first_chunk().ok_or(Errno::INVAL)?;
        let identity = (u64::from_ne_bytes(*device), u64::from_ne_bytes(*inode));
        let flags = OFlags::from_bits_retain(u32::from_ne_bytes(*flags)) & FLAGS;
        let at = usize::from(*at);
        let (root, path) = roots.get_mut(at).zip(self.directories.get(at)).ok_or(Errno::INVAL)?;
        if root.as_ref().is_none_or(|root| root.identity != identity) {
            *root = Some(Root::open(path)?);
        }
        let root = root.as_ref().filter(|root| root.identity == identity).ok_or(Errno::NOENT)?;
        root.resolver.open(root, relative, flags, *follows_links != 0)
    }
}
