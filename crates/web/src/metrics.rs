//! Counters of the server, as Prometheus reads them.

use std::{fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter},
    registry::Unit,
};
use service::total;

use crate::{Observer, Site, WebServer};

/// Collects [`WebServer::statistics`].
#[derive(Debug)]
pub struct RequestMetrics<S>(pub Arc<WebServer<S>>);

fn encode_observer(observer: &Observer, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    if let Some(durations) = observer.durations() {
        let help = "Time from the first byte of a request to the last byte of its response, by class of status";
        let mut family =
            encoder.encode_descriptor("request_duration", help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for (class, durations) in durations {
            durations.encode(family.encode_family(&[("class", class)])?)?;
        }
    }
    Ok(())
}

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

impl<S: Site + fmt::Debug> Collector for RequestMetrics<S> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let statistics = self.0.statistics();
        let encoder = &mut encoder;
        let mut responses =
            encoder.encode_descriptor("responses", "Responses by class of status", None, MetricType::Counter)?;
        for (class, count) in CLASSES.iter().zip(statistics.responses) {
            ConstCounter::new(count).encode(responses.encode_family(&[("class", *class)])?)?;
        }
        total(encoder, "response_bytes", "Bytes of responses queued", statistics.bytes)?;
        total(
            encoder,
            "cache_hits",
            "Responses from the cache without a check of the file system",
            statistics.cache_hits,
        )?;
        let revalidations = statistics.cache_revalidations;
        total(encoder, "cache_revalidations", "Cached files checked and found unchanged", revalidations)?;
        total(encoder, "file_opens", "Files opened", statistics.file_opens)?;
        if let Some(rate) = &self.0.rate {
            let help = "Requests answered with 429 because their client sent too many";
            total(encoder, "requests_refused_by_client_limit", help, rate.refused())?;
        }
        self.0.observer.as_ref().map_or(Ok(()), |observer| encode_observer(observer, encoder))
    }
}
