//! The figures of a result that are compared, in the order of the table.

use serde::Serialize;

use crate::result::{Latency, RunResult};

/// Unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    RequestsPerSecond,
    Microseconds,
    Percent,
    Mebibytes,
    /// CPU time, microseconds.
    MicrosecondsPerRequest,
    InstructionsPerRequest,
}

/// One figure.
pub(super) struct Measure {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    /// The quantile, of a percentile.
    pub(super) quantile: Option<f64>,
    pub(super) value: fn(&RunResult) -> Option<f64>,
}

const fn measure(name: &'static str, unit: Unit, value: fn(&RunResult) -> Option<f64>) -> Measure {
    Measure { name, unit, quantile: None, value }
}

const fn percentile(name: &'static str, quantile: f64, value: fn(&RunResult) -> Option<f64>) -> Measure {
    Measure { name, unit: Unit::Microseconds, quantile: Some(quantile), value }
}

/// Returns the latency, which there is only with a verified reply.
fn latency(result: &RunResult) -> Option<Latency> {
    (result.ok > 0).then_some(result.latency_us)
}

fn service(result: &RunResult) -> Option<Latency> {
    result.service_us.filter(|_| result.ok > 0)
}

fn first_byte(result: &RunResult) -> Option<Latency> {
    result.first_byte_us.filter(|_| result.ok > 0)
}

#[expect(clippy::cast_precision_loss, reason = "a count of replies fits a double")]
fn per_request(result: &RunResult, cpu_s: f64) -> Option<f64> {
    (result.ok > 0).then(|| cpu_s * 1e6 / result.ok as f64)
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn failed_percent(result: &RunResult) -> Option<f64> {
    (result.requests > 0).then(|| 100.0 * (result.requests - result.ok) as f64 / result.requests as f64)
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn resident(result: &RunResult) -> Option<f64> {
    result.server.as_ref().map(|server| server.rss_bytes as f64 / f64::from(1 << 20))
}

#[expect(clippy::cast_precision_loss, reason = "shown as a whole number")]
fn instructions(result: &RunResult) -> Option<f64> {
    let instructions = result.server.as_ref()?.instructions?;
    (result.ok > 0).then(|| instructions as f64 / result.ok as f64)
}

pub(super) const MEASURES: &[Measure] = &[
    measure("throughput", Unit::RequestsPerSecond, |result| Some(result.throughput_rps)),
    measure("failed", Unit::Percent, failed_percent),
    percentile("p50", 0.5, |result| Some(latency(result)?.p50)),
    percentile("p90", 0.9, |result| Some(latency(result)?.p90)),
    percentile("p99", 0.99, |result| Some(latency(result)?.p99)),
    percentile("p99.9", 0.999, |result| Some(latency(result)?.p999)),
    percentile("p99.99", 0.9999, |result| Some(latency(result)?.p9999)),
    percentile("p99.999", 0.99999, |result| latency(result).map(|latency| latency.p99999).filter(|p| *p > 0.0)),
    measure("max", Unit::Microseconds, |result| Some(latency(result)?.max)),
    measure("mean", Unit::Microseconds, |result| Some(latency(result)?.mean)),
    percentile("service p50", 0.5, |result| Some(service(result)?.p50)),
    percentile("service p99", 0.99, |result| Some(service(result)?.p99)),
    percentile("first byte p50", 0.5, |result| Some(first_byte(result)?.p50)),
    percentile("first byte p99", 0.99, |result| Some(first_byte(result)?.p99)),
    measure("client CPU", Unit::MicrosecondsPerRequest, |result| per_request(result, result.client_cpu_s)),
    measure("  in the kernel", Unit::MicrosecondsPerRequest, |result| per_request(result, result.client_system_s?)),
    measure("server CPU", Unit::MicrosecondsPerRequest, |result| per_request(result, result.server.as_ref()?.cpu_s)),
    measure("  instructions", Unit::InstructionsPerRequest, instructions),
    measure("server resident", Unit::Mebibytes, resident),
];
