//! Several results as one: those of generators that ran at the same time, or those of runs one after another.
//!
//! Counts are added, and histograms counter by counter. So the percentiles of the whole are exactly those of a histogram that had
//! recorded everything. Results of different measurements are refused.

mod settings;
mod windows;

use std::collections::BTreeMap;

use clap::ValueEnum;
use hdrhistogram::Histogram;

use crate::{
    histogram::{decode, encode},
    result::{
        Backlog, BodySeen, Handshakes, Latency, NamedResult, RunResult, Saturation, ServerUsage, Step, TlsSession,
    },
};

/// Order of the merged runs in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Generators that ran at the same time: throughputs add up
    Concurrent,
    /// Runs one after another: windows add up
    Consecutive,
}

/// A merged result.
#[derive(Debug)]
pub struct Merged {
    pub result: RunResult,
    /// Figures of the parts that the whole lacks, with the reason.
    pub notes: Vec<String>,
}

/// Reason why results do not add up.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    #[error("there is nothing to merge")]
    Empty,
    #[error("{what} differs: {first} has {ours}, {other} has {theirs}")]
    Differs { what: String, first: String, ours: String, other: String, theirs: String },
    #[error("{first} and {other} are the same result, which would count twice")]
    Duplicate { first: String, other: String },
    #[error(
        "{first} had ended at {ended} when {other} began at {began}, so their throughputs were never there at the same time: \
         --merge=consecutive is for runs one after another (if they did overlap, the machines' clocks do not agree)"
    )]
    NotConcurrent { first: String, ended: String, other: String, began: String },
    #[error("{name}: its {what} cannot be read")]
    Unreadable { name: String, what: &'static str },
}

/// Merges results of the same kind, target and conditions.
///
/// # Errors
/// There is no result, the results are of different measurements, two are equal, concurrent ones were measured at different times, or
/// a histogram cannot be read.
pub fn merge(parts: &[NamedResult], order: Order) -> Result<Merged, MergeError> {
    merge_parts(parts, order, Overlap::Required)
}

/// Merges the results of generators that were told to begin at one time. A machine that was late for a short run is a note, not an
/// error.
///
/// # Errors
/// As [`merge`], but for the times of the measurements.
pub fn merge_agents(parts: &[NamedResult]) -> Result<Merged, MergeError> {
    merge_parts(parts, Order::Concurrent, Overlap::Noted)
}

/// Consequence of concurrent windows that do not overlap.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Overlap {
    Required,
    Noted,
}

fn merge_parts(parts: &[NamedResult], order: Order, overlap: Overlap) -> Result<Merged, MergeError> {
    let Some((first, others)) = parts.split_first() else { return Err(MergeError::Empty) };
    for other in others {
        check_equal("schema", first, other, |result| Some(result.schema.to_string()))?;
        check_equal("kind", first, other, |result| Some(result.kind.to_string()))?;
        check_equal("target", first, other, |result| Some(result.target.clone()))?;
        check_equal("number of rates", first, other, |result| Some(result.steps.len().to_string()))?;
    }
    let config = settings::merge(parts, order)?;
    windows::check_distinct(parts)?;
    if overlap == Overlap::Required {
        windows::check_overlap(parts, order)?;
    }
    let results = || parts.iter().map(|part| &part.result);
    let sum = |count: fn(&RunResult) -> u64| results().map(count).sum::<u64>();
    let optional = |count: fn(&RunResult) -> Option<u64>| results().map(count).sum::<Option<u64>>();
    let duration_s = match order {
        Order::Concurrent => results().map(|result| result.duration_s).fold(0.0, f64::max),
        Order::Consecutive => results().map(|result| result.duration_s).sum(),
    };
    let ok = sum(|result| result.ok);
    let throughput_rps = per_second(ok, duration_s);
    let leading = sum_histograms(parts, "histogram", |result| Some(&result.histogram))?;
    let service = sum_histograms(parts, "service_histogram", |result| result.service_histogram.as_ref())?;
    let lag = sum_histograms(parts, "lag_histogram", |result| result.lag_histogram.as_ref())?;
    let waiting = sum_histograms(parts, "backlog_histogram", |result| result.backlog_histogram.as_ref())?;
    let first_byte = sum_histograms(parts, "first_byte_histogram", |result| result.first_byte_histogram.as_ref())?;
    let has_handshakes = |part: &&NamedResult| part.result.handshakes.is_some_and(|of| of.full + of.resumed > 0);
    let shaken: Vec<_> = parts.iter().filter(has_handshakes).cloned().collect();
    let handshake = sum_histograms(&shaken, "handshake_histogram", |result| result.handshake_histogram.as_ref())?;
    let server = server(parts, order);
    let result = RunResult {
        schema: first.result.schema,
        kind: first.result.kind,
        target: first.result.target.clone(),
        config,
        duration_s,
        warmup_s: None,
        warmup_steady: parts
            .iter()
            .map(|part| part.result.warmup_steady)
            .reduce(|all, one| Some(all? && one?))
            .flatten(),
        requests: sum(|result| result.requests),
        ok,
        errors: errors(parts),
        error_details: error_details(parts),
        connections_opened: match order {
            Order::Concurrent => optional(|result| result.connections_opened),
            // Each had all of them to open.
            Order::Consecutive => results().map(|result| result.connections_opened).min().flatten(),
        },
        hits: optional(|result| result.hits),
        misses: optional(|result| result.misses),
        stores: optional(|result| result.stores),
        reconnects: sum(|result| result.reconnects),
        bytes_in: sum(|result| result.bytes_in),
        bytes_out: sum(|result| result.bytes_out),
        throughput_rps,
        latency_us: leading.as_ref().and_then(Latency::if_recorded).unwrap_or_default(),
        service_us: service.as_ref().and_then(Latency::if_recorded),
        corrected_us: None,
        lag_us: lag.as_ref().and_then(Latency::if_recorded),
        backlog: waiting.as_ref().and_then(Backlog::if_recorded),
        first_byte_us: first_byte.as_ref().and_then(Latency::if_recorded),
        handshakes: handshakes(parts, handshake.as_ref(), duration_s),
        tls_sessions: TlsSession::distinct(results().flat_map(|result| result.tls_sessions.clone())),
        client_cpu_s: results().map(|result| result.client_cpu_s).sum(),
        client_user_s: results().map(|result| result.client_user_s).sum(),
        client_system_s: results().map(|result| result.client_system_s).sum(),
        server,
        saturation: saturation(parts, order, throughput_rps),
        clipped: sum(|result| result.clipped),
        origin: windows::origin(parts),
        histogram: leading.as_ref().map(encode).unwrap_or_default(),
        service_histogram: service.as_ref().map(encode),
        lag_histogram: lag.as_ref().map(encode),
        backlog_histogram: waiting.as_ref().map(encode),
        first_byte_histogram: first_byte.as_ref().map(encode),
        handshake_histogram: handshake.as_ref().map(encode),
        bodies: BodySeen::distinct(results().flat_map(|result| result.bodies.clone())),
        agents: Vec::new(),
        timeline: None,
        capacity: None,
        steps: steps(parts, order)?,
    };
    let notes = notes(parts, order, &result);
    Ok(Merged { result, notes })
}

