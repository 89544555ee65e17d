//! A result as text for a terminal.

mod steps;

use std::{collections::BTreeMap, fmt::Write as _};

use crate::{
    instructions::CountedModes,
    result::{Latency, ProtocolKind, RunResult, ServerUsage},
    units::{Grouped, TimeUnit, duration, mebibytes_per_second, plural, rate, wrap},
};

/// Columns of a row's name and value, behind which its remark begins.
const REMARK_COLUMN: usize = 34;

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
    paragraph(out, &conditions(result))?;
    write_origin(out, result)?;
    writeln!(out)?;
    if !result.steps.is_empty() {
        return steps::write(out, result);
    }
    write_agents(out, result)?;
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
        row(out, &format!("  {class}"), &Grouped(*count).to_string(), &details(result, class))?;
    }
    if let Some((asked, opened)) = result.missing_connections() {
        row(out, "connections", &Grouped(opened).to_string(), &format!("of {} opened", Grouped(asked)))?;
    }
    if result.reconnects > 0 {
        row(out, "reconnects", &Grouped(result.reconnects).to_string(), "closed by the server between requests")?;
    }
    row(out, "throughput", &rate(result.throughput_rps), "verified requests/s")?;
    row(out, "received", &mebibytes_per_second(result.bytes_in, result.duration_s), "MiB/s")?;
    row(out, "sent", &mebibytes_per_second(result.bytes_out, result.duration_s), "MiB/s")?;
    write_handshakes(out, result)?;
    for session in &result.tls_sessions {
        row(out, "", "", &session.to_string())?;
    }
    write_bodies(out, result)?;
    writeln!(out)?;
    write_latencies(out, result)?;
    if result.clipped > 0 {
        paragraph(out, &format!("note: {} took 60 s or more: histograms end there", plural(result.clipped, "reply")))?;
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

/// Writes the number of TLS handshakes and how long they took.
fn write_handshakes(out: &mut String, result: &RunResult) -> std::fmt::Result {
    let Some(handshakes) = &result.handshakes else { return Ok(()) };
    let count = handshakes.full + handshakes.resumed;
    let Some(latency) = &handshakes.latency_us else {
        return row(out, "TLS handshakes", "0", "in this time: the connections were there before");
    };
    let unit = TimeUnit::of(latency.p50);
    let (full, resumed) = (Grouped(handshakes.full), Grouped(handshakes.resumed));
    let times = [("p50", latency.p50), ("p99", latency.p99), ("max", latency.max)];
    let times: Vec<_> = times.iter().map(|(name, time)| format!("{name} {}", unit.spell(*time))).collect();
    let remark = format!("{full} full, {resumed} resumed; {}/s; {}", rate(handshakes.rate), times.join(", "));
    row(out, "TLS handshakes", &Grouped(count).to_string(), &remark)
}

/// Writes the number of bodies, their sizes and codings, where there are several or one is coded.
fn write_bodies(out: &mut String, result: &RunResult) -> std::fmt::Result {
    let bodies = &result.bodies;
    let mut codings: BTreeMap<&str, u64> = BTreeMap::new();
    bodies.iter().for_each(|body| *codings.entry(&body.coding).or_default() += 1);
    let is_plain = bodies.len() < 2 && codings.keys().all(|&coding| coding == "identity");
    let (Some(least), Some(most)) =
        (bodies.iter().map(|body| body.bytes).min(), bodies.iter().map(|body| body.bytes).max())
    else {
        return Ok(());
    };
    if is_plain {
        return Ok(());
    }
    let codings: Vec<_> = codings.iter().map(|(coding, count)| format!("{} {coding}", Grouped(*count))).collect();
    let remark = format!("of {} to {} bytes: {}", Grouped(least), Grouped(most), codings.join(", "));
    row(out, "bodies", &Grouped(bodies.len() as u64).to_string(), &remark)
}

/// Writes a row; a long remark goes on below itself.
fn row(out: &mut String, name: &str, value: &str, remark: &str) -> std::fmt::Result {
    let head = format!("{name:<18}{value:>15} ");
    // Blanks of the head are no places to break.
    let text = wrap(&format!("{}{remark}", "\u{a0}".repeat(REMARK_COLUMN)), REMARK_COLUMN);
    let remark = text.trim_start_matches('\u{a0}');
    writeln!(out, "{}", format!("{head}{remark}").trim_end())
}

/// Writes a text of any length in lines that fit a terminal.
fn paragraph(out: &mut String, text: &str) -> std::fmt::Result {
    writeln!(out, "{}", wrap(text, 0))
}

/// Returns what the server said with the failures of a class, the most frequent first.
fn details(result: &RunResult, class: &str) -> String {
    let Some(details) = result.error_details.get(class) else { return String::new() };
    let mut details: Vec<_> = details.iter().collect();
    details.sort_by_key(|&(_, count)| std::cmp::Reverse(*count));
    match details[..] {
        [(detail, _)] => detail.clone(),
        _ => details
            .iter()
            .map(|(detail, count)| format!("{detail}: {}", Grouped(**count)))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

fn conditions(result: &RunResult) -> String {
    let setting = |name: &str| result.config.get(name).filter(|value| !value.is_null()).map(setting_text);
    let mut parts: Vec<_> = ["protocol", "workload"].into_iter().filter_map(setting).collect();
    parts.extend(setting("http2").map(|_| "HTTP/2".to_owned()));
    let phases = result.config.get("rate_phases").and_then(|phases| phases.as_array());
    match (setting("rate"), setting("arrivals")) {
        (Some(_), arrivals) if phases.is_some_and(|phases| !phases.is_empty()) => {
            let phases: Vec<_> = phases.into_iter().flatten().map(setting_text).collect();
            parts.push(format!("open loop, {}, {}", phases.join(", then "), arrivals.unwrap_or_default()));
        }
        (Some(rate), arrivals) => parts.push(format!("open loop, {rate} requests/s, {}", arrivals.unwrap_or_default())),
        (None, Some(arrivals)) => {
            let rates = plural(result.steps.len() as u64, "rate");
            parts.push(format!("open loop, {rates}, {arrivals}"));
        }
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
            let value = value.parse().map_or(value, |number| Grouped(number).to_string());
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
        paragraph(out, &format!("measured from {started}{host}{version}"))?;
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

/// Writes a line for each agent of a load from several machines.
fn write_agents(out: &mut String, result: &RunResult) -> std::fmt::Result {
    for agent in &result.agents {
        let mut parts = vec![format!("{:.1} % of the load", agent.share * 100.0)];
        parts.extend(agent.throughput_rps.map(|per_second| format!("{} requests/s", rate(per_second))));
        let saturation = agent.saturation.as_ref();
        parts.extend(saturation.map(|of| format!("{:.0} % of its threads", of.client_cpu_fraction * 100.0)));
        parts.extend(saturation.and_then(|of| of.ceiling_rps).map(|ceiling| format!("ceiling {}", rate(ceiling))));
        parts.extend(agent.lag_us.map(|lag| format!("lag {} at p99", duration(lag.p99))));
        if let (Some(offset), Some(error)) = (agent.clock_offset_us, agent.clock_error_us) {
            let (offset, error) = (duration(offset.abs()), duration(error));
            let side = if agent.clock_offset_us < Some(0.0) { "behind" } else { "ahead" };
            parts.push(format!("clock {offset} {side}, within {error}"));
        }
        if let Some(why) = &agent.failure {
            parts.push(format!("FAILED: {why}; it had told of {} requests", Grouped(agent.ok + agent.failed)));
        }
        paragraph(out, &format!("agent {}: {}", agent.agent, parts.join(", ")))?;
    }
    if result.agents.is_empty() { Ok(()) } else { writeln!(out) }
}

/// Formats the value of a setting: text without quotes.
pub(super) fn setting_text(value: &serde_json::Value) -> String {
    match (value.as_str(), value.as_f64()) {
        (Some(text), _) => text.to_owned(),
        (None, Some(number)) => number.to_string(),
        (None, None) => value.to_string(),
    }
}

/// Writes the latencies as a table with a row for each percentile, all in one unit.
fn write_latencies(out: &mut String, result: &RunResult) -> std::fmt::Result {
    if result.ok == 0 {
        row(out, "latency", "-", "no reply was verified")?;
        return write_lag(out, result, result.lag_us.map_or(TimeUnit::Milliseconds, |lag| TimeUnit::of(lag.p99)));
    }
    let unit = TimeUnit::of(result.latency_us.p50);
    let leading = if result.service_us.is_some() { "response" } else { "service" };
    let columns: Vec<_> = [
        (leading, Some(result.latency_us)),
        ("service", result.service_us),
        ("first byte", result.first_byte_us),
        ("corrected", result.corrected_us),
    ]
    .into_iter()
    .filter_map(|(name, latency)| Some((name, quantiles(&latency?))))
    .collect();
    write!(out, "{:<18}", format!("latency in {}", unit.name()))?;
    columns.iter().try_for_each(|(name, _)| write!(out, "{name:>15}"))?;
    writeln!(out)?;
    for (index, (name, _)) in quantiles(&result.latency_us).into_iter().enumerate() {
        write!(out, "  {name:<16}")?;
        columns.iter().try_for_each(|(_, latency)| write!(out, "{:>15}", unit.format(latency[index].1)))?;
        writeln!(out)?;
    }
    if result.service_us.is_some() {
        paragraph(out, "response time, from the scheduled send; service time, from the actual send")?;
        return write_lag(out, result, unit);
    }
    paragraph(
        out,
        "service time, from the actual send (closed loop: while the server stalls, little is measured; see --rate)",
    )?;
    match result.corrected_us {
        Some(_) => paragraph(out, "corrected: an estimate, as wrk makes it, of what an open loop would have measured"),
        None => Ok(()),
    }
}

fn write_lag(out: &mut String, result: &RunResult, unit: TimeUnit) -> std::fmt::Result {
    let Some(lag) = &result.lag_us else { return Ok(()) };
    let (p99, max) = (unit.spell(lag.p99), unit.spell(lag.max));
    paragraph(out, &format!("1 % of the requests were sent at least {p99} late, and none more than {max}"))?;
    let Some(backlog) = result.backlog.filter(|backlog| backlog.max > 0) else { return Ok(()) };
    let (p50, p99, max) = (Grouped(backlog.p50), Grouped(backlog.p99), Grouped(backlog.max));
    let server = if result.kind == ProtocolKind::Mq { "their client" } else { "a connection" };
    paragraph(
        out,
        &format!("requests that waited for {server}, whenever one fell due: {p50} at p50, {p99} at p99, {max} at most"),
    )
}

fn quantiles(latency: &Latency) -> [(&'static str, f64); 11] {
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
        paragraph(out, &format!("note: {}", result.saturation.note))?;
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
