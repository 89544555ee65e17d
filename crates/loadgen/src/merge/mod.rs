//! Several results as one: what generators on several machines measured together, or what runs measured one after another.
//!
//! Counts are added, and histograms are added counter by counter, so that the percentiles of the whole are exactly those of
//! a histogram that had recorded everything. Results that do not tell of the same measurement are refused.

mod settings;
mod windows;

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::{
    result::{Latency, RunResult, Saturation, ServerUsage, Step},
    summary::{backlog, decode, encode, known},
};

/// How the runs lie in time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Order {
    /// At the same time: throughputs add up, and the window is the longest one.
    Concurrent,
    /// One after another: windows add up, and the throughput is that of all of them.
    Consecutive,
}

impl Order {
    /// As the command line and the merged result have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Concurrent => "concurrent",
            Self::Consecutive => "consecutive",
        }
    }
}

/// A result, and what it is called in messages.
#[derive(Clone, Debug)]
pub struct Part {
    pub name: String,
    pub result: RunResult,
}

/// What came of it.
#[derive(Debug)]
pub struct Merged {
    pub result: RunResult,
    /// What of the parts is not in the whole, and why.
    pub notes: Vec<String>,
}

/// Why results do not add up.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    #[error("there is nothing to merge")]
    Nothing,
    #[error("{what} differs: {first} has {ours}, {other} has {theirs}")]
    Differs { what: String, first: String, ours: String, other: String, theirs: String },
    #[error("{first} and {other} are the same result, which would count twice")]
    Twice { first: String, other: String },
    #[error(
        "{first} had ended at {ended} when {other} began at {began}, so their throughputs were never there at the same time: \
         --merge=consecutive is for runs one after another (if they did overlap, the machines' clocks do not agree)"
    )]
    Apart { first: String, ended: String, other: String, began: String },
    #[error("{name}: its {what} cannot be read")]
    Unreadable { name: String, what: &'static str },
}

/// Merges results of the same kind, target and conditions.
///
/// # Errors
/// There is none, they do not tell of the same measurement, two are the same, concurrent ones were measured at different times,
/// or a histogram cannot be read.
pub fn merge(parts: &[Part], order: Order) -> Result<Merged, MergeError> {
    let Some((first, others)) = parts.split_first() else { return Err(MergeError::Nothing) };
    for other in others {
        agree("schema", first, other, |result| Some(result.schema.to_string()))?;
        agree("kind", first, other, |result| Some(result.kind.clone()))?;
        agree("target", first, other, |result| Some(result.target.clone()))?;
        agree("number of rates", first, other, |result| Some(result.steps.len().to_string()))?;
    }
    let config = settings::merge(parts, order)?;
    windows::check(parts, order)?;
    let results = || parts.iter().map(|part| &part.result);
    let sum = |count: fn(&RunResult) -> u64| results().map(count).sum::<u64>();
    let optional = |count: fn(&RunResult) -> Option<u64>| results().map(count).sum::<Option<u64>>();
    let duration_s = match order {
        Order::Concurrent => results().map(|result| result.duration_s).fold(0.0, f64::max),
        Order::Consecutive => results().map(|result| result.duration_s).sum(),
    };
    let ok = sum(|result| result.ok);
    let throughput_rps = per_second(ok, duration_s);
    let leading = added(parts, "histogram", |result| Some(&result.histogram))?;
    let service = added(parts, "service_histogram", |result| result.service_histogram.as_ref())?;
    let lag = added(parts, "lag_histogram", |result| result.lag_histogram.as_ref())?;
    let waiting = added(parts, "backlog_histogram", |result| result.backlog_histogram.as_ref())?;
    let first_byte = added(parts, "first_byte_histogram", |result| result.first_byte_histogram.as_ref())?;
    let server = server(parts, order);
    let result = RunResult {
        schema: first.result.schema,
        kind: first.result.kind.clone(),
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
        hits: optional(|result| result.hits),
        misses: optional(|result| result.misses),
        stores: optional(|result| result.stores),
        reconnects: sum(|result| result.reconnects),
        bytes_in: sum(|result| result.bytes_in),
        bytes_out: sum(|result| result.bytes_out),
        throughput_rps,
        latency_us: leading.as_ref().and_then(known).unwrap_or_default(),
        service_us: service.as_ref().and_then(known),
        corrected_us: None,
        lag_us: lag.as_ref().and_then(known),
        backlog: waiting.as_ref().and_then(backlog),
        first_byte_us: first_byte.as_ref().and_then(known),
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
        timeline: None,
        capacity: None,
        steps: steps(parts, order)?,
    };
    let notes = notes(parts, order, &result);
    Ok(Merged { result, notes })
}

