//! The message queue from start to end: created or taken over from a dead server, locked, and released.

use std::{
    cell::RefCell,
    fmt, io,
    os::fd::OwnedFd,
    sync::atomic::{AtomicBool, Ordering},
};

use sys::mqueue::{Access, Queue, QueueError, QueueName, QueueSize, Received, SendError};

/// Attempts to acquire a queue that other processes create and remove meanwhile.
const ATTEMPTS: usize = 8;

/// Reason why there is no queue to serve.
#[derive(Debug, thiserror::Error)]
pub enum AcquireError {
    #[error("queue {0} belongs to a server that is running; stop it, or use another --queue")]
    Alive(QueueName),
    #[error("cannot create queue {name}: {error}")]
    Create { name: QueueName, error: QueueError },
    #[error("cannot open queue {name}, which exists: {error}")]
    Open { name: QueueName, error: QueueError },
    #[error(
        "queue {name} has {found} and cannot be replaced by one of {wanted}: {error}; its requests are still in it"
    )]
    Replace { name: QueueName, found: QueueSize, wanted: QueueSize, error: QueueError },
    #[error("queue {0} is created and removed by others all the time")]
    Contended(QueueName),
    #[error("queue {name} cannot be taken over from the process before this one: {error}")]
    Inherit { name: QueueName, error: io::Error },
    #[error("queue {0} is not that of the process before this one: an upgrade cannot change it")]
    Other(QueueName),
    #[error("queue {name} has {found}, and an upgrade cannot make {wanted} of them")]
    OtherSize { name: QueueName, found: QueueSize, wanted: QueueSize },
}

/// A message from the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) priority: u32,
}

/// A queue that is locked, so that no other server takes it while this process lives.
pub struct OwnedQueue {
    name: QueueName,
    queue: Queue,
    mode: u32,
    /// Requests of a queue of another size that this one has replaced.
    backlog: Vec<Message>,
    /// False while another process has the queue, which removes and unlocks it in the end.
    is_ours: AtomicBool,
}

/// Origin of an [`OwnedQueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Created,
    /// It was left behind, with this number of requests in it.
    TakenOver(usize),
    /// It was left behind with another size, and this number of requests in it.
    Replaced(usize),
    /// The process before this one has handed it over.
    Inherited,
}

impl OwnedQueue {
    /// Creates the queue, or takes over the one that a dead server has left. `size` is that of a new queue. An existing one
    /// of another size is replaced if `is_exact`; its requests are kept.
    ///
    /// # Errors
    /// See [`AcquireError`].
    pub fn acquire(
        name: &QueueName,
        size: QueueSize,
        is_exact: bool,
        mode: u32,
    ) -> Result<(Self, Origin), AcquireError> {
        for _ in 0..ATTEMPTS {
            let own =
                |queue, backlog| Self { name: name.clone(), queue, mode, backlog, is_ours: AtomicBool::new(true) };
            match Queue::create(name, size, mode) {
                Ok(queue) if lock_if_named(&queue, name) => return Ok((own(queue, Vec::new()), Origin::Created)),
                Ok(_) => continue, // Another new server has locked it first, or has removed it.
                Err(QueueError::Exists) => {}
                Err(error) => return Err(AcquireError::Create { name: name.clone(), error }),
            }
            let queue = match Queue::open(name, Access::Both) {
                Ok(queue) => queue,
                Err(QueueError::Missing) => continue,
                Err(error) => return Err(AcquireError::Open { name: name.clone(), error }),
            };
            if !queue.try_lock().unwrap_or(false) {
                return Err(AcquireError::Alive(name.clone()));
            }
            if !is_named(&queue, name) {
                continue; // Its server has just removed it.
            }
            if queue.size() == size || !is_exact {
                let origin = Origin::TakenOver(queue.len().unwrap_or(0));
                return Ok((own(queue, Vec::new()), origin));
            }
            let (queue, backlog) = replace(name, &queue, size, mode)?;
            let origin = Origin::Replaced(backlog.len());
            return Ok((own(queue, backlog), origin));
        }
        Err(AcquireError::Contended(name.clone()))
    }

    /// Takes the queue of the process before this one, which still has it and its lock: it is to be owned next.
    ///
    /// # Errors
    /// It is another queue, or has another size where that is_exact.
    pub fn inherit(
        name: &QueueName,
        descriptor: OwnedFd,
        size: QueueSize,
        is_exact: bool,
        mode: u32,
    ) -> Result<(Self, Origin), AcquireError> {
        let refuse = |error| AcquireError::Inherit { name: name.clone(), error };
        let queue = Queue::adopt(descriptor).map_err(refuse)?;
        if !is_named(&queue, name) {
            return Err(AcquireError::Other(name.clone()));
        }
        if is_exact && queue.size() != size {
            return Err(AcquireError::OtherSize { name: name.clone(), found: queue.size(), wanted: size });
        }
        let is_ours = AtomicBool::new(false);
        Ok((Self { name: name.clone(), queue, mode, backlog: Vec::new(), is_ours }, Origin::Inherited))
    }

    /// Makes this process the one that removes and unlocks the queue in the end.
    pub(crate) fn own(&self) {
        self.is_ours.store(true, Ordering::Release);
    }

    /// Leaves that to the process that it has been handed to.
    pub(crate) fn give_away(&self) {
        self.is_ours.store(false, Ordering::Release);
    }

