//! The signal to every loop, task and thread of a driver to finish: a flag, and the wakers of those that sleep.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::Waker,
};

use parking_lot::Mutex;
use slab::Slab;

/// Shared by a server and the threads that may stop it.
#[derive(Clone, Debug, Default)]
pub struct Shutdown(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    stage: AtomicU8,
    wakers: Mutex<Slab<Waker>>,
}

/// Stage of a server on its way to the end, which goes one way only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Serving,
    /// Another process accepts the connections to come: no more are accepted here, and those there are get their last replies
    /// ([`proto::Session::retire`]).
    Retiring,
    /// Requests that have been received are answered, and then all connections are closed.
    Draining,
}

/// Registration of a waker, which is woken at each new stage until this is dropped.
#[derive(Debug)]
pub struct Registration(Arc<Inner>, usize);

impl Shutdown {
    /// Begins the drain: drivers stop accepting, answer what has been received, and close.
    pub fn drain(&self) {
        self.advance(Stage::Draining);
    }

    /// Leaves the connections to come to another process that listens on the same sockets. The drain follows.
    pub fn retire(&self) {
        self.advance(Stage::Retiring);
    }

    fn advance(&self, stage: Stage) {
        self.0.stage.fetch_max(stage as u8, Ordering::Release);
        let wakers: Vec<_> = self.0.wakers.lock().iter().map(|(_, waker)| waker.clone()).collect();
        wakers.into_iter().for_each(Waker::wake); // Outside the lock: waking may run a driver's own locks.
    }

    pub fn stage(&self) -> Stage {
        match self.0.stage.load(Ordering::Acquire) {
            0 => Stage::Serving,
            1 => Stage::Retiring,
            _ => Stage::Draining,
        }
    }

    pub fn is_draining(&self) -> bool {
        self.stage() == Stage::Draining
    }

    /// Registers a waker. Ask [`Shutdown::is_draining`] afterwards, or a drain in between is missed.
    pub fn register(&self, waker: Waker) -> Registration {
        Registration(Arc::clone(&self.0), self.0.wakers.lock().insert(waker))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.0.wakers.lock().remove(self.1);
    }
}
