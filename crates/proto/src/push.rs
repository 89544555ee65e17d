//! Output that no request asked for: any thread may push it into a connection.
//!
//! Pushed output waits in a mailbox. The session moves it into the connection's outbox as there is room, between two
//! replies and never inside one, so that it has one order with them. A peer that does not read fills its mailbox; beyond
//! the limit the connection is cut off, and whoever pushes never waits.

use std::{
    collections::VecDeque,
    fmt, mem,
    sync::Arc,
    task::{Poll, Waker},
};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::{Outbox, Segment};

/// Pushes of at most this many bytes are copied behind one another.
const COPY_MAX: usize = 2048;
/// Bytes of copied pushes that stay together.
const CHUNK_MAX: usize = 16 * 1024;
/// Bytes that a push counts for beside its own: those of its place in the queue.
const SHARED_OVERHEAD: usize = size_of::<Segment>();

/// Handle that pushes output into a connection. Made by a protocol, and given to the connection's outbox by
/// [`Outbox::take_pushes_of`]; it may be cloned and used on any thread.
#[derive(Clone)]
pub struct Pusher(Arc<Mailbox>);

/// Error of a push: the connection takes no more, or is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

struct Mailbox {
    bytes_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Segment>,
    /// Bytes in `queue`, and what they take beside.
    bytes: usize,
    phase: Phase,
    /// Something has been pushed that [`Source::poll_news`] has not told of.
    has_news: bool,
    /// Wakes the driver; taken when it is woken.
    waker: Option<Waker>,
    /// The driver has no room: only the end is worth waking it for.
    is_full: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    /// Nothing more is taken; the queue is still sent.
    Closed,
    /// More was pushed than the limit allows.
    Overrun,
}

/// End of a mailbox that an outbox has.
#[derive(Debug)]
pub(crate) struct Source {
    pusher: Pusher,
    /// The pushes go through another session, which is only to have its turns: TLS.
    is_followed: bool,
}

/// Room of a connection for pushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Some,
    /// There will be some when output has been sent.
    None,
    /// Nothing may be pushed any more; what has been is still sent as there is room.
    Ending {
        is_full: bool,
    },
}

impl Pusher {
    /// Returns a handle that holds at most `bytes_max` bytes which the outbox has no room for.
    pub fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Mailbox { bytes_max, state: Mutex::default() }))
    }

    /// Queues bytes behind everything that has been pushed before. Small ones are copied, others shared. Never waits; a
    /// connection whose limit this exceeds is cut off.
    ///
    /// # Errors
    /// The connection is gone or takes no more: the bytes are dropped.
    pub fn push(&self, bytes: &Bytes) -> Result<(), Closed> {
        let mut state = self.0.state.lock();
        if state.phase != Phase::Open {
            return Err(Closed);
        }
        state.append(bytes);
        let is_overrun = state.bytes > self.0.bytes_max;
        if is_overrun {
            state.phase = Phase::Overrun;
            (state.queue, state.bytes) = (VecDeque::new(), 0);
        }
        let waker = if is_overrun || !state.is_full { state.waker.take() } else { None };
        drop(state); // Waking may run the driver's own locks.
        if let Some(waker) = waker {
            waker.wake();
        }
        if is_overrun { Err(Closed) } else { Ok(()) }
    }

    /// True if pushes are dropped: the connection is gone or takes no more.
    pub fn is_closed(&self) -> bool {
        self.0.state.lock().phase != Phase::Open
    }

    /// Moves all that has been pushed into `out`, whether or not there is room: for a reply that must not be overtaken by
    /// what was pushed before it.
    pub fn move_all(&self, out: &mut Outbox) {
        let mut state = self.0.state.lock();
        state.bytes = 0;
        mem::take(&mut state.queue).into_iter().for_each(|segment| out.push_segment(segment));
    }

    /// Drops all that has been pushed and not been moved.
    pub fn discard(&self) {
        let mut state = self.0.state.lock();
        (state.queue, state.bytes) = (VecDeque::new(), 0);
    }

    fn close(&self) {
        let mut state = self.0.state.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Closed;
        }
        state.waker = None;
    }
}

impl State {
    fn append(&mut self, bytes: &Bytes) {
        self.has_news = true;
        match self.queue.back_mut() {
            Some(Segment::Owned(last)) if bytes.len() <= COPY_MAX && last.len() + bytes.len() <= CHUNK_MAX => {
                last.extend_from_slice(bytes);
                self.bytes += bytes.len();
                return;
            }
            _ if bytes.is_empty() => return,
            _ if bytes.len() <= COPY_MAX => self.queue.push_back(Segment::Owned(bytes.to_vec())),
            _ => self.queue.push_back(Segment::Shared(bytes.clone())),
        }
        self.bytes += bytes.len() + SHARED_OVERHEAD;
    }

    /// Moves what there is room for. True if that is anything.
    fn move_into(&mut self, out: &mut Outbox) -> bool {
        let mut has_moved = false;
        while !out.is_full()
            && let Some(segment) = self.queue.pop_front()
        {
            // Both change by as much as `append` has added.
            self.bytes -= segment.memory().map_or(0, <[u8]>::len) + SHARED_OVERHEAD;
            out.push_segment(segment);
            has_moved = true;
        }
        has_moved
    }
}

impl Source {
    pub(crate) fn new(pusher: &Pusher, is_followed: bool) -> Self {
        Self { pusher: pusher.clone(), is_followed }
    }

    pub(crate) fn pusher(&self) -> &Pusher {
        &self.pusher
    }

    pub(crate) fn is_followed(&self) -> bool {
        self.is_followed
    }

    /// True if something waits to be moved.
    pub(crate) fn has_pushes(&self) -> bool {
        !self.is_followed && !self.pusher.0.state.lock().queue.is_empty()
    }

    pub(crate) fn is_overrun(&self) -> bool {
        self.pusher.0.state.lock().phase == Phase::Overrun
    }

    /// Moves what there is room for; true if that is anything.
    pub(crate) fn move_into(&self, out: &mut Outbox) -> bool {
        !self.is_followed && self.pusher.0.state.lock().move_into(out)
    }

    /// Tells whether something is new since the last time that it was told, and has the waker woken by what comes then, in
    /// either case.
    /// `Ready(Err)`: more has been pushed than the limit allows.
    pub(crate) fn poll_news(&self, room: Room, waker: Option<&Waker>) -> Poll<Result<(), Overrun>> {
        let mut state = self.pusher.0.state.lock();
        if state.phase == Phase::Overrun {
            return Poll::Ready(Err(Overrun));
        }
        if matches!(room, Room::Ending { .. }) {
            state.phase = Phase::Closed;
        }
        state.is_full = matches!(room, Room::None | Room::Ending { is_full: true });
        if let Some(waker) = waker
            && !state.waker.as_ref().is_some_and(|old| old.will_wake(waker))
        {
            state.waker = Some(waker.clone());
        }
        let is_news = !state.is_full && (if self.is_followed { state.has_news } else { !state.queue.is_empty() });
        if is_news {
            state.has_news = false;
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }
}

/// More has been pushed than the limit allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overrun;

impl Drop for Source {
    fn drop(&mut self) {
        self.pusher.close();
    }
}

impl fmt::Debug for Pusher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pusher").field("bytes_max", &self.0.bytes_max).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
