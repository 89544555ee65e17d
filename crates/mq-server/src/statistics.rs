//! What the server counts, and how Prometheus reads it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter},
};
use service::{Counters, gauge, total};

use crate::{copy::FileCopy, engine::Engine, outcome::Outcome};

const OUTCOMES: usize = Outcome::ALL.len();

/// Declares the plain counters once: index, name, help.
macro_rules! counts {
    ($($(#[doc = $help:literal])+ $count:ident = $name:literal,)+) => {
        /// Something that is counted beside outcomes.
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
    /// Statuses that nobody took from their FIFO
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

/// How many there are now.
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
}

/// Collects what an engine counts and holds.
pub(crate) struct Metrics<C: FileCopy>(pub(crate) Arc<Engine<C>>);

impl<C: FileCopy> fmt::Debug for Metrics<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl<C: FileCopy> Collector for Metrics<C> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (statistics, encoder) = (self.0.statistics(), &mut encoder);
        let help = "Requests by what became of them";
        let mut requests = encoder.encode_descriptor("requests", help, None, MetricType::Counter)?;
        for (outcome, count) in Outcome::ALL.iter().zip(statistics.outcomes.sum()) {
            ConstCounter::new(count).encode(requests.encode_family(&[("outcome", outcome.name())])?)?;
        }
        for (&(name, help), count) in COUNTS.iter().zip(statistics.counts.sum()) {
            total(encoder, name, help, count)?;
        }
        let holdings = self.0.holdings();
        let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        gauge(encoder, "queue_messages", "Messages in the queue now", whole(holdings.queued))?;
        gauge(encoder, "jobs", "Requests taken and not ended", whole(holdings.jobs))?;
        gauge(encoder, "pipe_bytes", "Bytes of --pipe-budget in use", whole(holdings.pipe_bytes))?;
        gauge(encoder, "jobs_waiting", "Jobs set aside now", statistics.waiting.get())?;
        gauge(encoder, "workers", "Threads that serve requests now", statistics.workers.get())
    }
}
