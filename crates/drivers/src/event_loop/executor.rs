//! Executors of a protocol: the loop's own thread, or another.

use std::sync::Arc;

use proto::{Now, Protocol, Session};

use crate::mailbox::{Key, Mailbox};

/// Message to a loop, in its mailbox.
pub(crate) enum LoopMessage<P: Protocol> {
    Look(Key),
    /// A session that was away.
    Back(Key, Box<Session<P>>),
}

impl<P: Protocol> From<Key> for LoopMessage<P> {
    fn from(key: Key) -> Self {
        Self::Look(key)
    }
}

/// A session with input to work on, and where to send it back to.
pub(crate) struct Job<P: Protocol> {
    pub(crate) key: Key,
    pub(crate) session: Box<Session<P>>,
    pub(crate) home: Arc<Mailbox<LoopMessage<P>>>,
}

/// Runs a protocol, on the thread of the loop or on another.
pub(crate) trait Executor<P: Protocol> {
    /// Number of connections that are read before the protocol is run for them.
    const BATCH: usize;

    /// Runs the protocol on what the session holds and on `lent` bytes behind it; `None`: the session has left, and
    /// comes back in a message.
    fn work(
        &self,
        protocol: &P,
        key: Key,
        session: Box<Session<P>>,
        lent: &[u8],
        now: Now,
        home: &Arc<Mailbox<LoopMessage<P>>>,
    ) -> Option<Box<Session<P>>>;
}

/// On the loop's own thread.
#[derive(Debug)]
pub(crate) struct Inline;

impl<P: Protocol> Executor<P> for Inline {
    const BATCH: usize = P::BATCH;

    #[inline]
    fn work(
        &self,
        protocol: &P,
        _: Key,
        mut session: Box<Session<P>>,
        lent: &[u8],
        now: Now,
        _: &Arc<Mailbox<LoopMessage<P>>>,
    ) -> Option<Box<Session<P>>> {
        match lent {
            [] => session.resume(protocol, now),
            lent => session.feed(protocol, lent, now),
        }
        Some(session)
    }
}
