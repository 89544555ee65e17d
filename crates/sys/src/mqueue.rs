//! POSIX message queues (mq_overview(7)), non-blocking: a queue is a descriptor to be polled like any other.

use std::{
    ffi::{CStr, CString},
    fmt, fs, io,
    mem::ManuallyDrop,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd},
    str::FromStr,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    mqueue::{self, MQ_OFlag, MqAttr, MqdT},
    sys::stat::Mode,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FlockOperation, fchmod, flock, fstat},
    io::Errno as RawErrno,
    process::{Resource, getrlimit},
};

/// mq_overview(7): the name behind its slash.
const NAME_BYTES_MAX: usize = 255;
/// Bytes that the kernel adds for each message that a queue may hold, when it counts against RLIMIT_MSGQUEUE: a
/// message's head and a node of the tree of priorities, both rounded up.
const OVERHEAD_PER_MESSAGE: u64 = 48 + 48;

/// `/NAME`
#[derive(Clone, PartialEq, Eq)]
pub struct QueueName(CString);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no name of a queue: one slash, then 1 to 255 bytes without another")]
pub struct BadQueueName(String);

impl FromStr for QueueName {
    type Err = BadQueueName;

    fn from_str(text: &str) -> Result<Self, BadQueueName> {
        let bad = || BadQueueName(text.to_owned());
        let name = text.strip_prefix('/').ok_or_else(bad)?;
        if name.is_empty() || name == "." || name == ".." || name.len() > NAME_BYTES_MAX || name.contains('/') {
            return Err(bad());
        }
        CString::new(text).map(Self).map_err(|_| bad())
    }
}

impl QueueName {
    fn as_c_str(&self) -> &CStr {
        &self.0
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_string_lossy())
    }
}

impl fmt::Debug for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Place where the file system of queues is mounted (mq_overview(7)).
pub const MOUNTED: &str = "/dev/mqueue";
/// Directory of the kernel's limits of queues.
pub const LIMITS: &str = "/proc/sys/fs/mqueue";

/// Size of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSize {
    /// Messages it holds before senders have to wait.
    pub messages_max: usize,
    /// Bytes of the longest message.
    pub message_bytes_max: usize,
}

impl fmt::Display for QueueSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} messages of {} bytes", self.messages_max, self.message_bytes_max)
    }
}

/// Access that a queue is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Send,
    Receive,
    Both,
}

/// Identity of a queue, whatever its name has come to mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueIdentity {
    device: u64,
    inode: u64,
}

/// A message that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    pub bytes: usize,
    /// 0 is the lowest; the highest is received first.
    pub priority: u32,
}

/// Reason that there is no queue to be had.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    #[error("there is no such queue")]
    Missing,
    #[error("there is such a queue already")]
    Exists,
    #[error("permission denied")]
    Denied,
    /// Over what an administrator allows for one queue.
    #[error(
        "the kernel refuses {wanted}: without CAP_SYS_RESOURCE fs.mqueue.msg_max allows {} messages and \
         fs.mqueue.msgsize_max {} bytes (sysctl fs.mqueue.msg_max={} fs.mqueue.msgsize_max={})",
        allowed.messages_max, allowed.message_bytes_max,
        wanted.messages_max.max(allowed.messages_max), wanted.message_bytes_max.max(allowed.message_bytes_max)
    )]
    TooLarge { wanted: QueueSize, allowed: QueueSize },
    /// Over what this user's queues may hold together.
    #[error(
        "{wanted} need about {needed_bytes} bytes, and RLIMIT_MSGQUEUE allows this user's queues {allowed_bytes} \
         together (ulimit -q, or LimitMSGQUEUE=)"
    )]
    MemoryLimit { wanted: QueueSize, needed_bytes: u64, allowed_bytes: u64 },
    #[error("there are as many queues as fs.mqueue.queues_max allows, {0}")]
    TooMany(u64),
    #[error("out of file descriptors")]
    Exhausted,
    #[error(transparent)]
    Failed(io::Error),
}

/// Reason that a message was not sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    #[error("the queue is full")]
    Full,
    #[error("longer than the queue's messages may be")]
    TooLong,
    #[error(transparent)]
    Failed(io::Error),
}

/// An open queue. No call on it blocks, except those that say for how long.
#[derive(Debug)]
pub struct Queue {
    descriptor: ManuallyDrop<MqdT>,
    size: QueueSize,
}

