//! State that memcached clients share: counters, unique numbers, and a delayed `flush_all`.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use proto::Now;
use store::Store;
use wire::memcached::{ITEM_OVERHEAD_BYTES, KEY_BYTES_MAX, Limits};

use super::{clients::Clients, space::Space};

/// Bits of an entry's version that hold the unique number; 0: none has been assigned. memcached's marks are above them.
pub(crate) const UNIQUE_NUMBER: u64 = (1 << 62) - 1;
/// Bytes of a request beside its value: the line, and the end of the value.
const LINE_BYTES_MAX: usize = 2048;
/// Bytes of the longest `user password` with which a connection may begin.
const CREDENTIALS_BYTES_MAX: usize = 1024;

/// State shared by all memcached clients.
#[derive(Debug)]
pub(crate) struct MemcachedState {
    pub(crate) limits: Limits,
    pub(crate) limits_before_auth: Limits,
    pub(crate) counters: Counters,
    pub(crate) numbers: UniqueNumbers,
    pub(crate) flush: DelayedFlush,
    pub(crate) started: Instant,
}

impl MemcachedState {
    pub(super) fn new(request_bytes_max: usize, item_bytes_max: usize) -> Self {
        // A request is its line and its value, and has to fit.
        let item_bytes_max = item_bytes_max.min(request_bytes_max.saturating_sub(LINE_BYTES_MAX + 2));
        let limits = Limits { item_bytes_max, line_bytes_max: LINE_BYTES_MAX, keys_line_bytes_max: request_bytes_max };
        Self {
            limits,
            limits_before_auth: Limits {
                item_bytes_max: KEY_BYTES_MAX + ITEM_OVERHEAD_BYTES + CREDENTIALS_BYTES_MAX,
                keys_line_bytes_max: LINE_BYTES_MAX,
                ..limits
            },
            counters: Counters::default(),
            numbers: UniqueNumbers::default(),
            flush: DelayedFlush::default(),
            started: Instant::now(),
        }
    }
}

/// Unique numbers assigned so far.
#[derive(Debug, Default)]
pub(crate) struct UniqueNumbers(AtomicU64);

impl UniqueNumbers {
    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn has_assigned(&self, number: u64) -> bool {
        number <= self.0.load(Ordering::Relaxed)
    }

    /// Returns the last number that has been assigned.
    pub(crate) fn last(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Skips a number that comes from a snapshot: it must not be assigned again.
    pub(crate) fn skip(&self, version: u64) {
        self.0.fetch_max(version & UNIQUE_NUMBER, Ordering::Relaxed);
    }
}

/// A `flush_all` that is to come.
#[derive(Debug)]
pub(crate) struct DelayedFlush {
    /// Milliseconds since the Unix epoch; `u64::MAX`: none is.
    at: AtomicU64,
}

impl Default for DelayedFlush {
    fn default() -> Self {
        Self { at: AtomicU64::new(u64::MAX) }
    }
}

impl DelayedFlush {
    /// Returns the time.
    pub(crate) fn scheduled(&self) -> u64 {
        self.at.load(Ordering::Relaxed)
    }

    /// Sets the time; the latest call counts.
    pub(crate) fn schedule(&self, unix_ms: u64) {
        self.at.store(unix_ms, Ordering::Relaxed);
    }

    /// Flushes if the time has come. Must be called before each batch.
    #[inline]
    pub(crate) fn run_if_due<S: Store>(&self, space: &Space<S>, clients: &Clients, now: Now) {
        let at = self.at.load(Ordering::Relaxed);
        // A script that takes long has all shards.
        if at != u64::MAX && u128::from(at) <= now.unix.as_millis() && !clients.pause.has_script() {
            self.run(space);
        }
    }

    #[cold]
    fn run<S: Store>(&self, space: &Space<S>) {
        // A script that takes all shards waits for whoever is at work; see `store::Pin`.
        let _pin = store::Pin::new();
        // Several threads may see that it is due; one of them does it.
        if self.at.swap(u64::MAX, Ordering::Relaxed) != u64::MAX {
            space.clear();
        }
    }
}

/// Total since the start, or since `stats reset`.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($name:ident)+) => {
        /// Counters that `stats` shows, by memcached's names and in its order.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)+
        }

        impl Counters {
            /// Returns names and values.
            pub(crate) fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name.get()),)+].into_iter()
            }

            pub(crate) fn reset(&self) {
                $(self.$name.0.store(0, Ordering::Relaxed);)+
            }
        }
    };
}

counters! {
    cmd_get cmd_set cmd_flush cmd_touch cmd_meta get_hits get_misses delete_misses delete_hits incr_misses incr_hits
    decr_misses decr_hits cas_misses cas_hits cas_badval touch_hits touch_misses store_too_large store_no_memory
}

impl Counters {
    pub(crate) fn add_touch(&self, is_hit: bool) {
        self.cmd_touch.add();
        if is_hit { &self.touch_hits } else { &self.touch_misses }.add();
    }

    pub(crate) fn add_delete(&self, is_hit: bool) {
        if is_hit { &self.delete_hits } else { &self.delete_misses }.add();
    }

    pub(crate) fn add_get(&self, is_hit: bool) {
        self.cmd_get.add();
        if is_hit { &self.get_hits } else { &self.get_misses }.add();
    }

    /// Counts an `incr`, or a `decr` if `is_up` is false.
    pub(crate) fn add_arithmetic(&self, is_up: bool, is_hit: bool) {
        match (is_up, is_hit) {
            (true, true) => self.incr_hits.add(),
            (true, false) => self.incr_misses.add(),
            (false, true) => self.decr_hits.add(),
            (false, false) => self.decr_misses.add(),
        }
    }
}
