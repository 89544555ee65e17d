//! Counters of each thread, added up only when they are read.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use parking_lot::Mutex;

/// The counters of one thread, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ThreadCounters {
    accepted: AtomicU64,
    refused: AtomicU64,
    closed: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

/// Counts since the start of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections accepted. One counts here or among the refused, never in both.
    pub accepted: u64,
    /// Connections refused: too many, no descriptor or thread left, or no room in a queue.
    pub refused: u64,
    pub closed: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

impl Counts {
    /// Connections open now.
    pub fn open(&self) -> u64 {
        self.accepted.saturating_sub(self.closed)
    }
}

/// Adds up what the threads of a driver count.
#[derive(Clone, Debug, Default)]
pub struct Statistics(Arc<Mutex<Vec<Arc<ThreadCounters>>>>);

impl Statistics {
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for counters in self.0.lock().iter() {
            sum.accepted += counters.accepted.load(Relaxed);
            sum.refused += counters.refused.load(Relaxed);
            sum.closed += counters.closed.load(Relaxed);
            sum.bytes_in += counters.bytes_in.load(Relaxed);
            sum.bytes_out += counters.bytes_out.load(Relaxed);
        }
        sum
    }

    /// Counters for one more thread, or for one more kind of short-lived ones.
    pub fn register(&self) -> Arc<ThreadCounters> {
        let counters = Arc::<ThreadCounters>::default();
        self.0.lock().push(Arc::clone(&counters));
        counters
    }
}

/// Counts of one turn of a loop, made without a bus lock and published at its end.
#[derive(Debug, Default)]
pub struct Tally(pub Counts);

impl Tally {
    pub fn publish(&mut self, counters: &ThreadCounters) {
        let Counts { accepted, refused, closed, bytes_in, bytes_out } = std::mem::take(&mut self.0);
        for (counter, n) in [
            (&counters.accepted, accepted),
            (&counters.refused, refused),
            (&counters.closed, closed),
            (&counters.bytes_in, bytes_in),
            (&counters.bytes_out, bytes_out),
        ] {
            if n > 0 {
                counter.fetch_add(n, Relaxed);
            }
        }
    }
}