fn check_equal(
    what: &str,
    first: &NamedResult,
    other: &NamedResult,
    value: impl Fn(&RunResult) -> Option<String>,
) -> Result<(), MergeError> {
    let (ours, theirs) = (value(&first.result), value(&other.result));
    if ours == theirs {
        return Ok(());
    }
    let shown = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
    Err(MergeError::Differs {
        what: what.to_owned(),
        first: first.name.clone(),
        ours: shown(ours),
        other: other.name.clone(),
        theirs: shown(theirs),
    })
}

fn errors(parts: &[NamedResult]) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (class, count) in parts.iter().flat_map(|part| &part.result.errors) {
        *sums.entry(class.clone()).or_insert(0) += count;
    }
    sums
}

fn error_details(parts: &[NamedResult]) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut sums: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for (class, details) in parts.iter().flat_map(|part| &part.result.error_details) {
        let of_class = sums.entry(class.clone()).or_default();
        details.iter().for_each(|(detail, count)| *of_class.entry(detail.clone()).or_default() += count);
    }
    sums
}

/// Adds up the handshakes, which parts without any have no histogram of.
fn handshakes(parts: &[NamedResult], latency: Option<&Histogram<u64>>, duration_s: f64) -> Option<Handshakes> {
    let seen = parts.iter().map(|part| part.result.handshakes).collect::<Option<Vec<_>>>()?;
    let (full, resumed) = seen.iter().fold((0, 0), |(full, resumed), of| (full + of.full, resumed + of.resumed));
    let rate = per_second(full + resumed, duration_s);
    Some(Handshakes { full, resumed, rate, latency_us: latency.and_then(Latency::if_recorded) })
}

#[expect(clippy::cast_precision_loss, reason = "counts of runs fit a double")]
fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// Adds up a histogram that all of the parts have; `None` if one has none.
fn sum_histograms(
    parts: &[NamedResult],
    what: &'static str,
    text: impl Fn(&RunResult) -> Option<&String>,
) -> Result<Option<Histogram<u64>>, MergeError> {
    let mut sum: Option<Histogram<u64>> = None;
    for part in parts {
        let Some(text) = text(&part.result) else { return Ok(None) };
        let unreadable = || MergeError::Unreadable { name: part.name.clone(), what };
        let histogram = decode(text).ok_or_else(unreadable)?;
        match &mut sum {
            None => sum = Some(histogram),
            // It fails if a value lies outside of the bounds, which ours all share.
            Some(sum) => sum.add(&histogram).map_err(|_| unreadable())?,
        }
    }
    Ok(sum)
}

