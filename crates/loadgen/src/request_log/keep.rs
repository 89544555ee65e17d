//! Two ways to keep a bounded number of things from a stream of any length.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use serde::{Deserialize, Serialize};

/// Something, and what decides whether it is kept.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Ranked<T> {
    pub(super) rank: u64,
    pub(super) thing: T,
}

impl<T> PartialEq for Ranked<T> {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl<T> Eq for Ranked<T> {}

impl<T> PartialOrd for Ranked<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Ranked<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank.cmp(&other.rank)
    }
}

/// Keeps those of the highest rank. With random ranks that is a reservoir: a sample in which each has the same chance,
/// and the best of several such samples are a sample of everything.
#[derive(Debug)]
pub(super) struct Highest<T> {
    size: usize,
    heap: BinaryHeap<Reverse<Ranked<T>>>,
}

impl<T> Highest<T> {
    /// Of `size` things at most.
    pub(super) fn new(size: usize) -> Self {
        Self { size, heap: BinaryHeap::new() }
    }

    #[inline]
    pub(super) fn offer(&mut self, rank: u64, thing: T) {
        if self.heap.len() < self.size {
            return self.heap.push(Reverse(Ranked { rank, thing }));
        }
        if let Some(mut lowest) = self.heap.peek_mut()
            && rank > lowest.0.rank
        {
            *lowest = Reverse(Ranked { rank, thing });
        }
    }

    /// In no order.
    pub(super) fn into_ranked(self) -> Vec<Ranked<T>> {
        self.heap.into_iter().map(|Reverse(ranked)| ranked).collect()
    }
}

/// Keeps the last ones; a rank tells which of two streams' things comes later.
#[derive(Debug)]
pub(super) struct Ring<T> {
    size: usize,
    things: VecDeque<Ranked<T>>,
}

impl<T> Ring<T> {
    /// Of `size` things at most.
    pub(super) fn new(size: usize) -> Self {
        Self { size, things: VecDeque::new() }
    }

    #[inline]
    pub(super) fn push(&mut self, rank: u64, thing: T) {
        if self.things.len() == self.size {
            self.things.pop_front();
        }
        self.things.push_back(Ranked { rank, thing });
    }

    /// Oldest first.
    pub(super) fn into_ranked(self) -> Vec<Ranked<T>> {
        self.things.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(length: u64, size: usize, rng: &mut fastrand::Rng) -> Vec<u64> {
        let mut reservoir = Highest::new(size);
        (0..length).for_each(|number| reservoir.offer(rng.u64(..), number));
        reservoir.into_ranked().into_iter().map(|ranked| ranked.thing).collect()
    }

    /// Each of 100 things is in a sample of 10 with a chance of 0.1; over 5,000 samples it is in 500, give or take 21. The sum
    /// over all things of (found - 500)² / (500 · 0.9) has the law of chi-square with 99 degrees of freedom, mean 99 and
    /// deviation 14, since a sample without repetition has 0.9 of the variance that independent draws would have, and
    /// the counts of all things have a known sum.
    #[test]
    fn every_place_in_the_stream_has_the_same_chance() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut found = [0_u32; 100];
        for _ in 0..5_000 {
            let sample = sample(100, 10, &mut rng);
            assert_eq!(sample.len(), 10);
            sample.iter().for_each(|&number| found[number as usize] += 1);
        }
        let chi_square: f64 = found.iter().map(|&count| (f64::from(count) - 500.0).powi(2) / 450.0).sum::<f64>();
        assert!((50.0..150.0).contains(&chi_square), "{chi_square}: {found:?}");
    }

    #[test]
    fn the_highest_of_two_streams_are_the_highest_of_each() {
        let mut rng = fastrand::Rng::with_seed(3);
        let ranks: Vec<u64> = (0..1_000).map(|_| rng.u64(..)).collect();
        let kept = |ranks: &[u64]| {
            let mut highest = Highest::new(20);
            ranks.iter().for_each(|&rank| highest.offer(rank, ()));
            let mut ranks: Vec<_> = highest.into_ranked().into_iter().map(|ranked| ranked.rank).collect();
            ranks.sort_unstable_by_key(|&rank| Reverse(rank));
            ranks
        };
        let mut both = [kept(&ranks[..300]), kept(&ranks[300..])].concat();
        both.sort_unstable_by_key(|&rank| Reverse(rank));
        both.truncate(20);
        assert_eq!(both, kept(&ranks));
    }

    #[test]
    fn a_ring_holds_exactly_the_last() {
        for length in [0, 1, 4, 5, 6, 23] {
            let mut ring = Ring::new(5);
            (0..length).for_each(|number| ring.push(number, number));
            let held: Vec<_> = ring.into_ranked().into_iter().map(|ranked| ranked.thing).collect();
            assert_eq!(held, (length.saturating_sub(5)..length).collect::<Vec<_>>());
        }
    }
}
