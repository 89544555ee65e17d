//! What the progress display knows of latencies: a coarse histogram per thread, which only that thread writes.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Nanos;

/// Each doubling of the latency has this many buckets: they are at most 6 % wide.
const BUCKETS_PER_DOUBLING: usize = 16;
/// 2^36 ns is a minute.
const DOUBLINGS: usize = 33;
const BUCKETS: usize = BUCKETS_PER_DOUBLING * (DOUBLINGS + 1);

/// Counters that one thread adds to and others look at. Relaxed loads and stores, no locked instruction.
#[derive(Debug)]
pub(super) struct Pulse {
    buckets: Box<[AtomicU64; BUCKETS]>,
    failed: AtomicU64,
}

impl Default for Pulse {
    fn default() -> Self {
        Self { buckets: Box::new([const { AtomicU64::new(0) }; BUCKETS]), failed: AtomicU64::new(0) }
    }
}

impl Pulse {
    /// By the thread that owns it.
    #[inline]
    pub(super) fn answered(&self, latency: Nanos, count: u64) {
        add(&self.buckets[bucket(latency)], count);
    }

    /// By the thread that owns it.
    #[inline]
    pub(super) fn failed(&self, count: u64) {
        add(&self.failed, count);
    }

    pub(super) fn add_to(&self, reading: &mut LiveReading) {
        reading.failed += self.failed.load(Ordering::Relaxed);
        for (sum, part) in reading.buckets.iter_mut().zip(self.buckets.iter()) {
            *sum += part.load(Ordering::Relaxed);
        }
    }
}

/// There is one writer, so nothing is lost between load and store.
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

/// The upper edge of a bucket.
#[expect(clippy::cast_precision_loss, reason = "a display shows two digits")]
fn upper_edge(bucket: usize) -> f64 {
    let (doubling, in_doubling) = (bucket / BUCKETS_PER_DOUBLING, bucket % BUCKETS_PER_DOUBLING);
    match doubling {
        0 => (in_doubling + 1) as f64,
        _ => ((BUCKETS_PER_DOUBLING + in_doubling + 1) as f64) * (1_u64 << (doubling - 1)) as f64,
    }
}

/// All threads at one moment, the warm-up included.
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

    /// What has happened since an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let pairs = self.buckets.iter().zip(&earlier.buckets);
        Self {
            buckets: pairs.map(|(now, then)| now.saturating_sub(*then)).collect(),
            failed: self.failed.saturating_sub(earlier.failed),
        }
    }

    /// Microseconds, up to 7 % too high; `None` if nothing was answered.
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

    /// Microseconds, as if what is in a bucket lay evenly there; `None` if nothing was answered.
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

    fn read(pulse: &Pulse) -> LiveReading {
        let mut reading = LiveReading::default();
        pulse.add_to(&mut reading);
        reading
    }

    #[test]
    fn every_latency_lies_below_its_buckets_edge_and_near_it() {
        let latencies = (0..36).flat_map(|log| [1_u64 << log, (1 << log) + (1 << log) / 3, (2 << log) - 1]);
        for latency in latencies {
            let edge = upper_edge(bucket(latency));
            assert!(edge > latency as f64 && edge <= latency as f64 * 1.07 + 1.0, "{latency}: {edge}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert!((0..BUCKETS - 1).all(|bucket| upper_edge(bucket) < upper_edge(bucket + 1)));
    }

    #[test]
    fn a_difference_has_only_what_came_between() {
        let pulse = Pulse::default();
        pulse.answered(1_000, 50);
        let earlier = read(&pulse);
        pulse.answered(2_000_000, 99);
        pulse.answered(50_000_000, 1);
        pulse.failed(3);
        let between = read(&pulse).since(&earlier);
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
        let pulse = Pulse::default();
        (1_000_000..1_400_000).step_by(100).for_each(|latency| pulse.answered(latency, 1));
        let reading = read(&pulse);
        for share in [0.1, 0.25, 0.5, 0.51, 0.9] {
            let (found, expected) = (reading.interpolated_us(share).expect("answered"), 1_000.0 + 400.0 * share);
            assert!((found / expected - 1.0).abs() < 0.01, "{share}: {found}, {expected}");
        }
    }
}
