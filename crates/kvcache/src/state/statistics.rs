//! Figures that the server counts of its commands, by their numbers.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::command_table::{CommandName, MEMCACHED_FIRST, command_names};

/// Number of buckets of a latency histogram: bucket `n` counts calls of less than 2^n × 64 ns, the last one all others.
pub(crate) const BUCKETS: usize = 28;
/// Number of buckets of batch sizes: bucket `n` counts batches of 2^n commands and more, the last one everything above, too.
pub(crate) const BATCH_BUCKETS: usize = 16;

/// Figures of one command.
#[derive(Debug, Default)]
pub(crate) struct CommandStatistics {
    pub calls: AtomicU64,
    /// Calls answered with an error.
    pub failed: AtomicU64,
    /// Calls refused before they ran.
    pub rejected: AtomicU64,
    pub time_ns: AtomicU64,
    pub buckets: [AtomicU64; BUCKETS],
}

/// Figures of all commands, by their numbers.
#[derive(Debug)]
pub(crate) struct Statistics {
    commands: Box<[CommandStatistics]>,
    batches: [AtomicU64; BATCH_BUCKETS],
    /// Error replies, by their class, which is their first word.
    errors: Mutex<BTreeMap<String, u64>>,
    perf: Mutex<PerfBaseline>,
}

/// Figures that PERF subtracts: those of its last reset.
#[derive(Debug)]
struct PerfBaseline {
    since: Instant,
    /// Readings by number of the command; empty: nothing had been called.
    readings: Vec<CommandReading>,
    batches: [u64; BATCH_BUCKETS],
}

/// Figures since PERF RESET.
#[derive(Clone, Debug)]
pub(crate) struct PerfReport {
    pub period: Duration,
    pub commands: Vec<(CommandName, CommandReading)>,
    pub batches: [u64; BATCH_BUCKETS],
}

/// Figures of one command at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CommandReading {
    pub calls: u64,
    pub failed: u64,
    pub rejected: u64,
    pub time_ns: u64,
    pub buckets: [u64; BUCKETS],
}

impl Default for Statistics {
    fn default() -> Self {
        Self {
            commands: command_names().map(|_| CommandStatistics::default()).collect(),
            batches: Default::default(),
            errors: Mutex::default(),
            perf: Mutex::new(PerfBaseline::new()),
        }
    }
}

impl PerfBaseline {
    fn new() -> Self {
        Self { since: Instant::now(), readings: Vec::new(), batches: [0; BATCH_BUCKETS] }
    }
}

impl Statistics {
    /// Returns the figures of all commands that have been called or refused.
    pub(crate) fn readings(&self) -> impl Iterator<Item = (CommandName, CommandReading)> {
        let commands = command_names().zip(&self.commands).map(|(command, figures)| (command, figures.read()));
        commands.filter(|(_, reading)| reading.calls + reading.rejected > 0)
    }

    /// Number of calls of all commands.
    pub(crate) fn calls(&self) -> u64 {
        self.commands.iter().map(|command| command.calls.load(Relaxed)).sum()
    }

    /// Counts one call.
    pub(crate) fn add_call(&self, number: usize, time: Duration, succeeded: bool) {
        self.commands[number].add(1, time);
        if !succeeded {
            self.add_failure(number);
        }
    }

    /// Counts a command of a [`Statistics::add_batch`] that was answered with an error.
    #[cold]
    pub(crate) fn add_failure(&self, number: usize) {
        self.commands[number].failed.fetch_add(1, Relaxed);
    }

    /// Counts a command that was refused before it ran.
    pub(crate) fn add_rejection(&self, number: usize) {
        self.commands[number].rejected.fetch_add(1, Relaxed);
    }

    /// Counts an error reply, its class first.
    pub(crate) fn add_error(&self, text: &str) {
        let class = text.split(' ').next().unwrap_or_default();
        let mut errors = self.errors.lock();
        match errors.get_mut(class) {
            Some(count) => *count += 1,
            None => {
                errors.insert(class.to_owned(), 1);
            }
        }
    }

    /// Returns the numbers of error replies by class.
    pub(crate) fn errors_by_class(&self) -> Vec<(String, u64)> {
        self.errors.lock().iter().map(|(class, count)| (class.clone(), *count)).collect()
    }

    /// Counts `count` commands of a batch; each is given an equal part of its time.
    pub(crate) fn add_batch(&self, number: usize, count: u64, each: Duration) {
        if count > 0 {
            self.commands[number].add(count, each);
        }
    }

    /// Counts a batch of so many commands.
    pub(crate) fn add_batch_size(&self, commands: u64) {
        if let Some(log) = commands.checked_ilog2() {
            self.batches[(log as usize).min(BATCH_BUCKETS - 1)].fetch_add(1, Relaxed);
        }
    }

    /// Returns the numbers of batches by size.
    pub(crate) fn batches(&self) -> [u64; BATCH_BUCKETS] {
        std::array::from_fn(|bucket| self.batches[bucket].load(Relaxed))
    }

    /// Returns what has been counted since [`Statistics::reset_perf`].
    pub(crate) fn perf_report(&self) -> PerfReport {
        let perf = self.perf.lock();
        let now = command_names().zip(&self.commands).enumerate();
        let since = now.map(|(number, (command, figures))| {
            let reading = figures.read();
            (command, perf.readings.get(number).map_or(reading, |before| reading.since(before)))
        });
        let batches = self.batches();
        PerfReport {
            period: perf.since.elapsed(),
            commands: since.filter(|(_, reading)| reading.calls > 0).collect(),
            batches: std::array::from_fn(|bucket| batches[bucket].saturating_sub(perf.batches[bucket])),
        }
    }

