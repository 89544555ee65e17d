//! Counters of the server.

use std::sync::atomic::{AtomicI64, Ordering};

use service::Counters;

use crate::outcome::Outcome;

const OUTCOMES: usize = Outcome::ALL.len();

/// Declares the plain counters once: variant, name, help.
macro_rules! counts {
    ($($(#[doc = $help:literal])+ $count:ident = $name:literal,)+) => {
        /// A counter beside those of the outcomes.
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum Count { $($(#[doc = $help])+ $count,)+ }

        const COUNTS: &[(&str, &str)] = &[$(($name, concat!($($help,)+).trim_ascii()),)+];
    };
}

counts! {
    /// Messages taken from the queue
    Received = "messages_received",
    /// Bytes of files written to FIFOs
    Bytes = "sent_bytes",
    /// Times a job was set aside because its client was not ready
    SetAside = "jobs_set_aside",
    /// Requests put back into the queue when the server stopped
    HandedBack = "requests_handed_back",
    /// Requests that the queue had no room for when the server stopped
    Lost = "requests_lost",
    /// Statuses that no client took from its FIFO
    StatusUndelivered = "statuses_undelivered",
    /// FIFOs left at their usual size for want of budget or permission
    PipeNotEnlarged = "pipes_not_enlarged",
    /// Threads started to serve requests
    WorkersStarted = "workers_started",
    /// Threads that could not be started
    WorkersRefused = "workers_refused",
}

#[derive(Debug, Default)]
pub(crate) struct Statistics {
    outcomes: Counters<OUTCOMES>,
    counts: Counters<{ COUNTS.len() }>,
    pub(crate) waiting: Gauge,
    pub(crate) workers: Gauge,
}

/// A number that rises and falls.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicI64);

impl Gauge {
    pub(crate) fn add(&self, change: i64) {
        self.0.fetch_add(change, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Statistics {
    pub(crate) fn ended(&self, outcome: Outcome) {
        self.outcomes.add_one(outcome as usize, 1);
    }

    pub(crate) fn ended_as(&self, outcome: Outcome) -> u64 {
        self.outcomes.sum()[outcome as usize]
    }

    pub(crate) fn count(&self, what: Count, amount: u64) {
        self.counts.add_one(what as usize, amount);
    }

    /// Returns each outcome with its count.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = (Outcome, u64)> {
        Outcome::ALL.iter().copied().zip(self.outcomes.sum())
    }

    /// Returns name, help and value of each plain counter.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        COUNTS.iter().zip(self.counts.sum()).map(|(&(name, help), count)| (name, help, count))
    }
}