/// Merges what the server used. One process seen by several generators is counted once; usages of several processes have no sum.
fn server(parts: &[NamedResult], order: Order) -> Option<ServerUsage> {
    let seen: Vec<_> = parts.iter().filter_map(|part| part.result.server.as_ref()).collect();
    let (first, others) = seen.split_first()?;
    if others.iter().any(|other| other.pid != first.pid) {
        return None;
    }
    match order {
        Order::Concurrent => seen.into_iter().max_by(|one, other| one.cpu_s.total_cmp(&other.cpu_s)).cloned(),
        Order::Consecutive if seen.len() < parts.len() => None,
        Order::Consecutive => Some(others.iter().fold((*first).clone(), |sum, next| {
            // A count that one part lacks, or counted in other modes, is unknown of the whole.
            let modes = sum.instructions_modes.filter(|modes| next.instructions_modes == Some(*modes));
            ServerUsage {
                pid: sum.pid,
                cpu_s: sum.cpu_s + next.cpu_s,
                user_s: sum.user_s + next.user_s,
                system_s: sum.system_s + next.system_s,
                rss_bytes: next.rss_bytes,
                context_switches_voluntary: sum.context_switches_voluntary + next.context_switches_voluntary,
                context_switches_involuntary: sum.context_switches_involuntary + next.context_switches_involuntary,
                instructions: modes.and_then(|_| Some(sum.instructions? + next.instructions?)),
                instructions_modes: modes,
                instructions_unknown: sum.instructions_unknown.or_else(|| next.instructions_unknown.clone()),
            }
        })),
    }
}

/// Merges the saturation: CPU seconds over thread seconds of all generators.
fn saturation(parts: &[NamedResult], order: Order, throughput_rps: f64) -> Saturation {
    let (mut cpu_s, mut thread_s) = (0.0, 0.0);
    for RunResult { client_cpu_s, saturation, .. } in parts.iter().map(|part| &part.result) {
        if saturation.client_cpu_fraction > 0.0 {
            cpu_s += client_cpu_s;
            thread_s += client_cpu_s / saturation.client_cpu_fraction;
        }
    }
    let ceilings = parts.iter().map(|part| part.result.saturation.ceiling_rps);
    let ceiling_rps = ceilings.collect::<Option<Vec<_>>>().map(|ceilings| match order {
        Order::Concurrent => ceilings.iter().sum(),
        Order::Consecutive => ceilings.iter().copied().fold(f64::INFINITY, f64::min),
    });
    let noted = parts.iter().filter(|part| !part.result.saturation.note.is_empty());
    let notes: Vec<_> = noted.map(|part| format!("{}: {}", part.name, part.result.saturation.note)).collect();
    Saturation {
        client_cpu_fraction: if thread_s > 0.0 { cpu_s / thread_s } else { 0.0 },
        note: notes.join("; "),
        ceiling_rps,
        ceiling_unknown: None,
        ceiling_fraction: ceiling_rps.filter(|ceiling| *ceiling > 0.0).map(|ceiling| throughput_rps / ceiling),
    }
}

fn steps(parts: &[NamedResult], order: Order) -> Result<Vec<Step>, MergeError> {
    let count = parts.first().map_or(0, |part| part.result.steps.len());
    (0..count)
        .map(|index| {
            let steps: Vec<_> = parts.iter().map(|part| &part.result.steps[index]).collect();
            let part = |part: &NamedResult| {
                let name = format!("{}, rate {}", part.name, index + 1);
                NamedResult { name, result: part.result.steps[index].result.clone() }
            };
            let merged = merge(&parts.iter().map(part).collect::<Vec<_>>(), order)?;
            let notes: Vec<_> = steps.iter().map(|step| step.note.as_str()).filter(|note| !note.is_empty()).collect();
            Ok(Step {
                rate: match order {
                    Order::Concurrent => steps.iter().map(|step| step.rate).sum(),
                    Order::Consecutive => steps[0].rate,
                },
                share: steps[0].share.filter(|share| steps.iter().all(|step| step.share == Some(*share))),
                is_served: steps.iter().all(|step| step.is_served),
                note: notes.join("; "),
                result: merged.result,
            })
        })
        .collect()
}

fn notes(parts: &[NamedResult], order: Order, whole: &RunResult) -> Vec<String> {
    let any = |has: fn(&RunResult) -> bool| parts.iter().any(|part| has(&part.result));
    let mut notes: Vec<_> = windows::note(parts, order).into_iter().collect();
    let shortest = parts.iter().map(|part| part.result.duration_s).fold(f64::INFINITY, f64::min);
    if order == Order::Concurrent && shortest < 0.9 * whole.duration_s {
        notes.push(format!(
            "the windows are {shortest:.1} to {:.1} s long: the throughput is that of all requests in the longest",
            whole.duration_s
        ));
    }
    if any(|result| result.server.is_some()) && whole.server.is_none() {
        notes.push("the server's CPU time is left out: not all results are of one process".to_owned());
    }
    if any(|result| result.timeline.is_some()) {
        notes.push("timelines are left out: percentiles of intervals do not add up".to_owned());
    }
    if any(|result| result.corrected_us.is_some()) {
        notes.push("corrected latencies are left out: each is an estimate from its own run's pace".to_owned());
    }
    if any(|result| result.capacity.is_some()) {
        notes.push("capacities are left out: their histograms are not stored".to_owned());
    }
    if any(|result| result.lag_us.is_some()) && whole.lag_us.is_none() {
        notes.push("how late requests were sent is left out: not all results have its histogram".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests;
