//! An answer that another thread will give, keeping its place in the pipeline.

use std::{
    fmt, mem,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Poll, Waker},
};

use parking_lot::Mutex;

use crate::Outbox;

/// Bytes fulfilled and not yet taken by the outbox they are meant for.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// See [`Outbox::held_bytes`].
    pub(crate) held: AtomicUsize,
    /// See [`Outbox::own_bytes`].
    pub(crate) own: AtomicUsize,
}

#[derive(Debug)]
enum State {
    Open(Option<Waker>),
    Answered(Box<Outbox>),
    Broken,
}

struct Shared {
    state: Mutex<State>,
    ledger: Arc<Ledger>,
}

/// The answering half. Dropping it unfulfilled closes the connection once the replies before it have been sent.
pub struct Promise(Arc<Shared>);

/// The waiting half, queued in the connection's outbox.
pub struct DeferredReply(Arc<Shared>);

/// Error of a promise that was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

pub(crate) fn pair(ledger: Arc<Ledger>) -> (Promise, DeferredReply) {
    let shared = Arc::new(Shared { state: Mutex::new(State::Open(None)), ledger });
    (Promise(Arc::clone(&shared)), DeferredReply(shared))
}

impl Promise {
    /// Gives the answer, written exactly as [`crate::Protocol::on_input`] would have written it.
    pub fn fulfil(self, answer: Outbox) {
        self.0.ledger.held.fetch_add(answer.held_bytes(), Ordering::Relaxed);
        self.0.ledger.own.fetch_add(answer.own_bytes(), Ordering::Relaxed);
        self.settle(State::Answered(Box::new(answer)));
    }

    /// True if nobody waits for the answer any more: the connection is gone, as far as its driver knows.
    pub fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    fn settle(&self, outcome: State) {
        let mut state = self.0.state.lock();
        let State::Open(waker) = &mut *state else { return };
        let waker = waker.take();
        *state = outcome;
        drop(state); // Waking may run the driver's own locks.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.settle(State::Broken);
    }
}

impl DeferredReply {
    /// Takes the answer if it is there; `Ready(Ok)` at most once.
    pub fn take(&self) -> Poll<Result<Outbox, Broken>> {
        let mut state = self.0.state.lock();
        match mem::replace(&mut *state, State::Broken) {
            State::Answered(answer) => {
                self.0.ledger.held.fetch_sub(answer.held_bytes(), Ordering::Relaxed);
                self.0.ledger.own.fetch_sub(answer.own_bytes(), Ordering::Relaxed);
                Poll::Ready(Ok(*answer))
            }
            State::Broken => Poll::Ready(Err(Broken)),
            open @ State::Open(_) => {
                *state = open;
                Poll::Pending
            }
        }
    }

    /// Returns `Pending` if the promise is open; `waker` will be woken once it is settled.
    pub fn poll(&self, waker: &Waker) -> Poll<()> {
        match &mut *self.0.state.lock() {
            State::Open(Some(old)) if old.will_wake(waker) => Poll::Pending,
            State::Open(slot) => {
                *slot = Some(waker.clone());
                Poll::Pending
            }
            State::Answered(_) | State::Broken => Poll::Ready(()),
        }
    }
}

impl fmt::Debug for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Promise")
    }
}

impl fmt::Debug for DeferredReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeferredReply")
    }
}