    pub fn name(&self) -> &QueueName {
        &self.name
    }

    pub fn size(&self) -> QueueSize {
        self.queue.size()
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(crate) fn take_backlog(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.backlog)
    }

    pub(crate) fn receive(&self) -> Option<Message> {
        receive(&self.queue)
    }

    /// Puts requests back, and removes the queue if it is empty then. Returns the number of requests put back, and of those
    /// that are lost for want of room.
    pub(crate) fn release(&self, messages: Vec<Message>) -> (usize, usize) {
        let (name, count) = (&self.name, messages.len());
        let lost = send_all(&self.queue, messages);
        if lost > 0 {
            tracing::error!("requests lost because queue {name} is full: {lost} of {count} that were put back");
        }
        if !self.is_ours.load(Ordering::Acquire) {
            return (count - lost, lost); // Another process takes what is in it.
        }
        if self.queue.is_empty().unwrap_or(true) {
            self.remove();
        }
        let left = self.queue.len().unwrap_or(0);
        if left > 0 {
            service::advise(format_args!("requests left in queue {name} for its next server: {left}"));
        }
        // From here on another server may take over what is left, even if this process takes its time to end.
        if let Err(error) = self.queue.unlock() {
            tracing::error!("flock: {error}"); // Only a bug makes it fail.
        }
        (count - lost, lost)
    }

    /// Removes the queue's name. Requests that arrive after the check and before the removal are moved to a new queue.
    fn remove(&self) {
        if !is_named(&self.queue, &self.name) {
            return;
        }
        if let Err(error) = Queue::unlink(&self.name) {
            tracing::error!("cannot remove queue {}: {error}", self.name);
            return;
        }
        let late: Vec<_> = std::iter::from_fn(|| receive(&self.queue)).collect();
        if late.is_empty() {
            return;
        }
        let again = match Queue::create(&self.name, self.queue.size(), self.mode) {
            Err(QueueError::Exists) => Queue::open(&self.name, Access::Send),
            outcome => outcome,
        };
        let count = late.len();
        match again {
            Ok(again) if send_all(&again, late) == 0 => {
                service::advise(format_args!("late requests left in queue {} for its next server: {count}", self.name));
            }
            _ => tracing::error!("requests lost while queue {} was removed: {count}", self.name),
        }
    }
}

impl fmt::Debug for OwnedQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedQueue").field("name", &self.name).field("size", &self.size()).finish_non_exhaustive()
    }
}

/// Locks a queue; true if the name still leads to it then.
fn lock_if_named(queue: &Queue, name: &QueueName) -> bool {
    queue.try_lock().unwrap_or(false) && is_named(queue, name)
}

/// True if the name still leads to this queue.
fn is_named(queue: &Queue, name: &QueueName) -> bool {
    let named = Queue::open(name, Access::Both).and_then(|named| named.identity().map_err(QueueError::Failed));
    matches!((named, queue.identity()), (Ok(named), Ok(this)) if named == this)
}

/// Replaces a queue by one of another size and returns its requests. Nothing is touched before it is certain that the
/// kernel grants the new one.
fn replace(name: &QueueName, old: &Queue, wanted: QueueSize, mode: u32) -> Result<(Queue, Vec<Message>), AcquireError> {
    let found = old.size();
    let refuse = |error| AcquireError::Replace { name: name.clone(), found, wanted, error };
    let trial: QueueName = format!("/quintet-trial-{}", std::process::id()).parse().map_err(|_| {
        refuse(QueueError::Missing) // Such a name is always valid.
    })?;
    drop(Queue::create(&trial, wanted, 0o600).map_err(refuse)?);
    Queue::unlink(&trial).map_err(refuse)?;
    Queue::unlink(name).map_err(refuse)?;
    let backlog: Vec<_> = std::iter::from_fn(|| receive(old)).collect();
    match Queue::create(name, wanted, mode) {
        Ok(queue) if lock_if_named(&queue, name) => Ok((queue, backlog)),
        outcome => {
            // Another process has taken the name. The requests go to the queue that it leads to now.
            let error = outcome.err().unwrap_or(QueueError::Exists);
            let lost = Queue::open(name, Access::Send).map_or(backlog.len(), |queue| send_all(&queue, backlog));
            if lost > 0 {
                tracing::error!("requests of queue {name} lost: {lost}");
            }
            Err(AcquireError::Create { name: name.clone(), error })
        }
    }
}

fn receive(queue: &Queue) -> Option<Message> {
    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(queue.size().message_bytes_max, 0);
        match queue.try_receive(buffer) {
            Ok(received) => {
                received.map(|Received { bytes, priority }| Message { bytes: buffer[..bytes].into(), priority })
            }
            Err(error) => {
                tracing::error!("mq_receive: {error}"); // Only a bug makes it fail.
                None
            }
        }
    })
}

/// Sends messages and returns the number of those that there was no room for.
fn send_all(queue: &Queue, messages: Vec<Message>) -> usize {
    let refused = |message: &Message| match queue.try_send(&message.bytes, message.priority) {
        Ok(()) => false,
        Err(error @ (SendError::Full | SendError::TooLong | SendError::Failed(_))) => {
            tracing::warn!("{}: {error}", message.bytes.escape_ascii());
            true
        }
    };
    messages.iter().filter(|message| refused(message)).count()
}
