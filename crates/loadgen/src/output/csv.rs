//! One header line and one row, or a row for each of several rates; every column always present.

use crate::{
    error::ErrorClass,
    result::{Latency, RunResult},
};

pub(super) fn render(results: &[&RunResult]) -> String {
    let mut text = String::new();
    for result in results.iter().flat_map(|result| rows(result)) {
        let (names, values): (Vec<_>, Vec<_>) = columns(result).into_iter().unzip();
        if text.is_empty() {
            text = names.join(",") + "\n";
        }
        text.push_str(&values.iter().map(|value| quote(value)).collect::<Vec<_>>().join(","));
        text.push('\n');
    }
    text
}

/// Each rate has a row of its own.
fn rows(result: &RunResult) -> Vec<&RunResult> {
    if result.steps.is_empty() { vec![result] } else { result.steps.iter().map(|step| &step.result).collect() }
}

fn columns(result: &RunResult) -> Vec<(String, String)> {
    let mut columns = Vec::new();
    let mut add = |name: &str, value: String| columns.push((name.to_owned(), value));
    add("schema", result.schema.to_string());
    add("kind", result.kind.clone());
    add("target", result.target.clone());
    add("duration_s", result.duration_s.to_string());
    add("warmup_s", result.warmup_s.map_or_else(String::new, |s| s.to_string()));
    add("warmup_steady", result.warmup_steady.map_or_else(String::new, |is_steady| is_steady.to_string()));
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
    columns
}

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

fn optional(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// RFC 4180 §2.
pub(crate) fn quote(value: &str) -> String {
    if value.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", value.replace('"', "\"\""))
    } else {
        value.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_separators_are_quoted() {
        assert_eq!(quote("plain"), "plain");
        assert_eq!(quote("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
