//! Counters of the server, as Prometheus reads them.

use std::{fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter},
};
use service::{gauge, total};
use wire::file::Status;

use crate::FileServer;

/// Collects the counters of a server and the contents of its cache.
pub struct Metrics(pub Arc<FileServer>);

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let statistics = self.0.statistics();
        let encoder = &mut encoder;
        let mut requests = encoder.encode_descriptor(
            "requests",
            "Requests by the status of their reply",
            None,
            MetricType::Counter,
        )?;
        for (status, count) in Status::ALL.iter().zip(statistics.answers) {
            ConstCounter::new(count).encode(requests.encode_family(&[("status", status.name())])?)?;
        }
        total(encoder, "document_bytes", "Bytes of documents queued", statistics.document_bytes)?;
        total(encoder, "cache_hits", "Documents from the cache", statistics.hits)?;
        let revalidations = statistics.revalidations;
        total(encoder, "cache_revalidations", "Cached documents checked and found unchanged", revalidations)?;
        total(encoder, "cache_misses", "Documents that were not in the cache", statistics.misses)?;
        total(encoder, "cache_coalesced", "Misses that waited for a load in flight", statistics.coalesced)?;
        total(encoder, "loads", "Documents loaded from the back end", statistics.loads)?;
        let (used, evicted) = self.0.cache();
        total(encoder, "cache_evictions", "Cached documents evicted", evicted)?;
        let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        gauge(
            encoder,
            "cache_entries",
            "Documents in the cache, or in its order of use where there is no cache map",
            count(used.entries),
        )?;
        gauge(encoder, "cache_bytes", "Memory of the cache", count(used.bytes))?;
        gauge(encoder, "cache_descriptors", "Files that the cache keeps open", count(used.descriptors))?;
        gauge(encoder, "request_map_entries", "Connections in the request map", count(self.0.connections()))
    }
}
