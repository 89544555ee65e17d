//! A result as text for a terminal.

mod steps;

use std::fmt::Write as _;

use crate::{
    instructions::CountedModes,
    result::{Latency, ProtocolKind, RunResult, ServerUsage},
    units::{Grouped, duration, mebibytes_per_second, rate},
};

/// CPU seconds below which the kernel has not sampled often enough to say how they were divided.
const SPLIT_CPU_S_MIN: f64 = 0.2;

/// Renders a result for a terminal.
#[must_use]
pub fn render(result: &RunResult) -> String {
    let mut text = String::new();
    // Writing into a String cannot fail.
    let _ = write_all(&mut text, result);
    text
}

fn write_all(out: &mut String, result: &RunResult) -> std::fmt::Result {
    writeln!(out, "{}", result.target)?;
    writeln!(out, "{}", conditions(result))?;
    write_origin(out, result)?;
    writeln!(out)?;
    if !result.steps.is_empty() {
        return steps::write(out, result);
    }
    let failed = result.requests - result.ok;
    row(out, "requests", &Grouped(result.requests).to_string(), &format!("in {:.3} s", result.duration_s))?;
    row(out, "verified", &Grouped(result.ok).to_string(), "")?;
    for (name, count) in [("hits", result.hits), ("misses", result.misses), ("stores", result.stores)] {
        if let Some(count) = count.filter(|&count| count > 0) {
            row(out, &format!("  {name}"), &Grouped(count).to_string(), "")?;
        }
    }
    row(out, "failed", &Grouped(failed).to_string(), "")?;
    for (class, count) in &result.errors {
        row(out, &format!("  {class}"), &Grouped(*count).to_string(), "")?;
    }
    if result.reconnects > 0 {
        row(out, "reconnects", &Grouped(result.reconnects).to_string(), "closed by the server between requests")?;
    }
    row(out, "throughput", &rate(result.throughput_rps), "verified requests/s")?;
    row(out, "received", &mebibytes_per_second(result.bytes_in, result.duration_s), "MiB/s")?;
    row(out, "sent", &mebibytes_per_second(result.bytes_out, result.duration_s), "MiB/s")?;
    writeln!(out)?;
    write_latencies(out, result)?;
    if result.clipped > 0 {
        writeln!(out, "note: {} replies took 60 s or more: histograms end there", Grouped(result.clipped))?;
    }
    if result.kind == ProtocolKind::File && result.ok > 0 {
        writeln!(out, "{}", round_trips(result))?;
    }
    // The length of a window of fixed length says nothing.
    if result.kind == ProtocolKind::Mq && result.config.contains_key("requests") {
        writeln!(out, "{}", total_elapsed(result))?;
    }
    writeln!(out)?;
    write_cpu(out, result)
}

fn row(out: &mut String, name: &str, value: &str, remark: &str) -> std::fmt::Result {
    writeln!(out, "{}", format!("{name:<18}{value:>15} {remark}").trim_end())
}

fn conditions(result: &RunResult) -> String {
    let setting = |name: &str| result.config.get(name).filter(|value| !value.is_null()).map(setting_text);
    let mut parts: Vec<_> = ["protocol", "workload"].into_iter().filter_map(setting).collect();
    match (setting("rate"), setting("arrivals")) {
        (Some(rate), arrivals) => parts.push(format!("open loop, {rate} requests/s, {}", arrivals.unwrap_or_default())),
        (None, Some(arrivals)) => parts.push(format!("open loop, {} rates, {arrivals}", result.steps.len())),
        (None, None) => parts.push("closed loop".to_owned()),
    }
    for (name, before, one, many) in [
        ("connections", "", " connection", " connections"),
        ("clients", "", " client", " clients"),
        ("spawn", "each a ", "", ""),
        ("sink", "", " sink", " sink"),
        ("threads", "", " thread", " threads"),
        ("pipeline", "", " in flight each", " in flight each"),
        ("warmup_s", "", " s warm-up", " s warm-up"),
        ("max_warmup_s", "at most ", " s of it", " s of it"),
        ("verify", "verify ", "", ""),
    ] {
        if let Some(value) = setting(name) {
            parts.push(format!("{before}{value}{}", if value == "1" { one } else { many }));
        }
    }
    parts.join(", ")
}

