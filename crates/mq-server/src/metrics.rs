//! The metrics that Prometheus reads.

use std::{fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter},
};
use service::{gauge, total};

use crate::{copy::FileCopy, engine::Engine};

/// Collector of an engine's counters and of its load.
pub(crate) struct Metrics<C: FileCopy>(pub(crate) Arc<Engine<C>>);

impl<C: FileCopy> fmt::Debug for Metrics<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl<C: FileCopy> Collector for Metrics<C> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (statistics, load, encoder) = (self.0.statistics(), self.0.load(), &mut encoder);
        let help = "Requests by what became of them";
        let mut requests = encoder.encode_descriptor("requests", help, None, MetricType::Counter)?;
        for (outcome, count) in statistics.outcomes() {
            ConstCounter::new(count).encode(requests.encode_family(&[("outcome", outcome.name())])?)?;
        }
        for (name, help, count) in statistics.counts() {
            total(encoder, name, help, count)?;
        }
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        gauge(encoder, "queue_messages", "Messages in the queue now", signed(load.queued))?;
        gauge(encoder, "jobs", "Requests taken and not ended", signed(load.jobs))?;
        gauge(encoder, "pipe_bytes", "Bytes of --pipe-budget in use", signed(load.pipe_bytes))?;
        gauge(encoder, "jobs_waiting", "Jobs set aside now", statistics.waiting.get())?;
        gauge(encoder, "workers", "Threads that serve requests now", statistics.workers.get())
    }
}
