//! The queue from start to end: created, taken over from a dead server, put away.

use std::{cell::RefCell, fmt};

use sys::mqueue::{Access, Queue, QueueError, QueueName, QueueSize, Received, SendError};

use crate::job::Message;

/// Others may create and remove queues of this name while we do.
const TRIES: usize = 8;

/// Why there is no queue to serve.
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
}

/// A queue that no other server takes while this process lives: it is locked.
pub struct OwnQueue {
    name: QueueName,
    queue: Queue,
    mode: u32,
    /// Requests of a queue of another size that this one replaced.
    carried: Vec<Message>,
}

/// How the queue came to be ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Created,
    /// It was left behind with so many requests in it.
    TakenOver(usize),
    /// It was left behind with so many requests and another size.
    Replaced(usize),
}

impl OwnQueue {
    /// Creates the queue or takes over what a server that is dead has left. `size` is what a new one has; an existing one
    /// of another size is replaced if `is_exact`, and keeps its requests.
    ///
    /// # Errors
    /// See [`AcquireError`].
    pub fn acquire(
        name: &QueueName,
        size: QueueSize,
        is_exact: bool,
        mode: u32,
    ) -> Result<(Self, Origin), AcquireError> {
        for _ in 0..TRIES {
            let own = |queue, carried| Self { name: name.clone(), queue, mode, carried };
            match Queue::create(name, size, mode) {
                Ok(queue) if is_ours(&queue, name) => return Ok((own(queue, Vec::new()), Origin::Created)),
                Ok(_) => continue, // Somebody else's new server was quicker to lock it, or has removed it.
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
                continue; // Its server has removed it just now.
            }
            if queue.size() == size || !is_exact {
                let origin = Origin::TakenOver(queue.len().unwrap_or(0));
                return Ok((own(queue, Vec::new()), origin));
            }
            let (queue, carried) = replace(name, &queue, size, mode)?;
            let origin = Origin::Replaced(carried.len());
            return Ok((own(queue, carried), origin));
        }
        Err(AcquireError::Contended(name.clone()))
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

    pub(crate) fn take_carried(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.carried)
    }

    pub(crate) fn receive(&self) -> Option<Message> {
        receive(&self.queue)
    }

    /// Puts requests back and removes the queue, unless there are any in it then. Returns how many were put back, and how
    /// many there was no room for.
    pub(crate) fn put_away(&self, messages: Vec<Message>) -> (usize, usize) {
        let (name, count) = (&self.name, messages.len());
        let lost = send_all(&self.queue, messages);
        if lost > 0 {
            tracing::error!("{lost} of {count} requests that were not begun are lost: queue {name} is full");
        }
        if self.queue.is_empty().unwrap_or(true) {
            self.remove();
        }
        let left = self.queue.len().unwrap_or(0);
        if left > 0 {
            service::advise(format_args!("{left} requests remain in queue {name}: its next server answers them"));
        }
        // From here on another server may have what is left, even if this process takes its time to end.
        if let Err(error) = self.queue.unlock() {
            tracing::error!("flock: {error}"); // Only a bug makes it fail.
        }
        (count - lost, lost)
    }

    /// Removes the queue's name. Who sent a request after the look at it and before this finds it in a new queue.
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
                service::advise(format_args!("{count} requests came late and remain in queue {}", self.name));
            }
            _ => tracing::error!("{count} requests came while queue {} was removed and are lost", self.name),
        }
    }
}

impl fmt::Debug for OwnQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnQueue").field("name", &self.name).field("size", &self.size()).finish_non_exhaustive()
    }
}

fn is_ours(queue: &Queue, name: &QueueName) -> bool {
    queue.try_lock().unwrap_or(false) && is_named(queue, name)
}

/// Whether the name still means this queue.
fn is_named(queue: &Queue, name: &QueueName) -> bool {
    let named = Queue::open(name, Access::Both).and_then(|named| named.identity().map_err(QueueError::Failed));
    matches!((named, queue.identity()), (Ok(named), Ok(this)) if named == this)
}

/// Replaces a queue by one of another size and returns its requests. Nothing is touched before it is certain that the new
/// one can be had.
fn replace(name: &QueueName, old: &Queue, wanted: QueueSize, mode: u32) -> Result<(Queue, Vec<Message>), AcquireError> {
    let found = old.size();
    let refuse = |error| AcquireError::Replace { name: name.clone(), found, wanted, error };
    let trial: QueueName = format!("/quintet-trial-{}", std::process::id()).parse().map_err(|_| {
        refuse(QueueError::Missing) // Such a name is always one.
    })?;
    drop(Queue::create(&trial, wanted, 0o600).map_err(refuse)?);
    Queue::unlink(&trial).map_err(refuse)?;
    Queue::unlink(name).map_err(refuse)?;
    let carried: Vec<_> = std::iter::from_fn(|| receive(old)).collect();
    match Queue::create(name, wanted, mode) {
        Ok(queue) if is_ours(&queue, name) => Ok((queue, carried)),
        outcome => {
            // Somebody was quicker with the name. What was carried goes where the name leads now.
            let error = outcome.err().unwrap_or(QueueError::Exists);
            let lost = Queue::open(name, Access::Send).map_or(carried.len(), |queue| send_all(&queue, carried));
            if lost > 0 {
                tracing::error!("{lost} requests of queue {name} are lost");
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

/// Returns how many there was no room for.
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