fn write_origin(out: &mut String, result: &RunResult) -> std::fmt::Result {
    let origin = &result.origin;
    if let Some(started) = &origin.started_utc {
        let (host, version) = (origin.host.as_deref(), origin.version.as_deref());
        let host = host.map(|host| format!(" on {host}")).unwrap_or_default();
        let version = version.map(|version| format!(" by loadgen {version}")).unwrap_or_default();
        writeln!(out, "measured from {started}{host}{version}")?;
    }
    if let (Some(warmup_s), Some(is_steady)) = (result.warmup_s, result.warmup_steady) {
        let how = if is_steady { "until the load was steady" } else { "and the load had not become steady" };
        writeln!(out, "warmed up for {warmup_s:.1} s, {how}")?;
    }
    if origin.interrupted {
        writeln!(out, "INTERRUPTED: this is what was measured until then")?;
    }
    Ok(())
}

/// Formats the value of a setting: text without quotes.
pub(super) fn setting_text(value: &serde_json::Value) -> String {
    match (value.as_str(), value.as_f64()) {
        (Some(text), _) => text.to_owned(),
        (None, Some(number)) => number.to_string(),
        (None, None) => value.to_string(),
    }
}

fn write_latencies(out: &mut String, result: &RunResult) -> std::fmt::Result {
    if result.ok == 0 {
        row(out, "latency", "-", "no reply was verified")?;
        return write_lag(out, result);
    }
    write!(out, "{:<10}", "latency")?;
    for (name, _) in columns(&result.latency_us) {
        write!(out, "{name:>10}")?;
    }
    writeln!(out)?;
    let Some(service) = &result.service_us else {
        write_latency(out, "service", &result.latency_us)?;
        write_first_byte(out, result)?;
        if let Some(corrected) = &result.corrected_us {
            write_latency(out, "corrected", corrected)?;
        }
        writeln!(
            out,
            "service time, from the actual send (closed loop: a stalled server is under-counted; see --rate)"
        )?;
        return match result.corrected_us {
            Some(_) => {
                writeln!(out, "corrected: an estimate, as wrk makes it, of what an open loop would have measured")
            }
            None => Ok(()),
        };
    };
    write_latency(out, "response", &result.latency_us)?;
    write_latency(out, "service", service)?;
    write_first_byte(out, result)?;
    writeln!(out, "response time, from the scheduled send; service time, from the actual send")?;
    write_lag(out, result)
}

fn write_lag(out: &mut String, result: &RunResult) -> std::fmt::Result {
    let Some(lag) = &result.lag_us else { return Ok(()) };
    writeln!(out, "requests left {} late at p99, {} at most", duration(lag.p99), duration(lag.max))?;
    let Some(backlog) = result.backlog.filter(|backlog| backlog.max > 0) else { return Ok(()) };
    let (p50, p99, max) = (Grouped(backlog.p50), Grouped(backlog.p99), Grouped(backlog.max));
    let server = if result.kind == ProtocolKind::Mq { "their client" } else { "a connection" };
    writeln!(out, "requests that waited for {server}: {p50} at p50, {p99} at p99, {max} at most")
}

/// Writes the time to the first byte, which counts from the same moment as the first of the latencies.
fn write_first_byte(out: &mut String, result: &RunResult) -> std::fmt::Result {
    result.first_byte_us.map_or(Ok(()), |first_byte| write_latency(out, "first byte", &first_byte))
}

