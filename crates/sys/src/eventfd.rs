//! A counter that one thread bumps to wake another's event loop (eventfd(2)).

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
    task::Wake,
};

use rustix::event::{EventfdFlags, eventfd};

#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    pub fn poke(&self) {
        // It fails only when the counter is full, and then the other side has been poked.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    pub fn clear(&self) {
        // It fails only when nobody has poked.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl Wake for EventFd {
    fn wake(self: Arc<Self>) {
        self.poke();
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