fn agree(
    what: &str,
    first: &Part,
    other: &Part,
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

fn errors(parts: &[Part]) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (class, count) in parts.iter().flat_map(|part| &part.result.errors) {
        *sums.entry(class.clone()).or_insert(0) += count;
    }
    sums
}

#[expect(clippy::cast_precision_loss, reason = "counts of runs fit a double")]
fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// The sum of a histogram that all of the parts have; nothing if one has none.
fn added(
    parts: &[Part],
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

/// One process seen from several sides is still one; of several processes there is no sum to speak of.
fn server(parts: &[Part], order: Order) -> Option<ServerUsage> {
    let seen: Vec<_> = parts.iter().filter_map(|part| part.result.server.as_ref()).collect();
    let (first, others) = seen.split_first()?;
    if others.iter().any(|other| other.pid != first.pid) {
        return None;
    }
    match order {
        Order::Concurrent => seen.into_iter().max_by(|one, other| one.cpu_s.total_cmp(&other.cpu_s)).cloned(),
        Order::Consecutive if seen.len() < parts.len() => None,
        Order::Consecutive => Some(others.iter().fold((*first).clone(), |sum, next| {
            // What one part has not counted, or otherwise, is not known of the whole.
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

/// CPU seconds over thread seconds of all generators.
fn saturation(parts: &[Part], order: Order, throughput_rps: f64) -> Saturation {
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

fn steps(parts: &[Part], order: Order) -> Result<Vec<Step>, MergeError> {
    let count = parts.first().map_or(0, |part| part.result.steps.len());
    (0..count)
        .map(|index| {
            let steps: Vec<_> = parts.iter().map(|part| &part.result.steps[index]).collect();
            let part = |part: &Part| {
                let name = format!("{}, rate {}", part.name, index + 1);
                Part { name, result: part.result.steps[index].result.clone() }
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

fn notes(parts: &[Part], order: Order, whole: &RunResult) -> Vec<String> {
    let has = |what: fn(&RunResult) -> bool| parts.iter().any(|part| what(&part.result));
    let mut notes: Vec<_> = windows::note(parts, order).into_iter().collect();
    let shortest = parts.iter().map(|part| part.result.duration_s).fold(f64::INFINITY, f64::min);
    if order == Order::Concurrent && shortest < 0.9 * whole.duration_s {
        notes.push(format!(
            "the windows are {shortest:.1} to {:.1} s long: the throughput is that of all requests in the longest",
            whole.duration_s
        ));
    }
    if has(|result| result.server.is_some()) && whole.server.is_none() {
        notes.push("the server's CPU time is left out: not all results are of one process".to_owned());
    }
    if has(|result| result.timeline.is_some()) {
        notes.push("timelines are left out: percentiles of intervals do not add up".to_owned());
    }
    if has(|result| result.corrected_us.is_some()) {
        notes.push("corrected latencies are left out: each is an estimate from its own run's pace".to_owned());
    }
    if has(|result| result.capacity.is_some()) {
        notes.push("capacities are left out: their histograms are not stored".to_owned());
    }
    let partial = |what: fn(&RunResult) -> Option<Latency>, merged: Option<Latency>| {
        merged.is_none() && parts.iter().any(|part| what(&part.result).is_some())
    };
    if partial(|result| result.lag_us, whole.lag_us) {
        notes.push("how late requests were sent is left out: not all results have its histogram".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests;
