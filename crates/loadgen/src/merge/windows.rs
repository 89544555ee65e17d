//! Measured windows of merged results: those of concurrent runs must overlap.

use std::time::{Duration, SystemTime};

use super::{MergeError, Order};
use crate::result::{NamedResult, Origin, RunResult};

/// Common share of concurrent windows below which there is a note.
const COMMON_SHARE_MIN: f64 = 0.9;

/// Refuses equal results, which would count twice.
pub(super) fn check_distinct(parts: &[NamedResult]) -> Result<(), MergeError> {
    for (index, other) in parts.iter().enumerate() {
        if let Some(first) = parts[..index].iter().find(|first| first.result == other.result) {
            return Err(MergeError::Duplicate { first: first.name.clone(), other: other.name.clone() });
        }
    }
    Ok(())
}

/// Refuses throughputs that would add up but were never there at the same time.
pub(super) fn check_overlap(parts: &[NamedResult], order: Order) -> Result<(), MergeError> {
    let Some(windows) = windows(parts).filter(|_| order == Order::Concurrent) else { return Ok(()) };
    let (first, ended) = earliest_end(&windows);
    match windows.iter().find(|(_, began, _)| *began > ended) {
        None => Ok(()),
        Some((other, began, _)) => Err(MergeError::NotConcurrent {
            first: first.name.clone(),
            ended: rfc3339(ended),
            other: other.name.clone(),
            began: rfc3339(*began),
        }),
    }
}

/// Warns of concurrent windows that overlap only in part.
pub(super) fn note(parts: &[NamedResult], order: Order) -> Option<String> {
    let windows = windows(parts).filter(|_| order == Order::Concurrent)?;
    let (_, first_end) = earliest_end(&windows);
    let last_end = windows.iter().map(|(_, _, end)| *end).max()?;
    let (begin, last_begin) =
        (windows.iter().map(|(_, begin, _)| *begin).min()?, windows.iter().map(|(_, b, _)| *b).max()?);
    let seconds = |from: SystemTime, to: SystemTime| to.duration_since(from).unwrap_or_default().as_secs_f64();
    let (common, whole) = (seconds(last_begin, first_end), seconds(begin, last_end));
    (common < COMMON_SHARE_MIN * whole).then(|| {
        format!("of {whole:.1} s in which any of them was measured all were for {common:.1} s: the throughput is at most this")
    })
}

/// Merges the origins: the time of the first, and the version and host that all have in common.
pub(super) fn origin(parts: &[NamedResult]) -> Origin {
    let origins = || parts.iter().map(|part| &part.result.origin);
    let common = |value: fn(&Origin) -> &Option<String>| {
        let first = origins().next().and_then(|origin| value(origin).clone());
        first.filter(|_| origins().all(|origin| value(origin) == value(&parts[0].result.origin)))
    };
    // All have the same number of digits, so the order of the texts is that of the times.
    let started = origins().map(|origin| origin.started_utc.clone()).collect::<Option<Vec<_>>>();
    Origin {
        started_utc: started.and_then(|started| started.into_iter().min()),
        version: common(|origin| &origin.version),
        host: common(|origin| &origin.host),
        interrupted: origins().any(|origin| origin.interrupted),
    }
}

/// A result, and the begin and end of its window.
type Window<'a> = (&'a NamedResult, SystemTime, SystemTime);

/// Returns the windows of all parts, or `None` if a part does not say when it was measured.
fn windows(parts: &[NamedResult]) -> Option<Vec<Window<'_>>> {
    if parts.len() < 2 {
        return None;
    }
    parts.iter().map(|part| extent(&part.result).map(|(begin, end)| (part, begin, end))).collect()
}

fn extent(result: &RunResult) -> Option<(SystemTime, SystemTime)> {
    if let (Some(first), Some(last)) = (result.steps.first(), result.steps.last()) {
        return Some((extent(&first.result)?.0, extent(&last.result)?.1));
    }
    let begin = humantime::parse_rfc3339(result.origin.started_utc.as_deref()?).ok()?;
    Some((begin, begin.checked_add(Duration::try_from_secs_f64(result.duration_s).ok()?)?))
}

/// Returns the window that ended first. There is at least one window.
fn earliest_end<'a>(windows: &[Window<'a>]) -> (&'a NamedResult, SystemTime) {
    let (part, _, end) =
        windows.iter().skip(1).fold(windows[0], |one, other| if other.2 < one.2 { *other } else { one });
    (part, end)
}

fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}
