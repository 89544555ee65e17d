//! Waits of a thread for input or for a push, whichever comes first.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
    task::{Wake, Waker},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use sys::eventfd::EventFd;

/// Event that a push wakes the thread of a connection by; only a connection that takes pushes has one.
pub(super) struct PushEvent {
    event: Arc<Event>,
    waker: Waker,
}

struct Event(EventFd);

impl Wake for Event {
    fn wake(self: Arc<Self>) {
        self.0.poke();
    }
}

impl PushEvent {
    /// # Errors
    /// There is no descriptor left.
    pub(super) fn new() -> io::Result<Self> {
        let event = Arc::new(Event(EventFd::new()?));
        Ok(Self { waker: Waker::from(Arc::clone(&event)), event })
    }

    /// Returns the waker, which from here on ends the next [`PushEvent::wait`].
    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Waits for input, for a wake or for the timeout. Returns true if there is something to receive.
    pub(super) fn wait(&self, socket: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
        let timeout = Timespec::try_from(timeout).map_err(|_| io::ErrorKind::InvalidInput)?;
        let event = self.event.0.as_fd();
        let mut descriptors = [PollFd::new(&socket, PollFlags::IN), PollFd::new(&event, PollFlags::IN)];
        match poll(&mut descriptors, Some(&timeout)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let [input, woken] = descriptors.map(|descriptor| !descriptor.revents().is_empty());
        if woken {
            self.event.0.clear();
        }
        Ok(input)
    }
}
