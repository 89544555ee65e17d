//! A result as a message of OpenTelemetry: metrics in OTLP's JSON encoding (opentelemetry-proto 1, `ExportMetricsServiceRequest`).
//!
//! The names are `loadgen.*`, and units are those of UCUM, as the semantic conventions ask. Sums begin with the window, and end with it.

use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::{
    histogram::decode,
    result::{Latency, RunResult},
};

/// Upper bounds of the buckets of a latency, in microseconds: 1, 2 and 5 of each decade from a microsecond to a minute.
const BOUNDS_US: [u64; 24] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000, 50_000_000,
];
/// `AGGREGATION_TEMPORALITY_CUMULATIVE`: counts since the beginning of the window, which is another one in each run.
const CUMULATIVE: u8 = 2;

/// Returns the message with the metrics of a result.
#[must_use]
pub fn message(result: &RunResult) -> Value {
    let times = Times::of(result);
    let mut metrics = vec![requests(result, &times), bytes(result, &times)];
    metrics.push(gauge("loadgen.throughput", "{request}/s", result.throughput_rps, &times));
    metrics.push(gauge("loadgen.client.cpu", "1", result.saturation.client_cpu_fraction, &times));
    let is_open = result.is_open();
    let latency = if is_open { "loadgen.response_time" } else { "loadgen.service_time" };
    metrics.extend(histogram(latency, Some(&result.histogram), Some(&result.latency_us), &times));
    if is_open {
        let service = result.service_histogram.as_ref();
        metrics.extend(histogram("loadgen.service_time", service, result.service_us.as_ref(), &times));
        metrics.extend(histogram("loadgen.lag", result.lag_histogram.as_ref(), result.lag_us.as_ref(), &times));
    }
    metrics.extend(result.handshakes.map(|of| gauge("loadgen.handshakes", "{handshake}/s", of.rate, &times)));
    metrics.extend(result.server.as_ref().map(|server| gauge("loadgen.server.cpu", "s", server.cpu_s, &times)));
    let scope = json!({"name": "loadgen", "version": env!("CARGO_PKG_VERSION")});
    json!({"resourceMetrics": [{"resource": resource(result), "scopeMetrics": [{"scope": scope, "metrics": metrics}]}]})
}

/// Beginning and end of the window, in nanoseconds since 1970. Integers of 64 bits are texts in this encoding.
struct Times {
    start: String,
    end: String,
}

impl Times {
    fn of(result: &RunResult) -> Self {
        let started = result.origin.started_utc.as_deref().and_then(|text| humantime::parse_rfc3339(text).ok());
        let start = started.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        let end = start + Duration::try_from_secs_f64(result.duration_s).unwrap_or_default();
        Self { start: start.as_nanos().to_string(), end: end.as_nanos().to_string() }
    }

    /// Adds the times to a data point.
    fn stamp(&self, mut point: Value) -> Value {
        point["startTimeUnixNano"] = json!(self.start);
        point["timeUnixNano"] = json!(self.end);
        point
    }
}

