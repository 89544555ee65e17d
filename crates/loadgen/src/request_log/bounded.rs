//! Two ways to keep a bounded number of items of a stream of any length.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use serde::{Deserialize, Serialize};

/// An item, with the rank that decides if it is kept.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Ranked<T> {
    pub(super) rank: u64,
    pub(super) item: T,
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

/// The items of the highest rank. With random ranks that is a reservoir: a sample in which each item has the same chance. The highest
/// of several such samples are a sample of everything.
#[derive(Debug)]
pub(super) struct TopRanked<T> {
    size: usize,
    heap: BinaryHeap<Reverse<Ranked<T>>>,
}

impl<T> TopRanked<T> {
    /// Makes room for `size` items.
    pub(super) fn new(size: usize) -> Self {
        Self { size, heap: BinaryHeap::new() }
    }

    #[inline]
    pub(super) fn offer(&mut self, rank: u64, item: T) {
        if self.heap.len() < self.size {
            return self.heap.push(Reverse(Ranked { rank, item }));
        }
        if let Some(mut lowest) = self.heap.peek_mut()
            && rank > lowest.0.rank
        {
            *lowest = Reverse(Ranked { rank, item });
        }
    }

    /// Returns the items in no order.
    pub(super) fn into_ranked(self) -> Vec<Ranked<T>> {
        self.heap.into_iter().map(|Reverse(ranked)| ranked).collect()
    }
}

/// The last items. Ranks order the items of several streams.
#[derive(Debug)]
pub(super) struct LastItems<T> {
    size: usize,
    items: VecDeque<Ranked<T>>,
}

impl<T> LastItems<T> {
    /// Makes room for `size` items.
    pub(super) fn new(size: usize) -> Self {
        Self { size, items: VecDeque::new() }
    }

    #[inline]
    pub(super) fn push(&mut self, rank: u64, item: T) {
        if self.items.len() == self.size {
            self.items.pop_front();
        }
        self.items.push_back(Ranked { rank, item });
    }

    /// Returns the items, oldest first.
    pub(super) fn into_ranked(self) -> Vec<Ranked<T>> {
        self.items.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(length: u64, size: usize, rng: &mut fastrand::Rng) -> Vec<u64> {
        let mut reservoir = TopRanked::new(size);
        (0..length).for_each(|number| reservoir.offer(rng.u64(..), number));
        reservoir.into_ranked().into_iter().map(|ranked| ranked.item).collect()
    }

    /// Each of 100 items is in a sample of 10 with a chance of 0.1; over 5,000 samples it is in 500, give or take 21. The sum
    /// over all items of (found - 500)² / (500 · 0.9) has the law of chi-square with 99 degrees of freedom, mean 99 and
    /// deviation 14, since a sample without repetition has 0.9 of the variance that independent draws would have, and
    /// the counts of all items have a known sum.
    #[test]
    fn every_item_of_a_stream_has_the_same_chance() {
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
            let mut highest = TopRanked::new(20);
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
    fn the_last_items_are_exactly_the_last() {
        for length in [0, 1, 4, 5, 6, 23] {
            let mut ring = LastItems::new(5);
            (0..length).for_each(|number| ring.push(number, number));
            let held: Vec<_> = ring.into_ranked().into_iter().map(|ranked| ranked.item).collect();
            assert_eq!(held, (length.saturating_sub(5)..length).collect::<Vec<_>>());
        }
    }
}
