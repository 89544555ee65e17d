//! The signal to every loop, task and thread of a driver to finish: a flag, and the wakers of those that sleep.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
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
    draining: AtomicBool,
    wakers: Mutex<Slab<Waker>>,
}

/// Registration of a waker, which is woken on drain until this is dropped.
#[derive(Debug)]
pub struct Registration(Arc<Inner>, usize);

impl Shutdown {
    /// Begins the drain: drivers stop accepting, answer what has been received, and close.
    pub fn drain(&self) {
        self.0.draining.store(true, Ordering::Release);
        let wakers: Vec<_> = self.0.wakers.lock().iter().map(|(_, waker)| waker.clone()).collect();
        wakers.into_iter().for_each(Waker::wake); // Outside the lock: waking may run a driver's own locks.
    }

    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Acquire)
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