impl Queue {
    /// Creates a queue that must not exist yet, open for both directions. `mode` is exact, whatever the umask.
    ///
    /// # Errors
    /// [`QueueError::Exists`]; what is too large says which setting forbids it.
    pub fn create(name: &QueueName, size: QueueSize, mode: u32) -> Result<Self, QueueError> {
        let refuse = |errno| QueueError::on_create(errno, size);
        let [messages, bytes] = [size.messages_max, size.message_bytes_max].map(i64::try_from);
        let (Ok(messages), Ok(bytes)) = (messages, bytes) else { return Err(refuse(Errno::EINVAL)) };
        let flags = MQ_OFlag::O_CREAT | MQ_OFlag::O_EXCL | MQ_OFlag::O_RDWR | MQ_OFlag::O_NONBLOCK;
        let attributes = MqAttr::new(0, messages, bytes, 0);
        let flags = flags | MQ_OFlag::O_CLOEXEC;
        let descriptor = mqueue::mq_open(name.as_c_str(), flags, Mode::S_IRUSR | Mode::S_IWUSR, Some(&attributes));
        let queue = Self { descriptor: ManuallyDrop::new(descriptor.map_err(refuse)?), size };
        fchmod(&queue, mode.into()).map_err(|errno| QueueError::Failed(errno.into()))?;
        Ok(queue)
    }

    /// # Errors
    /// [`QueueError::Missing`], [`QueueError::Denied`] and the rest.
    pub fn open(name: &QueueName, access: Access) -> Result<Self, QueueError> {
        let access = match access {
            Access::Send => MQ_OFlag::O_WRONLY,
            Access::Receive => MQ_OFlag::O_RDONLY,
            Access::Both => MQ_OFlag::O_RDWR,
        };
        let flags = access | MQ_OFlag::O_NONBLOCK | MQ_OFlag::O_CLOEXEC;
        let descriptor = mqueue::mq_open(name.as_c_str(), flags, Mode::empty(), None).map_err(QueueError::on_open)?;
        let mut queue = Self {
            descriptor: ManuallyDrop::new(descriptor),
            size: QueueSize { messages_max: 0, message_bytes_max: 0 },
        };
        queue.size = size_of(&queue.attributes().map_err(QueueError::Failed)?);
        Ok(queue)
    }

    /// Takes over a queue that another process has opened for both directions.
    ///
    /// # Errors
    /// Those of mq_getattr(3): it is none.
    pub fn adopt(descriptor: OwnedFd) -> io::Result<Self> {
        #[expect(clippy::disallowed_methods, reason = "nix has no other way from a descriptor to a queue")]
        // SAFETY: the descriptor is open, and had one owner, which has given it up.
        let descriptor = ManuallyDrop::new(unsafe { MqdT::from_raw_fd(descriptor.into_raw_fd()) });
        let mut queue = Self { descriptor, size: QueueSize { messages_max: 0, message_bytes_max: 0 } };
        queue.size = size_of(&queue.attributes()?);
        Ok(queue)
    }

