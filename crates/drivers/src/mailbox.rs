//! Messages from other threads to an event loop, and an eventfd that says there are some.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
    task::{Wake, Waker},
};

use parking_lot::Mutex;
use sys::eventfd::EventFd;

#[derive(Debug)]
pub(crate) struct Mailbox<L> {
    poke: EventFd,
    messages: Mutex<Vec<L>>,
}

/// Says "look at this connection". Slots are reused, so it is a hint: looking must be harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(pub(crate) usize);

impl Key {
    /// No connection: the loop itself should look around.
    pub(crate) const LOOP: Self = Self(usize::MAX);
}

impl<L: Send + 'static> Mailbox<L> {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self { poke: EventFd::new()?, messages: Mutex::default() }))
    }

    pub(crate) fn post(&self, message: L) {
        let mut messages = self.messages.lock();
        messages.push(message);
        let first = messages.len() == 1;
        drop(messages);
        // The first message has poked already, and the loop has not collected since.
        if first {
            self.poke.poke();
        }
    }

    pub(crate) fn collect(&self) -> Vec<L> {
        self.poke.clear();
        std::mem::take(&mut *self.messages.lock())
    }

    pub(crate) fn waker(self: &Arc<Self>, key: Key) -> Waker
    where
        L: From<Key>,
    {
        Waker::from(Arc::new(MailboxWaker { mailbox: Arc::clone(self), key }))
    }
}

impl<L> AsFd for Mailbox<L> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poke.as_fd()
    }
}

struct MailboxWaker<L> {
    mailbox: Arc<Mailbox<L>>,
    key: Key,
}

impl<L: From<Key> + Send + 'static> Wake for MailboxWaker<L> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.mailbox.post(self.key.into());
    }
}
