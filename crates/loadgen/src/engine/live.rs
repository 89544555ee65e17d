//! Statistics of a run that is under way: each thread writes its own, and the main thread reads all of them.

use std::sync::atomic::{AtomicU64, Ordering};

use super::turns::TurnReport;
use crate::{clock::Nanos, protocol::RequestOutcome};

/// Number of buckets for each doubling of the latency: they are at most 6 % wide.
const BUCKETS_PER_DOUBLING: usize = 16;
/// 2^36 ns is a minute.
const DOUBLINGS: usize = 33;
const BUCKETS: usize = BUCKETS_PER_DOUBLING * (DOUBLINGS + 1);

/// Statistics of all threads, for the progress display and for a warm-up that ends by itself.
#[derive(Debug)]
pub struct LiveStats {
    threads: Box<[ThreadStats]>,
}

impl LiveStats {
    pub(crate) fn new(threads: usize) -> Self {
        Self { threads: (0..threads).map(|_| ThreadStats::default()).collect() }
    }

    /// Publishes the number of verified and failed requests that a thread has counted inside the window.
    pub(crate) fn set(&self, thread: usize, ok: u64, failed: u64) {
        self.threads[thread].counted_ok.store(ok, Ordering::Relaxed);
        self.threads[thread].counted_failed.store(failed, Ordering::Relaxed);
    }

    /// Adds `count` outcomes of a thread, whether or not they are counted in the result.
    #[inline]
    pub(crate) fn add(&self, thread: usize, outcome: RequestOutcome, count: u64, latency: Nanos) {
        let stats = &self.threads[thread];
        match outcome {
            Ok(()) => stats.add_ok(latency, count),
            Err(_) => stats.add_failed(count),
        }
    }

    /// Counts a connection that has been opened.
    pub(crate) fn add_opened(&self, thread: usize) {
        add(&self.threads[thread].opened, 1);
    }

    /// Returns the number of connections that have been opened so far.
    pub(super) fn opened(&self) -> u64 {
        self.threads.iter().map(|thread| thread.opened.load(Ordering::Relaxed)).sum()
    }

    /// Returns all outcomes so far, those of the warm-up included.
    #[must_use]
    pub fn read(&self) -> LiveReading {
        let mut reading = LiveReading::default();
        self.threads.iter().for_each(|thread| thread.add_to(&mut reading));
        reading
    }

    /// Returns the number of verified and of failed requests inside the window so far.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        self.threads.iter().fold((0, 0), |(ok, failed), thread| {
            (ok + thread.counted_ok.load(Ordering::Relaxed), failed + thread.counted_failed.load(Ordering::Relaxed))
        })
    }
}

/// Statistics that one thread writes and others read, by relaxed loads and stores and without a locked instruction. They
/// have cache lines of their own, so that the threads do not slow each other.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct ThreadStats {
    counted_ok: AtomicU64,
    counted_failed: AtomicU64,
    /// Coarse histogram of latencies.
    buckets: Box<[AtomicU64; BUCKETS]>,
    failed: AtomicU64,
    /// Connections that are kept, where they are.
    opened: AtomicU64,
}

impl Default for ThreadStats {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        let buckets = Box::new([const { AtomicU64::new(0) }; BUCKETS]);
        Self { counted_ok: zero(), counted_failed: zero(), buckets, failed: zero(), opened: zero() }
    }
}

impl ThreadStats {
    #[inline]
    pub(super) fn add_ok(&self, latency: Nanos, count: u64) {
        add(&self.buckets[bucket(latency)], count);
    }

    #[inline]
    pub(super) fn add_failed(&self, count: u64) {
        add(&self.failed, count);
    }

    pub(super) fn add_to(&self, reading: &mut LiveReading) {
        reading.failed += self.failed.load(Ordering::Relaxed);
        for (sum, part) in reading.buckets.iter_mut().zip(self.buckets.iter()) {
            *sum += part.load(Ordering::Relaxed);
        }
    }
}

/// Adds to a counter that has one writer: nothing is lost between load and store.
#[inline]
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}

#[inline]
fn bucket(latency: Nanos) -> usize {
    // Below 16 ns a bucket is a nanosecond.
    let doubling = (latency >> 4).checked_ilog2().map_or(0, |log| log + 1);
    let in_doubling = (latency >> doubling.saturating_sub(1)) as usize % BUCKETS_PER_DOUBLING;
    (doubling as usize * BUCKETS_PER_DOUBLING + in_doubling).min(BUCKETS - 1)
}

