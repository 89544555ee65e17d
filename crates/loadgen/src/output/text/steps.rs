//! A result of several rates as text: latency under load, a row for each rate.

use std::fmt::Write as _;

use crate::{
    result::{RunResult, Step},
    units::{Grouped, duration, rate},
};

pub(super) fn write(out: &mut String, result: &RunResult) -> std::fmt::Result {
    if let Some(capacity) = &result.capacity {
        writeln!(
            out,
            "capacity, in a closed loop of {:.1} s: {} requests/s at a service time of {} (p50)",
            capacity.duration_s,
            rate(capacity.throughput_rps),
            duration(capacity.service_us.p50)
        )?;
        writeln!(out)?;
    }
    for name in ["rate", "", "served", "failed", "p50", "p90", "p99", "p99.9", "max", "service p99", "lag p99"] {
        if name.is_empty() {
            write!(out, "{name:>6}")?;
        } else {
            write!(out, "{name:>12}")?;
        }
    }
    writeln!(out, "  client CPU")?;
    result.steps.iter().try_for_each(|step| row(out, step))?;
    writeln!(out)?;
    writeln!(out, "requests/s; response times, from the scheduled send; service time, from the actual send")?;
    for step in result.steps.iter().filter(|step| !step.note.is_empty()) {
        writeln!(out, "note: at {} requests/s {}", rate(step.rate), step.note)?;
    }
    Ok(())
}

fn row(out: &mut String, step: &Step) -> std::fmt::Result {
    let result = &step.result;
    let latency = &result.latency_us;
    let share = step.share.map(|share| format!("{:.0} %", share * 100.0)).unwrap_or_default();
    write!(out, "{:>12}{share:>6}", rate(step.rate))?;
    write!(out, "{:>12}{:>12}", rate(result.throughput_rps), Grouped(result.requests - result.ok).to_string())?;
    for value in [latency.p50, latency.p90, latency.p99, latency.p999, latency.max] {
        let shown = if result.ok > 0 { duration(value) } else { "-".to_owned() };
        write!(out, "{shown:>12}")?;
    }
    for latency in [result.service_us, result.lag_us] {
        write!(out, "{:>12}", latency.map(|latency| duration(latency.p99)).unwrap_or_default())?;
    }
    writeln!(out, "{:>10.0} %", result.saturation.client_cpu_fraction * 100.0)
}
