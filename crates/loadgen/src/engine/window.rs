//! What the threads share: the edges of the measured window, and counters for the progress display.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::live::{LiveReading, Pulse};
use crate::{clock::Nanos, protocol::Verdict};

/// The edges of the measured window. They are set while the threads run, and compared with the time stamps of replies.
#[derive(Debug)]
pub(crate) struct Window {
    /// Schedules start here.
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

    /// How long the window has been open.
    #[inline]
    pub(crate) fn elapsed(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.start.load(Ordering::Relaxed))
    }

    /// How long there has been load.
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

/// Progress of a run, updated by each thread once per wake.
#[derive(Debug)]
pub struct LiveStats {
    threads: Box<[LiveThread]>,
}

/// A cache line of its own, so that the threads do not slow each other.
#[derive(Debug, Default)]
#[repr(align(128))]
struct LiveThread {
    ok: AtomicU64,
    failed: AtomicU64,
    pulse: Pulse,
}

impl LiveStats {
    pub(crate) fn new(threads: usize) -> Self {
        Self { threads: (0..threads).map(|_| LiveThread::default()).collect() }
    }

    pub(crate) fn set(&self, thread: usize, ok: u64, failed: u64) {
        self.threads[thread].ok.store(ok, Ordering::Relaxed);
        self.threads[thread].failed.store(failed, Ordering::Relaxed);
    }

    /// `count` requests of a thread got this verdict, counted or not.
    #[inline]
    pub(crate) fn settled(&self, thread: usize, verdict: Verdict, count: u64, latency: Nanos) {
        let pulse = &self.threads[thread].pulse;
        match verdict {
            Ok(()) => pulse.answered(latency, count),
            Err(_) => pulse.failed(count),
        }
    }

    /// Everything that was settled so far, the warm-up included.
    #[must_use]
    pub fn read(&self) -> LiveReading {
        let mut reading = LiveReading::default();
        self.threads.iter().for_each(|thread| thread.pulse.add_to(&mut reading));
        reading
    }

    /// Verified and failed requests inside the window so far.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        self.threads.iter().fold((0, 0), |(ok, failed), thread| {
            (ok + thread.ok.load(Ordering::Relaxed), failed + thread.failed.load(Ordering::Relaxed))
        })
    }
}
