//! Pauses between the requests of one connection, as people make them.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use rand::{SeedableRng as _, rngs::SmallRng};
use rand_distr::{Distribution as _, Normal};

use super::pace::first_of;
use crate::clock::{self, Nanos};

/// Pauses of the original fileserver's client (see `docs/originals.md`): normally distributed, and a draw that is not
/// positive becomes the sum of the mean and its absolute value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pause {
    pub mean: Duration,
    pub stddev: Duration,
}

impl Pause {
    /// Draws a pause, in nanoseconds.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a pause is not that precise, and not negative"
    )]
    fn draw(self, rng: &mut SmallRng) -> Nanos {
        let (mean, stddev) = (clock::nanos(self.mean) as f64, clock::nanos(self.stddev) as f64);
        // Refused are only deviations that a `Duration` cannot be.
        let drawn = Normal::new(mean, stddev).map_or(mean, |normal| normal.sample(rng));
        (if drawn > 0.0 { drawn } else { mean - drawn }) as Nanos
    }
}

/// Pauses that are under way. Every connection draws from a source of its own.
#[derive(Debug)]
pub(super) struct Pauses {
    pause: Pause,
    sources: Vec<SmallRng>,
    /// Ends of pauses, and the slots that pause.
    ends: BinaryHeap<Reverse<(Nanos, usize)>>,
}

impl Pauses {
    /// Makes the pauses of the connections of `thread` among `threads`, of `connections` in all.
    pub(super) fn new(pause: Pause, seed: u64, connections: usize, thread: usize, threads: usize) -> Self {
        let own = first_of(connections as u64, thread, threads)..first_of(connections as u64, thread + 1, threads);
        let source = |connection| SmallRng::seed_from_u64(seed.rotate_left(32) ^ connection);
        Self { pause, sources: own.map(source).collect(), ends: BinaryHeap::new() }
    }

    /// Draws a pause for `slot`. Returns false if it has no length.
    pub(super) fn begin(&mut self, slot: usize, now: Nanos) -> bool {
        let pause = self.pause.draw(&mut self.sources[slot]);
        if pause > 0 {
            self.ends.push(Reverse((now.saturating_add(pause), slot)));
        }
        pause > 0
    }

    /// Returns when the next pause ends.
    pub(super) fn next_end(&self) -> Option<Nanos> {
        self.ends.peek().map(|Reverse((end, _))| *end)
    }

    /// Returns a slot whose pause is over.
    pub(super) fn pop_ended(&mut self, now: Nanos) -> Option<usize> {
        self.next_end().filter(|&end| end <= now)?;
        self.ends.pop().map(|Reverse((_, slot))| slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(mean_ms: u64, stddev_ms: u64, count: usize) -> Vec<f64> {
        let pause = Pause { mean: Duration::from_millis(mean_ms), stddev: Duration::from_millis(stddev_ms) };
        let mut rng = SmallRng::seed_from_u64(1);
        (0..count).map(|_| pause.draw(&mut rng) as f64 / 1e6).collect()
    }

    fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn pauses_have_the_mean_and_the_spread_of_their_law() {
        // Ten deviations from zero: nothing is reflected.
        let (mean, deviation) = mean_and_deviation(&drawn(100, 10, 100_000));
        assert!((mean - 100.0).abs() < 0.2 && (deviation - 10.0).abs() < 0.2, "{mean} {deviation}");
    }

    #[test]
    fn negative_pauses_are_reflected_about_half_the_mean() {
        let pauses = drawn(100, 100, 100_000);
        assert!(pauses.iter().all(|&pause| pause > 0.0));
        // E = μ + ∫ over x ≤ 0 of (μ − 2x)φ = μ(1 + Φ(−1)) − 2μΦ(−1) + 2σφ(1), with μ = σ = 100: 132.52.
        let (mean, _) = mean_and_deviation(&pauses);
        assert!((mean - 132.52).abs() < 1.0, "{mean}");
    }

    #[test]
    fn without_a_mean_and_a_deviation_there_is_no_pause() {
        let pause = Pause { mean: Duration::ZERO, stddev: Duration::ZERO };
        let mut pauses = Pauses::new(pause, 1, 3, 0, 1);
        assert!(!pauses.begin(2, 5));
        assert_eq!((pauses.next_end(), pauses.pop_ended(Nanos::MAX)), (None, None));
    }

    #[test]
    fn pauses_end_in_the_order_of_their_ends() {
        let pause = Pause { mean: Duration::from_millis(10), stddev: Duration::from_millis(5) };
        let mut pauses = Pauses::new(pause, 1, 5, 0, 1);
        assert!((0..5).all(|slot| pauses.begin(slot, 1_000)));
        assert_eq!(pauses.pop_ended(1_000), None);
        let mut ended = std::collections::BTreeSet::new();
        while let Some(end) = pauses.next_end() {
            assert_eq!(pauses.pop_ended(end - 1), None);
            ended.insert(pauses.pop_ended(end).expect("one has ended"));
        }
        assert_eq!(ended.len(), 5);
    }

    #[test]
    fn pauses_do_not_depend_on_the_number_of_threads() {
        let pause = Pause { mean: Duration::from_millis(10), stddev: Duration::from_millis(5) };
        let ends = |threads: usize| -> Vec<Nanos> {
            let of = |thread| {
                let mut pauses = Pauses::new(pause, 7, 5, thread, threads);
                (0..pauses.sources.len()).for_each(|slot| assert!(pauses.begin(slot, 0)));
                let mut ends = Vec::new();
                while let Some(end) = pauses.next_end() {
                    ends.push(end);
                    pauses.pop_ended(end);
                }
                ends
            };
            let mut all: Vec<_> = (0..threads).flat_map(of).collect();
            all.sort_unstable();
            all
        };
        assert_eq!(ends(1), ends(2));
        assert_eq!(ends(1).len(), 5);
    }
}
