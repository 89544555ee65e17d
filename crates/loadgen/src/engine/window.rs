//! Edges of the measured window, which all threads share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::clock::Nanos;

/// The edges of the measured window. They are set while the threads run, and compared with the time stamps of replies.
#[derive(Debug)]
pub(crate) struct Window {
    /// Beginning of the load, from which schedules count.
    origin: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
    is_stopped: AtomicBool,
}

impl Default for Window {
    fn default() -> Self {
        let never = || AtomicU64::new(Nanos::MAX);
        Self { origin: never(), start: never(), end: never(), is_stopped: AtomicBool::new(false) }
    }
}

// Relaxed is enough: each value is a time stamp of its own, nothing else is published by it, and the barrier orders
// what precedes the start.
impl Window {
    pub(crate) fn set_origin(&self, now: Nanos) {
        self.origin.store(now, Ordering::Relaxed);
    }

    pub(crate) fn origin(&self) -> Nanos {
        self.origin.load(Ordering::Relaxed)
    }

    pub(crate) fn open(&self, now: Nanos) {
        self.start.store(now, Ordering::Relaxed);
    }

    pub(crate) fn close(&self, end: Nanos) {
        self.end.store(end, Ordering::Relaxed);
    }

    /// Closes the window and tells the threads to drop what is in flight.
    pub(crate) fn stop(&self, now: Nanos) {
        self.end.fetch_min(now, Ordering::Relaxed);
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Returns how long the window has been open.
    #[inline]
    pub(crate) fn elapsed(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.start.load(Ordering::Relaxed))
    }

    /// Returns when the window ends, or [`Nanos::MAX`] as long as that is not known.
    pub(crate) fn end(&self) -> Nanos {
        self.end.load(Ordering::Relaxed)
    }

    /// Returns how long there has been load.
    pub(super) fn since_origin(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.origin())
    }

    #[inline]
    pub(crate) fn has_started(&self, time: Nanos) -> bool {
        time >= self.start.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn has_ended(&self, time: Nanos) -> bool {
        time >= self.end.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn contains(&self, time: Nanos) -> bool {
        self.has_started(time) && !self.has_ended(time)
    }

    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }
}