/// Returns the upper edge of a bucket, in nanoseconds.
#[expect(clippy::cast_precision_loss, reason = "a display shows two digits")]
fn upper_edge(bucket: usize) -> f64 {
    let (doubling, in_doubling) = (bucket / BUCKETS_PER_DOUBLING, bucket % BUCKETS_PER_DOUBLING);
    match doubling {
        0 => (in_doubling + 1) as f64,
        _ => ((BUCKETS_PER_DOUBLING + in_doubling + 1) as f64) * (1_u64 << (doubling - 1)) as f64,
    }
}

/// Outcomes of all threads at one moment, those of the warm-up included.
#[derive(Clone, Debug)]
pub struct LiveReading {
    buckets: Vec<u64>,
    failed: u64,
}

impl Default for LiveReading {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], failed: 0 }
    }
}

impl LiveReading {
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.buckets.iter().sum()
    }

    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// Returns the difference from an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let pairs = self.buckets.iter().zip(&earlier.buckets);
        Self {
            buckets: pairs.map(|(now, then)| now.saturating_sub(*then)).collect(),
            failed: self.failed.saturating_sub(earlier.failed),
        }
    }

    /// Returns what a turn's report says.
    pub(super) fn turn(&self) -> TurnReport {
        let quantile = |share| self.interpolated_us(share).unwrap_or(0.0);
        TurnReport { ok: self.answered(), failed: self.failed, p50_us: quantile(0.5), p99_us: quantile(0.99) }
    }

    /// Returns a quantile of the latency in microseconds, up to 7 % too high; `None` if nothing was answered.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count"
    )]
    pub fn quantile_us(&self, quantile: f64) -> Option<f64> {
        let rank = (self.answered() as f64 * quantile).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = self.buckets.iter().position(|&count| {
            seen += count;
            seen >= rank
        });
        found.map(|bucket| upper_edge(bucket) / 1e3)
    }

    /// Returns a quantile in microseconds, as if latencies lay evenly within their bucket; `None` if nothing was answered.
    #[expect(clippy::cast_precision_loss, reason = "a share of a count")]
    pub(super) fn interpolated_us(&self, quantile: f64) -> Option<f64> {
        let rank = self.answered() as f64 * quantile.clamp(0.0, 1.0);
        let mut below = 0.0;
        for (bucket, &count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = count as f64;
            if below + count >= rank {
                let lower = bucket.checked_sub(1).map_or(0.0, upper_edge);
                return Some((lower + (upper_edge(bucket) - lower) * (rank - below) / count) / 1e3);
            }
            below += count;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stats: &ThreadStats) -> LiveReading {
        let mut reading = LiveReading::default();
        stats.add_to(&mut reading);
        reading
    }

    #[test]
    fn every_latency_lies_just_below_the_edge_of_its_bucket() {
        let latencies = (0..36).flat_map(|log| [1_u64 << log, (1 << log) + (1 << log) / 3, (2 << log) - 1]);
        for latency in latencies {
            let edge = upper_edge(bucket(latency));
            assert!(edge > latency as f64 && edge <= latency as f64 * 1.07 + 1.0, "{latency}: {edge}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert!((0..BUCKETS - 1).all(|bucket| upper_edge(bucket) < upper_edge(bucket + 1)));
    }

    #[test]
    fn a_difference_holds_only_what_happened_in_between() {
        let stats = ThreadStats::default();
        stats.add_ok(1_000, 50);
        let earlier = read(&stats);
        stats.add_ok(2_000_000, 99);
        stats.add_ok(50_000_000, 1);
        stats.add_failed(3);
        let between = read(&stats).since(&earlier);
        assert_eq!((between.answered(), between.failed()), (100, 3));
        let near = |quantile, expected: f64| {
            let found = between.quantile_us(quantile).expect("answered");
            assert!(found >= expected && found < 1.07 * expected, "{found}");
        };
        near(0.5, 2_000.0);
        near(0.99, 2_000.0);
        near(1.0, 50_000.0);
        assert_eq!(earlier.since(&earlier).quantile_us(0.5), None);
        assert_eq!(earlier.since(&earlier).interpolated_us(0.5), None);
    }

    #[test]
    fn an_interpolated_quantile_is_finer_than_its_bucket() {
        let stats = ThreadStats::default();
        (1_000_000..1_400_000).step_by(100).for_each(|latency| stats.add_ok(latency, 1));
        let reading = read(&stats);
        for share in [0.1, 0.25, 0.5, 0.51, 0.9] {
            let (found, expected) = (reading.interpolated_us(share).expect("answered"), 1_000.0 + 400.0 * share);
            assert!((found / expected - 1.0).abs() < 0.01, "{share}: {found}, {expected}");
        }
    }
}
