//! Reference for servers of files by message queue: a bare thread per request that splices the file into the FIFO.
//!
//! It has no pool, no deadline, no limit, and no answer to what it does not understand. No server that moves files by
//! splice(2) should be expected to be faster.

use std::{
    fs::File,
    io,
    os::{fd::AsFd, unix::net::UnixStream},
    path::Path,
    sync::Arc,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{OFlags, fcntl_setfl},
    io::{Errno, retry_on_intr},
    pipe::{SpliceFlags, splice},
};
use sys::{
    beneath::Root,
    fifo::{Directory, raise_capacity},
    mqueue::{Access, Queue, QueueError, QueueName, QueueSize, allowed_size},
};
use wire::mserve::Request;

/// Capacity of a FIFO, unless its file is smaller.
const PIPE_BYTES: usize = 1 << 20;
const MESSAGES_MAX: usize = 128;
const MESSAGE_BYTES_MAX: usize = 2048;
/// Mode of the queue: only its owner may put requests on it.
const QUEUE_MODE: u32 = 0o600;

/// Queue that is not served yet. Its name is unlinked when this is dropped.
#[derive(Debug)]
pub struct NullQueue {
    name: QueueName,
    queue: Queue,
    directories: Arc<Directories>,
}

#[derive(Debug)]
struct Directories {
    root: Root,
    fifos: Directory,
}

/// Reasons why a queue cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum NullQueueError {
    #[error("cannot make the queue: {0}")]
    Queue(#[from] QueueError),
    #[error("cannot use {}: {why}", path.display())]
    Directory { path: std::path::PathBuf, why: io::Error },
}

impl NullQueue {
    /// Makes the queue, in place of one that a dead process has left, as large as every user is allowed and no larger
    /// than needed.
    ///
    /// # Errors
    /// The queue cannot be made, or `root` or `fifos` is no directory.
    pub fn bind(name: &QueueName, root: &Path, fifos: &Path) -> Result<Self, NullQueueError> {
        let unusable = |path: &Path, why| NullQueueError::Directory { path: path.to_path_buf(), why };
        let directories = Directories {
            root: Root::open(root).map_err(|why| unusable(root, why.into()))?,
            fifos: Directory::open(fifos).map_err(|why| unusable(fifos, why))?,
        };
        let allowed = allowed_size();
        let size = QueueSize {
            messages_max: allowed.messages_max.clamp(1, MESSAGES_MAX),
            message_bytes_max: allowed.message_bytes_max.clamp(1, MESSAGE_BYTES_MAX),
        };
        let queue = create(name, size)?;
        Ok(Self { name: name.clone(), queue, directories: Arc::new(directories) })
    }

    /// Answers requests until `stop` becomes readable; threads that are at work then end with the process.
    ///
    /// # Errors
    /// The queue cannot be read any more.
    pub fn serve(&self, stop: &UnixStream) -> io::Result<()> {
        let mut buffer = vec![0; self.queue.size().message_bytes_max];
        loop {
            while let Some(received) = self.queue.try_receive(&mut buffer)? {
                let (directories, message) = (Arc::clone(&self.directories), buffer[..received.bytes].to_vec());
                // There is no channel for an error: neither for a request that cannot be served nor for a thread that cannot be started.
                let _ = std::thread::Builder::new().spawn(move || answer(&directories, &message));
            }
            let waited_for = |file| PollFd::from_borrowed_fd(file, PollFlags::IN);
            let mut polled = [waited_for(self.queue.as_fd()), waited_for(stop.as_fd())];
            match poll(&mut polled, None) {
                Ok(_) if polled[1].revents().is_empty() => {}
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Makes the queue. A server holds the lock of its queue, so one without a lock is a dead server's.
fn create(name: &QueueName, size: QueueSize) -> Result<Queue, QueueError> {
    let queue = match Queue::create(name, size, QUEUE_MODE) {
        Err(QueueError::Exists) => {
            let stale = Queue::open(name, Access::Both)?;
            if !stale.try_lock().map_err(QueueError::Failed)? {
                return Err(QueueError::Exists);
            }
            Queue::unlink(name)?;
            Queue::create(name, size, QUEUE_MODE)?
        }
        created => created?,
    };
    queue.try_lock().map_err(QueueError::Failed)?;
    Ok(queue)
}

impl Drop for NullQueue {
    fn drop(&mut self) {
        // Somebody else may have taken it away.
        let _ = Queue::unlink(&self.name);
    }
}

fn answer(directories: &Directories, message: &[u8]) -> io::Result<()> {
    let request = Request::parse(message).map_err(io::Error::other)?;
    let path = request.path.strip_prefix(b"/").unwrap_or(request.path);
    let opened = directories.root.open_file(path).map_err(io::Error::other)?;
    let fifo = directories.fifos.open_writer(request.fifo).map_err(io::Error::other)?;
    // From here on it is left to the kernel to wait for the reader.
    fcntl_setfl(&fifo, OFlags::empty())?;
    let length = opened.metadata.size;
    if length > 0 {
        // What is not granted makes it slower, not wrong.
        let _ = raise_capacity(&fifo, PIPE_BYTES.min(usize::try_from(length).unwrap_or(PIPE_BYTES)));
    }
    let file = File::from(opened.file);
    let mut offset = 0;
    while offset < length {
        let left = usize::try_from(length - offset).unwrap_or(usize::MAX).min(1 << 30);
        if retry_on_intr(|| splice(&file, Some(&mut offset), &fifo, None, left, SpliceFlags::MOVE))? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}