fn write_latency(out: &mut String, name: &str, latency: &Latency) -> std::fmt::Result {
    write!(out, "{name:<10}")?;
    for (_, value) in columns(latency) {
        write!(out, "{:>10}", duration(value))?;
    }
    writeln!(out)
}

fn columns(latency: &Latency) -> [(&'static str, f64); 11] {
    [
        ("min", latency.min),
        ("p50", latency.p50),
        ("p75", latency.p75),
        ("p90", latency.p90),
        ("p99", latency.p99),
        ("p99.9", latency.p999),
        ("p99.99", latency.p9999),
        ("p99.999", latency.p99999),
        ("max", latency.max),
        ("mean", latency.mean),
        ("stddev", latency.stddev),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn write_cpu(out: &mut String, result: &RunResult) -> std::fmt::Result {
    let per_request = |cpu_s: f64| {
        if result.ok == 0 { "-".to_owned() } else { format!("{:.3}", cpu_s * 1e6 / result.ok as f64) }
    };
    let mut remark = format!("µs per request, {:.0} % of its threads", result.saturation.client_cpu_fraction * 100.0);
    if let Some(system) = result.client_system_s.filter(|_| result.client_cpu_s >= SPLIT_CPU_S_MIN) {
        write!(remark, ", {:.0} % of that in the kernel", system / result.client_cpu_s * 100.0)?;
    }
    row(out, "client CPU", &per_request(result.client_cpu_s), &remark)?;
    if let Some(server) = &result.server {
        let cores = if result.duration_s > 0.0 { server.cpu_s / result.duration_s } else { 0.0 };
        let remark = format!(
            "µs per request, {:.0} % of a core, {} MiB resident",
            cores * 100.0,
            Grouped(server.rss_bytes >> 20)
        );
        row(out, "server CPU", &per_request(server.cpu_s), &remark)?;
        write_instructions(out, server, result.ok)?;
    }
    if let Some(ceiling) = result.saturation.ceiling_rps {
        row(out, "client ceiling", &rate(ceiling), "requests/s, against a null server before the run")?;
    }
    if let Some(why) = &result.saturation.ceiling_unknown {
        row(out, "client ceiling", "unknown", why)?;
    }
    if !result.saturation.note.is_empty() {
        writeln!(out, "note: {}", result.saturation.note)?;
    }
    Ok(())
}

/// Writes the instructions per request, or nothing where they were not counted: the JSON says why.
#[expect(clippy::cast_precision_loss, reason = "shown as a whole number")]
fn write_instructions(out: &mut String, server: &ServerUsage, ok: u64) -> std::fmt::Result {
    let Some((instructions, modes)) = server.instructions.zip(server.instructions_modes).filter(|_| ok > 0) else {
        return Ok(());
    };
    let remark = match modes {
        CountedModes::UserAndKernel => "instructions per request, the kernel's included",
        CountedModes::User => "instructions per request, without the kernel's",
    };
    row(out, "", &rate(instructions as f64 / ok as f64), remark)
}

/// Formats the last line of the original fileserver's client (docs/originals.md).
#[expect(clippy::cast_precision_loss, reason = "shown with a digit")]
fn round_trips(result: &RunResult) -> String {
    let Latency { mean, stddev, max, .. } = result.latency_us;
    let failed = result.requests - result.ok;
    let percent = 100.0 * failed as f64 / result.requests.max(1) as f64;
    format!(
        "RTT {:.2} +/- {:.2} ms\tWorst {:.2} ms\tErrors {failed} / {} ({percent:.1}%)",
        mean / 1e3,
        stddev / 1e3,
        max / 1e3,
        result.requests
    )
}

/// Formats the last line of the original message queue server's client (docs/originals.md): the time of all clients together.
fn total_elapsed(result: &RunResult) -> String {
    let clients = result.config.get("clients").map(setting_text).unwrap_or_default();
    format!("total elapsed {:.1}ms for {} files to {clients} clients", result.duration_s * 1e3, result.ok)
}
