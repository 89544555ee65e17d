//! A result of several rates as text: latency under load, a row for each rate.

use std::fmt::Write as _;

use super::paragraph;
use crate::{
    result::{RunResult, Step},
    units::{Grouped, TimeUnit, rate},
};

/// Longest latency, in microseconds, up to which a table is in microseconds.
const MICROSECONDS_MAX: f64 = 1e4;

pub(super) fn write(out: &mut String, result: &RunResult) -> std::fmt::Result {
    let unit = unit(result);
    if let Some(capacity) = &result.capacity {
        paragraph(
            out,
            &format!(
                "capacity, in a closed loop of {:.1} s: {} requests/s with a median service time of {}",
                capacity.duration_s,
                rate(capacity.throughput_rps),
                unit.spell(capacity.service_us.p50)
            ),
        )?;
        writeln!(out)?;
    }
    let heading = format!("response time in {}", unit.name());
    writeln!(out, "{:>11}{:6}{:>11}{:>9}{heading:^36}{:>7}", "offered", "", "served", "failed", "client")?;
    writeln!(
        out,
        "{:>11}{:6}{:>11}{:>9}{:>9}{:>9}{:>9}{:>9}{:>7}",
        "per s", "", "per s", "", "p50", "p99", "p99.9", "max", "CPU"
    )?;
    result.steps.iter().try_for_each(|step| row(out, step, unit))?;
    writeln!(out)?;
    paragraph(out, "response time counts from the scheduled send; more figures are in --format json and csv")?;
    for step in result.steps.iter().filter(|step| !step.note.is_empty()) {
        paragraph(out, &format!("note: at {} requests/s {}", rate(step.rate), step.note))?;
    }
    Ok(())
}

/// Chooses one unit for the latencies of all rates, in which the longest fits its column.
fn unit(result: &RunResult) -> TimeUnit {
    let longest = result.steps.iter().map(|step| step.result.latency_us.max).fold(0.0, f64::max);
    if longest < MICROSECONDS_MAX { TimeUnit::Microseconds } else { TimeUnit::Milliseconds }
}

fn row(out: &mut String, step: &Step, unit: TimeUnit) -> std::fmt::Result {
    let result = &step.result;
    let latency = &result.latency_us;
    let share = step.share.map(|share| format!("{:.0} %", share * 100.0)).unwrap_or_default();
    write!(out, "{:>11}{share:>6}", rate(step.rate))?;
    write!(out, "{:>11}{:>9}", rate(result.throughput_rps), Grouped(result.requests - result.ok).to_string())?;
    for value in [latency.p50, latency.p99, latency.p999, latency.max] {
        // Two decimals are enough in a narrow column.
        let shown = match unit {
            _ if result.ok == 0 => "-".to_owned(),
            TimeUnit::Microseconds => format!("{value:.1}"),
            TimeUnit::Milliseconds | TimeUnit::Seconds => format!("{:.2}", value / 1e3),
        };
        write!(out, "{shown:>9}")?;
    }
    writeln!(out, "{:>5.0} %", result.saturation.client_cpu_fraction * 100.0)
}
