//! What the server counts of its commands.
//!
//! A command has a number: RESP's come first, as they stand in their table, then those of the other protocols.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::command_table::TABLE;
use crate::protocol::memcached;
use crate::protocol::us;

/// Buckets of a latency histogram: bucket `n` counts what took less than 2^n × 64 ns, the last one everything else.
pub(crate) const BUCKETS: usize = 28;
/// Buckets of batch sizes: bucket `n` counts batches of 2^n commands and more, the last one everything above, too.
pub(crate) const BATCH_BUCKETS: usize = 16;

/// A command as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub protocol: Protocol,
    /// As its protocol calls it.
    pub name: &'static str,
}

/// Whose command it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Resp,
    Us,
    Memcached,
}

/// The commands of a protocol that has no table of them, from the first number on.
macro_rules! verbs {
    ($(#[$about:meta])* first = $first:expr; $($verb:ident = $name:literal)+) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Verb {
            $($verb,)+
        }

        impl Verb {
            pub(crate) const ALL: &[Self] = &[$(Self::$verb,)+];

            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$verb => $name,)+ }
            }

            /// Under which it is counted.
            #[inline]
            pub(crate) fn number(self) -> usize {
                $first + self as usize
            }
        }
    };
}
pub(crate) use verbs;

/// The number of the first command of the 0x1F text protocol.
pub(crate) const US_FIRST: usize = TABLE.len();
/// The number of memcached's first command.
pub(crate) const MEMCACHED_FIRST: usize = US_FIRST + us::Verb::ALL.len();

/// All that are counted, by their numbers.
fn counted() -> impl Iterator<Item = Counted> {
    let resp = TABLE.iter().map(|command| Counted { protocol: Protocol::Resp, name: command.name });
    let us = us::Verb::ALL.iter().map(|verb| Counted { protocol: Protocol::Us, name: verb.name() });
    let memcached = memcached::Verb::ALL.iter();
    let memcached = memcached.map(|verb| Counted { protocol: Protocol::Memcached, name: verb.name() });
    resp.chain(us).chain(memcached)
}

impl Protocol {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Resp => "resp",
            Self::Us => "us",
            Self::Memcached => "memcached",
        }
    }
}

/// As RESP's own commands tell it, which need no protocol in front.
impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.protocol {
            Protocol::Resp => f.write_str(self.name),
            other @ (Protocol::Us | Protocol::Memcached) => write!(f, "{}|{}", other.name(), self.name),
        }
    }
}

/// One command's figures.
#[derive(Debug, Default)]
pub(crate) struct CommandStatistics {
    pub calls: AtomicU64,
    /// Answered with an error.
    pub failed: AtomicU64,
    /// Refused before they ran.
    pub rejected: AtomicU64,
    pub time_ns: AtomicU64,
    pub buckets: [AtomicU64; BUCKETS],
}

/// Figures of all commands, by their numbers.
#[derive(Debug)]
pub(crate) struct Statistics {
    commands: Box<[CommandStatistics]>,
    batches: [AtomicU64; BATCH_BUCKETS],
    /// Error replies, by their first word.
    errors: Mutex<BTreeMap<String, u64>>,
    perf: Mutex<Baseline>,
}

/// What PERF measures from.
#[derive(Debug)]
struct Baseline {
    since: Instant,
    /// By number of the command; empty: nothing had been called.
    readings: Vec<Reading>,
    batches: [u64; BATCH_BUCKETS],
}

/// Figures since PERF RESET.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub period: Duration,
    pub commands: Vec<(Counted, Reading)>,
    pub batches: [u64; BATCH_BUCKETS],
}

/// One command's figures at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    pub calls: u64,
    pub failed: u64,
    pub rejected: u64,
    pub time_ns: u64,
    pub buckets: [u64; BUCKETS],
}

impl Default for Statistics {
    fn default() -> Self {
        Self {
            commands: counted().map(|_| CommandStatistics::default()).collect(),
            batches: Default::default(),
            errors: Mutex::default(),
            perf: Mutex::new(Baseline::new()),
        }
    }
}

impl Baseline {
    fn new() -> Self {
        Self { since: Instant::now(), readings: Vec::new(), batches: [0; BATCH_BUCKETS] }
    }
}

impl Statistics {
    /// What has been called or refused.
    pub(crate) fn readings(&self) -> impl Iterator<Item = (Counted, Reading)> {
        let commands = counted().zip(&self.commands).map(|(command, figures)| (command, figures.read()));
        commands.filter(|(_, reading)| reading.calls + reading.rejected > 0)
    }

    /// Commands of all kinds.
    pub(crate) fn calls(&self) -> u64 {
        self.commands.iter().map(|command| command.calls.load(Relaxed)).sum()
    }

    pub(crate) fn command(&self, number: usize, time: Duration, succeeded: bool) {
        self.commands[number].add(1, time);
        if !succeeded {
            self.failed(number);
        }
    }

    /// One of a [`Statistics::batch`] was answered with an error.
    #[cold]
    pub(crate) fn failed(&self, number: usize) {
        self.commands[number].failed.fetch_add(1, Relaxed);
    }

    pub(crate) fn rejected(&self, number: usize) {
        self.commands[number].rejected.fetch_add(1, Relaxed);
    }

    /// An error reply, its class first.
    pub(crate) fn error(&self, text: &str) {
        let class = text.split(' ').next().unwrap_or_default();
        let mut errors = self.errors();
        match errors.get_mut(class) {
            Some(count) => *count += 1,
            None => {
                errors.insert(class.to_owned(), 1);
            }
        }
    }

