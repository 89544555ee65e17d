//! Counters of the cache, as Prometheus reads them.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
};

use clap::ValueEnum;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter},
};
use service::{gauge, total};

use crate::{ZerocopyServer, fallback::Reason, statistics::Sent, strategy::Strategy};

/// Collects the contents and the counters of the caches of all hosts.
#[derive(Debug)]
pub struct CacheMetrics(pub Arc<ZerocopyServer>);

impl Collector for CacheMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let hosts = self.0.hosts();
        // All hosts share them.
        let resources = &hosts.default_host().site.cache().resources;
        let cached_files = hosts.all().iter().map(|host| host.site.cache().paths.len() as u64).sum();
        let sent = resources.statistics.totals().by_strategy;
        let encoder = &mut encoder;
        by_strategy(encoder, "strategy_requests", "Bodies queued, by strategy", &sent, |sent| sent.requests)?;
        by_strategy(encoder, "strategy_bytes", "Bytes queued, by strategy", &sent, |sent| sent.bytes)?;
        let help = "Files and responses sent by sendfile instead, by strategy and reason";
        let mut fallbacks = encoder.encode_descriptor("fallbacks", help, None, MetricType::Counter)?;
        for &from in Strategy::value_variants() {
            let strategy = from.to_string();
            for reason in Reason::ALL {
                let labels = [("strategy", strategy.as_str()), ("reason", reason.name())];
                let count = ConstCounter::new(resources.statistics.fallbacks(from, reason));
                count.encode(fallbacks.encode_family(&labels)?)?;
            }
        }
        total(encoder, "evictions", "Files evicted", resources.statistics.evictions.load(Ordering::Relaxed))?;
        let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        gauge(encoder, "pipe_bytes", "Capacity of cached pipes", signed(resources.pipe_bytes.used()))?;
        gauge(encoder, "pipes", "Cached pipes", signed(resources.pipes.used()))?;
        gauge(encoder, "mapped_bytes", "Bytes of mapped files", signed(resources.mapped_bytes.used()))?;
        gauge(encoder, "cache_descriptors", "Descriptors of the cache", signed(resources.descriptors.used()))?;
        gauge(encoder, "cached_files", "Paths in the cache", signed(cached_files))?;
        gauge(
            encoder,
            "zombies",
            "Evicted files and pipes that are still being sent",
            signed(resources.detached.count() as u64),
        )
    }
}

fn by_strategy(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    sent: &[Sent; Strategy::COUNT],
    value: impl Fn(&Sent) -> u64,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (strategy, sent) in Strategy::value_variants().iter().zip(sent) {
        ConstCounter::new(value(sent)).encode(family.encode_family(&[("strategy", strategy.to_string())])?)?;
    }
    Ok(())
}