    /// Returns another descriptor of the queue, which has the same lock.
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        self.as_fd().try_clone_to_owned()
    }

    /// Removes a name; a process that has the queue open keeps it.
    ///
    /// # Errors
    /// [`QueueError::Missing`], [`QueueError::Denied`] and the rest.
    pub fn unlink(name: &QueueName) -> Result<(), QueueError> {
        mqueue::mq_unlink(name.as_c_str()).map_err(QueueError::on_open)
    }

    pub fn size(&self) -> QueueSize {
        self.size
    }

    /// Messages in it now.
    ///
    /// # Errors
    /// Those of mq_getattr(3).
    pub fn len(&self) -> io::Result<usize> {
        Ok(usize::try_from(self.attributes()?.curmsgs()).unwrap_or(0))
    }

    /// # Errors
    /// Those of mq_getattr(3).
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// # Errors
    /// Those of fstat(2).
    pub fn identity(&self) -> io::Result<QueueIdentity> {
        let stat = fstat(self)?;
        Ok(QueueIdentity { device: stat.st_dev, inode: stat.st_ino })
    }

    /// Takes the lock that tells a living server's queue from one that was left behind; it ends with the last copy of
    /// this descriptor, however its process ends. Returns whether it was free.
    ///
    /// # Errors
    /// Those of flock(2), except that somebody else has the lock.
    pub fn try_lock(&self) -> io::Result<bool> {
        match flock(self, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(RawErrno::WOULDBLOCK) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Gives the lock back before the descriptor goes.
    ///
    /// # Errors
    /// Those of flock(2).
    pub fn unlock(&self) -> io::Result<()> {
        Ok(flock(self, FlockOperation::Unlock)?)
    }

    /// The oldest of the most urgent messages, copied to the start of `buffer`, which must have room for the longest
    /// message; `None` when there is none.
    ///
    /// # Errors
    /// Those of mq_receive(3): EMSGSIZE for a buffer that is too small, EBADF for a queue open for sending only.
    #[inline]
    pub fn try_receive(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        loop {
            let mut priority = 0;
            match mqueue::mq_receive(&self.descriptor, buffer, &mut priority) {
                Ok(bytes) => return Ok(Some(Received { bytes, priority })),
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// # Errors
    /// [`SendError::Full`] and [`SendError::TooLong`]; EINVAL for a priority of 32768 or above.
    #[inline]
    pub fn try_send(&self, message: &[u8], priority: u32) -> Result<(), SendError> {
        loop {
            match mqueue::mq_send(&self.descriptor, message, priority) {
                Ok(()) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Err(SendError::Full),
                Err(Errno::EMSGSIZE) => return Err(SendError::TooLong),
                Err(errno) => return Err(SendError::Failed(errno.into())),
            }
        }
    }

    /// Like [`Queue::try_receive`], but waits for a message; `None` when the time is up.
    ///
    /// # Errors
    /// Those of [`Queue::try_receive`].
    pub fn receive_within(&self, buffer: &mut [u8], timeout: Duration) -> io::Result<Option<Received>> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(received) = self.try_receive(buffer)? {
                return Ok(Some(received));
            }
            if !self.wait(PollFlags::IN, deadline)? {
                return Ok(None);
            }
        }
    }

    /// Like [`Queue::try_send`], but waits for room: [`SendError::Full`] when the time is up.
    ///
    /// # Errors
    /// Those of [`Queue::try_send`].
    pub fn send_within(&self, message: &[u8], priority: u32, timeout: Duration) -> Result<(), SendError> {
        let deadline = Instant::now() + timeout;
        loop {
            match self.try_send(message, priority) {
                Err(SendError::Full) => {}
                outcome => return outcome,
            }
            if !self.wait(PollFlags::OUT, deadline).map_err(SendError::Failed)? {
                return Err(SendError::Full);
            }
        }
    }

    /// True if the queue was ready before `deadline`.
    fn wait(&self, flags: PollFlags, deadline: Instant) -> io::Result<bool> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
            match poll(&mut [PollFd::new(self, flags)], Some(&timeout)) {
                Ok(ready) => return Ok(ready > 0),
                Err(RawErrno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn attributes(&self) -> io::Result<MqAttr> {
        Ok(mqueue::mq_getattr(&self.descriptor)?)
    }
}

fn size_of(attributes: &MqAttr) -> QueueSize {
    let [messages_max, message_bytes_max] =
        [attributes.maxmsg(), attributes.msgsize()].map(|n| usize::try_from(n).unwrap_or(0));
    QueueSize { messages_max, message_bytes_max }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        #[expect(
            clippy::disallowed_methods,
            reason = "mq_close takes its descriptor by value, drop has it by reference"
        )]
        // SAFETY: the descriptor is open, and the only other owner is in a ManuallyDrop that is never used again.
        let descriptor = unsafe { MqdT::from_raw_fd(self.descriptor.as_raw_fd()) };
        let _ = mqueue::mq_close(descriptor); // It can only fail for what is no queue.
    }
}

impl QueueError {
    fn on_open(error: impl Into<io::Error>) -> Self {
        let error = error.into();
        match RawErrno::from_io_error(&error) {
            Some(RawErrno::NOENT) => Self::Missing,
            Some(RawErrno::EXIST) => Self::Exists,
            Some(RawErrno::ACCESS | RawErrno::PERM) => Self::Denied,
            Some(RawErrno::MFILE | RawErrno::NFILE) => Self::Exhausted,
            _ => Self::Failed(error),
        }
    }

    fn on_create(errno: Errno, wanted: QueueSize) -> Self {
        let error = io::Error::from(errno);
        match RawErrno::from_io_error(&error) {
            Some(RawErrno::INVAL | RawErrno::OVERFLOW) => Self::TooLarge { wanted, allowed: allowed_size() },
            Some(RawErrno::NOSPC) => Self::TooMany(setting("queues_max")),
            // EMFILE means both: too many descriptors, and more bytes than RLIMIT_MSGQUEUE allows (mq_open(3)).
            Some(RawErrno::MFILE | RawErrno::NOMEM) if !descriptors_are_out() => {
                let [messages, bytes] = [wanted.messages_max, wanted.message_bytes_max].map(|n| n as u64);
                let needed_bytes = messages.saturating_mul(bytes.saturating_add(OVERHEAD_PER_MESSAGE));
                let allowed_bytes = getrlimit(Resource::Msgqueue).current.unwrap_or(u64::MAX);
                Self::MemoryLimit { wanted, needed_bytes, allowed_bytes }
            }
            _ => Self::on_open(error),
        }
    }
}

/// Returns the size that one queue may have without CAP_SYS_RESOURCE.
pub fn allowed_size() -> QueueSize {
    let [messages_max, message_bytes_max] =
        ["msg_max", "msgsize_max"].map(|name| usize::try_from(setting(name)).unwrap_or(usize::MAX));
    QueueSize { messages_max, message_bytes_max }
}

/// Reads a limit of `fs.mqueue`; 0 where it cannot be read.
fn setting(name: &str) -> u64 {
    let text = fs::read_to_string(format!("{LIMITS}/{name}"));
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

fn descriptors_are_out() -> bool {
    rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 0).is_err_and(|errno| errno == RawErrno::MFILE)
}

#[cfg(test)]
mod tests;
