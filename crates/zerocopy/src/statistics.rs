//! Counters of the server. A request touches those of its own thread only.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use file_cache::Lookup;
use parking_lot::Mutex;
use proto::Now;
use service::Counters;

use crate::{
    fallback::{PrepareError, Reason},
    latency::Latencies,
    strategy::Strategy,
};

/// Counter of requests without a file; those before it count the others by their [`Lookup`].
const NOT_FOUND: usize = Lookup::Miss as usize + 1;
const REQUESTS: usize = NOT_FOUND + 1;
const BYTES: usize = REQUESTS + Strategy::COUNT;
const COUNTED: usize = BYTES + Strategy::COUNT;

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Statistics {
    counters: Counters<COUNTED>,
    pub(crate) latencies: Latencies,
    fallbacks: [[AtomicU64; Reason::ALL.len()]; Strategy::COUNT],
    /// Fallbacks that drivers count.
    by_drivers: [Arc<AtomicU64>; Strategy::COUNT],
    pub(crate) evictions: AtomicU64,
    rate: Mutex<Rate>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    at: Option<Instant>,
    requests: u64,
    per_second: f64,
}

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) hits: u64,
    pub(crate) revalidations: u64,
    pub(crate) misses: u64,
    pub(crate) absent: u64,
    pub(crate) by_strategy: [Sent; Strategy::COUNT],
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
}

impl Totals {
    pub(crate) fn requests(&self) -> u64 {
        self.hits + self.revalidations + self.misses + self.absent
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.by_strategy.iter().map(|sent| sent.bytes).sum()
    }
}

impl Default for Statistics {
    fn default() -> Self {
        Self {
            counters: Counters::default(),
            latencies: Latencies::default(),
            fallbacks: Default::default(),
            by_drivers: Default::default(),
            evictions: AtomicU64::new(0),
            rate: Mutex::default(),
        }
    }
}

impl Statistics {
    #[inline]
    pub(crate) fn record_lookup(&self, lookup: Lookup) {
        self.counters.add_one(lookup as usize, 1);
    }

    pub(crate) fn record_not_found(&self) {
        self.counters.add_one(NOT_FOUND, 1);
    }

    /// Counts responses to requests that were read at `now`, by the time that they took as far as the server can see.
    #[inline]
    pub(crate) fn record_latency(&self, responses: u64, now: Now) {
        self.latencies.record(now.instant.elapsed(), responses);
    }

    /// Counts a body that has been queued.
    #[inline]
    pub(crate) fn record_sent(&self, strategy: Strategy, bytes: u64) {
        self.counters.add_one(REQUESTS + strategy as usize, 1);
        self.counters.add_one(BYTES + strategy as usize, bytes);
    }

    pub(crate) fn record_fallback(&self, from: Strategy, reason: Reason) {
        self.fallbacks[from as usize][reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn record_error(&self, from: Strategy, error: PrepareError) {
        match error {
            PrepareError::Fallback(reason) => self.record_fallback(from, reason),
            // It is sent as a file until the next check; no resource was missing.
            PrepareError::Changed => {}
        }
    }

    /// Returns the counter in which drivers count their fallbacks.
    pub(crate) fn counted_by_drivers(&self, from: Strategy) -> Arc<AtomicU64> {
        Arc::clone(&self.by_drivers[from as usize])
    }

    pub(crate) fn fallbacks(&self, from: Strategy, reason: Reason) -> u64 {
        let counted = self.fallbacks[from as usize][reason as usize].load(Ordering::Relaxed);
        // A driver lacks pages for what is written from a mapping, and pipes for all else.
        let of_drivers = if from == Strategy::MmapWrite { Reason::Mapping } else { Reason::Scratch };
        let by_drivers = if reason == of_drivers { self.by_drivers[from as usize].load(Ordering::Relaxed) } else { 0 };
        counted + by_drivers
    }

    pub(crate) fn totals(&self) -> Totals {
        let sums = self.counters.sum();
        let sent = |at: usize| Sent { requests: sums[REQUESTS + at], bytes: sums[BYTES + at] };
        Totals {
            hits: sums[Lookup::Hit as usize],
            revalidations: sums[Lookup::Revalidated as usize],
            misses: sums[Lookup::Miss as usize],
            absent: sums[NOT_FOUND],
            by_strategy: std::array::from_fn(sent),
        }
    }

    /// Computes the rate of requests, at most once a second however often it is called.
    pub(crate) fn tick(&self, now: Instant) {
        let requests = self.totals().requests();
        let mut rate = self.rate.lock();
        let since = rate.at.map(|at| now.saturating_duration_since(at));
        if since.is_some_and(|since| since < TICK) {
            return;
        }
        if let Some(since) = since {
            rate.per_second = (requests - rate.requests.min(requests)) as f64 / since.as_secs_f64();
        }
        (rate.at, rate.requests) = (Some(now), requests);
        self.latencies.tick();
    }

    /// Rate of requests over the last second that is complete.
    pub(crate) fn per_second(&self) -> f64 {
        self.rate.lock().per_second
    }
}

/// Second between two ticks, less what a timer may be early.
const TICK: Duration = Duration::from_millis(990);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_rates_follow_from_the_counts() {
        let statistics = Statistics::default();
        let now = Now { instant: Instant::now(), unix: Duration::ZERO };
        statistics.tick(now.instant);
        for lookup in [Lookup::Hit, Lookup::Hit, Lookup::Revalidated, Lookup::Miss] {
            statistics.record_lookup(lookup);
        }
        statistics.record_not_found();
        statistics.record_latency(5, now);
        statistics.record_sent(Strategy::Pipe, 10);
        statistics.record_sent(Strategy::Pipe, 5);
        statistics.record_fallback(Strategy::Pipe, Reason::Kernel);
        statistics.counted_by_drivers(Strategy::Vmsplice).fetch_add(3, Ordering::Relaxed);
        statistics.counted_by_drivers(Strategy::MmapWrite).fetch_add(2, Ordering::Relaxed);
        statistics.tick(now.instant + Duration::from_secs(2));

        let totals = statistics.totals();
        assert_eq!((totals.hits, totals.revalidations, totals.misses, totals.requests()), (2, 1, 1, 5));
        let pipe = totals.by_strategy[Strategy::Pipe as usize];
        assert_eq!((pipe.requests, pipe.bytes, totals.bytes()), (2, 15, 15));
        assert!((statistics.per_second() - 2.5).abs() < 1e-9);
        assert_eq!(statistics.fallbacks(Strategy::Pipe, Reason::Kernel), 1);
        assert_eq!(statistics.fallbacks(Strategy::Vmsplice, Reason::Scratch), 3);
        assert_eq!(statistics.fallbacks(Strategy::MmapWrite, Reason::Mapping), 2);
        assert_eq!(statistics.latencies.all().count, 5);
    }
}
