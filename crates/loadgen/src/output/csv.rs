//! Results as CSV. Every column is always present.

use std::io::Write;

use crate::{
    error::ErrorClass,
    result::{Latency, RunResult},
};

/// Writes a header line and a row for each result, or for each rate of a result with several.
///
/// # Errors
/// `out` cannot be written.
pub fn write(results: &[&RunResult], out: &mut impl Write) -> csv::Result<()> {
    let mut table = csv::Writer::from_writer(out);
    for (index, result) in results.iter().flat_map(|result| rows(result)).enumerate() {
        let (names, values): (Vec<_>, Vec<_>) = columns(result).into_iter().unzip();
        if index == 0 {
            table.write_record(names)?;
        }
        table.write_record(values)?;
    }
    Ok(table.flush()?)
}

/// Returns what has a row of its own: the result, or each of its rates.
fn rows(result: &RunResult) -> Vec<&RunResult> {
    if result.steps.is_empty() { vec![result] } else { result.steps.iter().map(|step| &step.result).collect() }
}

/// Returns the names and values of all columns.
fn columns(result: &RunResult) -> Vec<(String, String)> {
    let mut columns = Vec::new();
    let mut add = |name: &str, value: String| columns.push((name.to_owned(), value));
    add("schema", result.schema.to_string());
    add("kind", result.kind.to_string());
    add("target", result.target.clone());
    add("duration_s", result.duration_s.to_string());
    add("warmup_s", optional(result.warmup_s));
    add("warmup_steady", optional(result.warmup_steady));
    add("requests", result.requests.to_string());
    add("ok", result.ok.to_string());
    for class in ErrorClass::ALL {
        add(&format!("error_{}", class.name()), result.errors.get(class.name()).unwrap_or(&0).to_string());
    }
    add("hits", optional(result.hits));
    add("misses", optional(result.misses));
    add("stores", optional(result.stores));
    add("reconnects", result.reconnects.to_string());
    add("bytes_in", result.bytes_in.to_string());
    add("bytes_out", result.bytes_out.to_string());
    add("throughput_rps", result.throughput_rps.to_string());
    let latencies = [
        ("latency_us", Some(result.latency_us).filter(|_| result.ok > 0)),
        ("service_us", result.service_us),
        ("first_byte_us", result.first_byte_us),
    ];
    for (prefix, latency) in latencies {
        for (name, value) in named(latency) {
            add(&format!("{prefix}_{name}"), value);
        }
    }
    add("client_cpu_s", result.client_cpu_s.to_string());
    let server = result.server.as_ref();
    add("server_pid", optional(server.map(|server| server.pid)));
    add("server_cpu_s", optional(server.map(|server| server.cpu_s)));
    add("server_rss_bytes", optional(server.map(|server| server.rss_bytes)));
    add("client_cpu_fraction", result.saturation.client_cpu_fraction.to_string());
    add("saturation_note", result.saturation.note.clone());
    add("rate", optional(result.config.get("rate").and_then(serde_json::Value::as_f64)));
    add("lag_us_p99", optional(result.lag_us.map(|lag| lag.p99)));
    for (name, value) in named(result.corrected_us) {
        add(&format!("corrected_us_{name}"), value);
    }
    add("ceiling_rps", optional(result.saturation.ceiling_rps));
    add("client_user_s", optional(result.client_user_s));
    add("client_system_s", optional(result.client_system_s));
    add("clipped", result.clipped.to_string());
    add("started_utc", optional(result.origin.started_utc.as_ref()));
    add("version", optional(result.origin.version.as_ref()));
    add("host", optional(result.origin.host.as_ref()));
    add("interrupted", result.origin.interrupted.to_string());
    let backlog = result.backlog;
    add("backlog_p50", optional(backlog.map(|backlog| backlog.p50)));
    add("backlog_p99", optional(backlog.map(|backlog| backlog.p99)));
    add("backlog_max", optional(backlog.map(|backlog| backlog.max)));
    add("server_instructions", optional(server.and_then(|server| server.instructions)));
    let handshakes = result.handshakes.as_ref();
    add("handshakes_full", optional(handshakes.map(|handshakes| handshakes.full)));
    add("handshakes_resumed", optional(handshakes.map(|handshakes| handshakes.resumed)));
    add("handshakes_rate", optional(handshakes.map(|handshakes| handshakes.rate)));
    for (name, value) in named(handshakes.and_then(|handshakes| handshakes.latency_us)) {
        add(&format!("handshakes_latency_us_{name}"), value);
    }
    columns
}

/// Returns the columns of a latency.
fn named(latency: Option<Latency>) -> [(&'static str, String); 11] {
    let value = |choose: fn(Latency) -> f64| optional(latency.map(choose));
    [
        ("mean", value(|latency| latency.mean)),
        ("stddev", value(|latency| latency.stddev)),
        ("min", value(|latency| latency.min)),
        ("p50", value(|latency| latency.p50)),
        ("p75", value(|latency| latency.p75)),
        ("p90", value(|latency| latency.p90)),
        ("p99", value(|latency| latency.p99)),
        ("p999", value(|latency| latency.p999)),
        ("p9999", value(|latency| latency.p9999)),
        ("p99999", value(|latency| latency.p99999)),
        ("max", value(|latency| latency.max)),
    ]
}

/// Formats a value; empty if there is none.
fn optional(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Handshakes, samples};

    #[test]
    fn handshakes_have_columns_that_are_empty_without_tls() {
        let latency = Latency { p50: 250.5, ..Latency::default() };
        let handshakes = Some(Handshakes { full: 3, resumed: 4, rate: 7.5, latency_us: Some(latency) });
        let secured = RunResult { handshakes, ..samples::nothing() };
        let mut out = Vec::new();
        write(&[&secured, &samples::nothing()], &mut out).unwrap();
        let mut table = csv::Reader::from_reader(&out[..]);
        let names = table.headers().unwrap().clone();
        let rows: Vec<_> = table.records().map(|row| row.unwrap()).collect();
        for (name, value) in [("full", "3"), ("resumed", "4"), ("rate", "7.5"), ("latency_us_p50", "250.5")] {
            let name = format!("handshakes_{name}");
            let at = names.iter().position(|known| known == name).expect("a column");
            assert_eq!((&rows[0][at], &rows[1][at]), (value, ""), "{name}");
        }
    }
}