    fn errors(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Error replies by class.
    pub(crate) fn errors_by_class(&self) -> Vec<(String, u64)> {
        self.errors().iter().map(|(class, count)| (class.clone(), *count)).collect()
    }

    /// `count` commands of a batch; each is given an equal part of its time.
    pub(crate) fn batch(&self, number: usize, count: u64, each: Duration) {
        if count > 0 {
            self.commands[number].add(count, each);
        }
    }

    /// So many commands were answered together.
    pub(crate) fn batch_size(&self, commands: u64) {
        if let Some(log) = commands.checked_ilog2() {
            self.batches[(log as usize).min(BATCH_BUCKETS - 1)].fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn batches(&self) -> [u64; BATCH_BUCKETS] {
        std::array::from_fn(|bucket| self.batches[bucket].load(Relaxed))
    }

    fn perf(&self) -> MutexGuard<'_, Baseline> {
        self.perf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has come since [`Statistics::begin_perf`].
    pub(crate) fn measured(&self) -> Measured {
        let perf = self.perf();
        let now = counted().zip(&self.commands).enumerate();
        let since = now.map(|(number, (command, figures))| {
            let reading = figures.read();
            (command, perf.readings.get(number).map_or(reading, |before| reading.since(before)))
        });
        let batches = self.batches();
        Measured {
            period: perf.since.elapsed(),
            commands: since.filter(|(_, reading)| reading.calls > 0).collect(),
            batches: std::array::from_fn(|bucket| batches[bucket].saturating_sub(perf.batches[bucket])),
        }
    }

    /// Lets PERF begin anew; the counters go on.
    pub(crate) fn begin_perf(&self) {
        let readings = self.commands.iter().map(CommandStatistics::read).collect();
        *self.perf() = Baseline { since: Instant::now(), readings, batches: self.batches() };
    }

    pub(crate) fn reset(&self) {
        self.commands.iter().for_each(CommandStatistics::reset);
        self.batches.iter().for_each(|bucket| bucket.store(0, Relaxed));
        self.errors().clear();
        *self.perf() = Baseline::new();
    }

    /// Begins memcached's commands anew and leaves the others alone.
    pub(crate) fn reset_memcached(&self) {
        self.commands[MEMCACHED_FIRST..].iter().for_each(CommandStatistics::reset);
        // PERF would count from what is no more.
        if let Some(before) = self.perf().readings.get_mut(MEMCACHED_FIRST..) {
            before.fill(Reading::default());
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

    fn read(&self) -> Reading {
        Reading {
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

impl Reading {
    fn since(&self, before: &Self) -> Self {
        Self {
            calls: self.calls.saturating_sub(before.calls),
            failed: self.failed.saturating_sub(before.failed),
            rejected: self.rejected.saturating_sub(before.rejected),
            time_ns: self.time_ns.saturating_sub(before.time_ns),
            buckets: std::array::from_fn(|bucket| self.buckets[bucket].saturating_sub(before.buckets[bucket])),
        }
    }

    /// Nanoseconds below which a share of the calls took, as an upper edge of a bucket.
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

    /// Nanoseconds per call.
    pub(crate) fn mean_ns(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.time_ns as f64 / self.calls as f64 }
    }
}

/// Nanoseconds that nothing in a bucket has reached, but in the last one.
pub(crate) fn upper_ns(bucket: usize) -> u64 {
    64 << bucket
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_upper_edges_of_buckets() {
        let statistics = Statistics::default();
        statistics.batch(0, 98, Duration::from_nanos(63));
        statistics.batch(0, 1, Duration::from_nanos(64));
        statistics.command(0, Duration::from_secs(3600), false);
        let (command, reading) = statistics.readings().next().unwrap();
        assert_eq!((command.name, reading.calls, reading.failed), (TABLE[0].name, 100, 1));
        assert_eq!([0.5, 0.98, 0.99].map(|share| reading.percentile_ns(share)), [64, 64, 128]);
        assert_eq!(reading.percentile_ns(1.0), upper_ns(BUCKETS - 1));
        statistics.reset();
        assert_eq!((statistics.readings().count(), statistics.calls()), (0, 0));
    }

    #[test]
    fn every_verb_has_the_number_it_is_counted_under() {
        let all: Vec<_> = counted().collect();
        let us = us::Verb::ALL.iter().map(|verb| (verb.number(), Protocol::Us, verb.name()));
        let memcached = memcached::Verb::ALL.iter().map(|verb| (verb.number(), Protocol::Memcached, verb.name()));
        for (number, protocol, name) in us.chain(memcached) {
            assert_eq!(all[number], Counted { protocol, name });
        }
        assert_eq!(all[MEMCACHED_FIRST].to_string(), "memcached|get");
    }

    #[test]
    fn what_memcached_begins_anew_others_keep() {
        let statistics = Statistics::default();
        let names = |statistics: &Statistics| -> Vec<String> {
            statistics.measured().commands.iter().map(|(command, _)| command.to_string()).collect()
        };
        statistics.begin_perf();
        statistics.batch(us::Verb::Set.number(), 2, Duration::ZERO);
        statistics.batch(memcached::Verb::Set.number(), 3, Duration::ZERO);
        assert_eq!(names(&statistics), ["us|set", "memcached|set"]);
        statistics.begin_perf();
        statistics.reset_memcached();
        statistics.batch(memcached::Verb::Set.number(), 1, Duration::ZERO);
        assert_eq!(names(&statistics), ["memcached|set"]);
        assert_eq!(statistics.calls(), 3);
    }

    #[test]
    fn errors_are_counted_by_their_first_word() {
        let statistics = Statistics::default();
        ["ERR a", "NOAUTH b", "ERR c"].into_iter().for_each(|text| statistics.error(text));
        assert_eq!(statistics.errors_by_class(), [("ERR".to_owned(), 2), ("NOAUTH".to_owned(), 1)]);
    }
}