    /// Makes PERF begin anew; the counters go on.
    pub(crate) fn reset_perf(&self) {
        let readings = self.commands.iter().map(CommandStatistics::read).collect();
        *self.perf.lock() = PerfBaseline { since: Instant::now(), readings, batches: self.batches() };
    }

    pub(crate) fn reset(&self) {
        self.commands.iter().for_each(CommandStatistics::reset);
        self.batches.iter().for_each(|bucket| bucket.store(0, Relaxed));
        self.errors.lock().clear();
        *self.perf.lock() = PerfBaseline::new();
    }

    /// Resets the figures of memcached's commands.
    pub(crate) fn reset_memcached(&self) {
        self.commands[MEMCACHED_FIRST..].iter().for_each(CommandStatistics::reset);
        // PERF would subtract figures that are no more.
        if let Some(before) = self.perf.lock().readings.get_mut(MEMCACHED_FIRST..) {
            before.fill(CommandReading::default());
        }
    }
}

impl CommandStatistics {
    #[inline]
    fn add(&self, count: u64, each: Duration) {
        let ns = u64::try_from(each.as_nanos()).unwrap_or(u64::MAX);
        self.calls.fetch_add(count, Relaxed);
        self.time_ns.fetch_add(ns.saturating_mul(count), Relaxed);
        let bucket = (u64::BITS - (ns >> 6).leading_zeros()) as usize;
        self.buckets[bucket.min(BUCKETS - 1)].fetch_add(count, Relaxed);
    }

    fn read(&self) -> CommandReading {
        CommandReading {
            calls: self.calls.load(Relaxed),
            failed: self.failed.load(Relaxed),
            rejected: self.rejected.load(Relaxed),
            time_ns: self.time_ns.load(Relaxed),
            buckets: std::array::from_fn(|bucket| self.buckets[bucket].load(Relaxed)),
        }
    }

    fn reset(&self) {
        let Self { calls, failed, rejected, time_ns, buckets } = self;
        [calls, failed, rejected, time_ns].into_iter().chain(buckets).for_each(|counter| counter.store(0, Relaxed));
    }
}

impl CommandReading {
    /// Returns the difference from an earlier reading.
    fn since(&self, before: &Self) -> Self {
        Self {
            calls: self.calls.saturating_sub(before.calls),
            failed: self.failed.saturating_sub(before.failed),
            rejected: self.rejected.saturating_sub(before.rejected),
            time_ns: self.time_ns.saturating_sub(before.time_ns),
            buckets: std::array::from_fn(|bucket| self.buckets[bucket].saturating_sub(before.buckets[bucket])),
        }
    }

    /// Returns the nanoseconds that a share of the calls took at most, as the upper edge of a bucket.
    pub(crate) fn percentile_ns(&self, share: f64) -> u64 {
        let total: u64 = self.buckets.iter().sum();
        let wanted = ((total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.buckets.iter().position(|&count| {
            seen += count;
            seen >= wanted
        });
        upper_ns(found.unwrap_or(0))
    }

    /// Returns the nanoseconds per call.
    pub(crate) fn mean_ns(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.time_ns as f64 / self.calls as f64 }
    }
}

/// Returns the upper edge of a bucket, in nanoseconds; the last one has none in truth.
pub(crate) fn upper_ns(bucket: usize) -> u64 {
    64 << bucket
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_table::{MemcachedVerb, TABLE, UsVerb};

    #[test]
    fn percentiles_are_upper_edges_of_buckets() {
        let statistics = Statistics::default();
        statistics.add_batch(0, 98, Duration::from_nanos(63));
        statistics.add_batch(0, 1, Duration::from_nanos(64));
        statistics.add_call(0, Duration::from_secs(3600), false);
        let (command, reading) = statistics.readings().next().unwrap();
        assert_eq!((command.name, reading.calls, reading.failed), (TABLE[0].name, 100, 1));
        assert_eq!([0.5, 0.98, 0.99].map(|share| reading.percentile_ns(share)), [64, 64, 128]);
        assert_eq!(reading.percentile_ns(1.0), upper_ns(BUCKETS - 1));
        statistics.reset();
        assert_eq!((statistics.readings().count(), statistics.calls()), (0, 0));
    }

    #[test]
    fn resetting_memcached_leaves_other_protocols_alone() {
        let statistics = Statistics::default();
        let names = |statistics: &Statistics| -> Vec<String> {
            statistics.perf_report().commands.iter().map(|(command, _)| command.to_string()).collect()
        };
        statistics.reset_perf();
        statistics.add_batch(UsVerb::Set.number(), 2, Duration::ZERO);
        statistics.add_batch(MemcachedVerb::Set.number(), 3, Duration::ZERO);
        assert_eq!(names(&statistics), ["us|set", "memcached|set"]);
        statistics.reset_perf();
        statistics.reset_memcached();
        statistics.add_batch(MemcachedVerb::Set.number(), 1, Duration::ZERO);
        assert_eq!(names(&statistics), ["memcached|set"]);
        assert_eq!(statistics.calls(), 3);
    }

    #[test]
    fn errors_are_counted_by_their_first_word() {
        let statistics = Statistics::default();
        ["ERR a", "NOAUTH b", "ERR c"].into_iter().for_each(|text| statistics.add_error(text));
        assert_eq!(statistics.errors_by_class(), [("ERR".to_owned(), 2), ("NOAUTH".to_owned(), 1)]);
    }
}
