//! What the server counts of its commands.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::commands::table::TABLE;

/// Buckets of a latency histogram: bucket `n` counts what took less than 2^n × 64 ns, the last one everything else.
pub const BUCKETS: usize = 28;

/// One command's figures.
#[derive(Debug, Default)]
pub struct CommandStatistics {
    pub calls: AtomicU64,
    /// Answered with an error.
    pub failed: AtomicU64,
    pub time_ns: AtomicU64,
    pub buckets: [AtomicU64; BUCKETS],
}

/// Figures of all commands, by their numbers in the table.
#[derive(Debug)]
pub struct Statistics(Box<[CommandStatistics]>);

impl Default for Statistics {
    fn default() -> Self {
        Self(TABLE.iter().map(|_| CommandStatistics::default()).collect())
    }
}

impl Statistics {
    pub fn of(&self, number: usize) -> &CommandStatistics {
        &self.0[number]
    }

    pub(crate) fn command(&self, number: usize, time: Duration, succeeded: bool) {
        self.0[number].add(1, time);
        if !succeeded {
            self.0[number].failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// `count` commands of a batch; each is given an equal part of its time.
    pub(crate) fn batch(&self, number: usize, count: u64, each: Duration) {
        if count > 0 {
            self.0[number].add(count, each);
        }
    }

    pub(crate) fn reset(&self) {
        self.0.iter().for_each(CommandStatistics::reset);
    }
}

impl CommandStatistics {
    fn add(&self, count: u64, each: Duration) {
        let ns = u64::try_from(each.as_nanos()).unwrap_or(u64::MAX);
        self.calls.fetch_add(count, Ordering::Relaxed);
        self.time_ns.fetch_add(ns.saturating_mul(count), Ordering::Relaxed);
        let bucket = (u64::BITS - (ns >> 6).leading_zeros()) as usize;
        self.buckets[bucket.min(BUCKETS - 1)].fetch_add(count, Ordering::Relaxed);
    }

    fn reset(&self) {
        let Self { calls, failed, time_ns, buckets } = self;
        [calls, failed, time_ns].into_iter().chain(buckets).for_each(|counter| counter.store(0, Ordering::Relaxed));
    }
}