fn resource(result: &RunResult) -> Value {
    let mut attributes = vec![
        attribute("service.name", "loadgen"),
        attribute("loadgen.kind", result.kind.name()),
        attribute("loadgen.target", &result.target),
    ];
    attributes.extend(result.origin.version.as_deref().map(|version| attribute("service.version", version)));
    attributes.extend(result.origin.host.as_deref().map(|host| attribute("host.name", host)));
    json!({ "attributes": attributes })
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn sum(name: &str, unit: &str, points: Vec<Value>) -> Value {
    let sum = json!({"aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": points});
    json!({"name": name, "unit": unit, "sum": sum})
}

fn count(count: u64, key: &str, value: &str, times: &Times) -> Value {
    times.stamp(json!({"asInt": count.to_string(), "attributes": [attribute(key, value)]}))
}

/// Returns the requests by their outcome: verified, or a class of errors.
fn requests(result: &RunResult, times: &Times) -> Value {
    let errors = result.errors.iter().map(|(class, failed)| count(*failed, "outcome", class, times));
    let points = std::iter::once(count(result.ok, "outcome", "ok", times)).chain(errors).collect();
    sum("loadgen.requests", "{request}", points)
}

fn bytes(result: &RunResult, times: &Times) -> Value {
    let points = [("receive", result.bytes_in), ("transmit", result.bytes_out)];
    let points = points.into_iter().map(|(direction, bytes)| count(bytes, "direction", direction, times)).collect();
    sum("loadgen.io", "By", points)
}

fn gauge(name: &str, unit: &str, value: f64, times: &Times) -> Value {
    json!({"name": name, "unit": unit, "gauge": {"dataPoints": [times.stamp(json!({"asDouble": value}))]}})
}

/// Returns a histogram of seconds, if anything was recorded.
#[expect(clippy::cast_precision_loss, reason = "bounds are round numbers")]
fn histogram(name: &str, text: Option<&String>, latency: Option<&Latency>, times: &Times) -> Option<Value> {
    let recorded = decode(text?)?;
    let latency = latency.filter(|_| !recorded.is_empty())?;
    let bounds: Vec<_> = BOUNDS_US.iter().map(|us| *us as f64 / 1e6).collect();
    let point = json!({
        "count": recorded.len().to_string(),
        "sum": latency.mean / 1e6 * recorded.len() as f64,
        "min": latency.min / 1e6,
        "max": latency.max / 1e6,
        "explicitBounds": bounds,
        "bucketCounts": bucket_counts(&recorded).iter().map(u64::to_string).collect::<Vec<_>>(),
    });
    let histogram = json!({"aggregationTemporality": CUMULATIVE, "dataPoints": [times.stamp(point)]});
    Some(json!({"name": name, "unit": "s", "histogram": histogram}))
}

/// Counts what is at most each bound and above the one before, and at last what is above all.
fn bucket_counts(recorded: &Histogram<u64>) -> Vec<u64> {
    let mut counts = vec![0; BOUNDS_US.len() + 1];
    for value in recorded.iter_recorded() {
        let bucket = BOUNDS_US.partition_point(|us| us * 1_000 < value.value_iterated_to());
        counts[bucket] += value.count_at_value();
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{histogram::encode, result::samples::nothing};

    #[test]
    fn every_reply_is_in_one_bucket() {
        let mut recorded = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).expect("valid");
        for (nanos, count) in [(500, 1), (1_500, 2), (900_000, 3), (55_000_000_000, 4)] {
            recorded.record_n(nanos, count).expect("in range");
        }
        let counts = bucket_counts(&recorded);
        let found: Vec<_> = counts.iter().enumerate().filter(|(_, count)| **count > 0).collect();
        assert_eq!(found, [(0, &1), (1, &2), (9, &3), (24, &4)]);
        let result =
            RunResult { histogram: encode(&recorded), latency_us: Latency::from_histogram(&recorded), ..nothing() };
        let metric =
            histogram("x", Some(&result.histogram), Some(&result.latency_us), &Times::of(&result)).expect("one");
        let point = &metric["histogram"]["dataPoints"][0];
        assert_eq!((&point["count"], point["bucketCounts"].as_array().map(Vec::len)), (&json!("10"), Some(25)));
    }

    #[test]
    fn a_result_without_a_reply_has_counts_and_no_latency() {
        let mut result = nothing();
        result.errors.insert("timeout".to_owned(), 3);
        let message = message(&result);
        let metrics = message["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().expect("an array").clone();
        let names: Vec<_> = metrics.iter().filter_map(|metric| metric["name"].as_str()).collect();
        assert_eq!(names, ["loadgen.requests", "loadgen.io", "loadgen.throughput", "loadgen.client.cpu"]);
        let points = metrics[0]["sum"]["dataPoints"].as_array().expect("an array");
        assert_eq!(
            (&points[1]["asInt"], &points[1]["attributes"][0]["value"]["stringValue"]),
            (&json!("3"), &json!("timeout"))
        );
    }
}
