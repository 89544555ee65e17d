//! Recordings of requests: access logs and HTTP archives, read for being replayed.
//!
//! A recording has the times of its requests, their methods and targets, and what the server said. What cannot be repeated is counted,
//! never left out in silence.

mod access_log;
mod archive;
mod time;

use std::{collections::BTreeMap, time::Duration};

use http::Uri;

use crate::clock::{self, MICROSECOND, Nanos, SECOND};

/// Requests of a recording, in the order of their times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    pub requests: Vec<RecordedRequest>,
    /// Numbers of those that cannot be repeated, by the reason.
    pub skipped: BTreeMap<&'static str, u64>,
}

/// One request of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordedRequest {
    /// Time from the first request.
    pub at: Nanos,
    pub method: String,
    /// Path and query.
    pub target: String,
    /// `Name: value`, in their order; a log has none.
    pub headers: Vec<String>,
    pub body: Option<Vec<u8>>,
    /// Status of the reply, if it is to be expected again; `None` expects success.
    pub status: Option<u16>,
}

/// Reason why a text is no recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    #[error("it is neither an access log (common, combined or JSON lines) nor an HTTP archive (HAR)")]
    Unknown,
    #[error("line {line}: {why}")]
    Line { line: usize, why: &'static str },
    #[error("it is no HTTP archive: {0}")]
    Archive(String),
    #[error("it has no request that can be repeated{0}")]
    Empty(String),
}

/// A record as its format has it.
struct Record {
    /// Seconds since 1970.
    seconds: f64,
    method: String,
    /// Path and query, or a URL.
    target: String,
    headers: Vec<String>,
    body: Option<Vec<u8>>,
    /// Statuses that are none, such as 0, are of a reply that never came.
    status: Option<u16>,
}

/// Outcome of reading one record: it, or the reason why it cannot be repeated.
type Read = Result<Record, &'static str>;

const BODILESS: &str = "with a method whose body the recording does not have";
const NOT_ANSWERED: &str = "that were not answered or made no sense";
const NO_TARGET: &str = "without a path";

impl Recording {
    /// Reads a recording of any of the formats.
    ///
    /// # Errors
    /// The text has none of them, or nothing that can be repeated.
    pub fn parse(text: &str) -> Result<Self, RecordingError> {
        let is_json = text.trim_start().starts_with('{');
        let records = match is_json.then(|| archive::read(text)).flatten() {
            Some(records) => records?,
            None if is_json => access_log::read_json_lines(text)?,
            None => access_log::read_lines(text)?,
        };
        Self::from_records(records)
    }

    fn from_records(records: Vec<Read>) -> Result<Self, RecordingError> {
        let mut skipped = BTreeMap::new();
        let mut kept: Vec<_> = Vec::with_capacity(records.len());
        for record in records {
            match record.and_then(RecordedRequest::new) {
                Ok(request) => kept.push(request),
                Err(why) => *skipped.entry(why).or_insert(0) += 1,
            }
        }
        // A server logs a request when it has answered it.
        kept.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let Some(&(first, _)) = kept.first() else {
            let reasons: Vec<_> = skipped.iter().map(|(why, count)| format!("{count} {why}")).collect();
            let reasons = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join(", ")) };
            return Err(RecordingError::Empty(reasons));
        };
        spread_whole_seconds(&mut kept);
        let at = |seconds: f64| micros(seconds - first) * MICROSECOND;
        let requests =
            kept.into_iter().map(|(seconds, request)| RecordedRequest { at: at(seconds), ..request }).collect();
        Ok(Self { requests, skipped })
    }

    /// Returns the times at which requests fall due at `speed` times the recorded one, with no pause longer than `pause_max`.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "exact to a nanosecond for a hundred days"
    )]
    pub fn times(&self, speed: f64, pause_max: Option<Duration>) -> Vec<Nanos> {
        let most = pause_max.map_or(Nanos::MAX, clock::nanos);
        let (mut before, mut now) = (0, 0);
        let mut time = |request: &RecordedRequest| {
            now += (request.at - before).min(most);
            before = request.at;
            (now as f64 / speed) as Nanos
        };
        self.requests.iter().map(&mut time).collect()
    }
}

/// Returns whole microseconds: a double has no more digits of a time since 1970.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and a recording is no million years long"
)]
fn micros(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e6).round() as u64
}

/// Spreads the requests of each second evenly over it, if no time has a fraction: a log that knows seconds alone would be a burst at
/// the beginning of each.
#[expect(clippy::cast_precision_loss, reason = "the requests of one second")]
fn spread_whole_seconds(requests: &mut [(f64, RecordedRequest)]) {
    if requests.iter().any(|(seconds, _)| seconds.fract() != 0.0) {
        return;
    }
    for of_one_second in requests.chunk_by_mut(|(one, _), (other, _)| one.total_cmp(other).is_eq()) {
        let count = of_one_second.len() as f64;
        for (index, (seconds, _)) in of_one_second.iter_mut().enumerate() {
            *seconds += index as f64 / count;
        }
    }
}

impl RecordedRequest {
    /// Makes a request of a record, with its time.
    fn new(record: Record) -> Result<(f64, Self), &'static str> {
        let Record { seconds, method, target, headers, body, status } = record;
        let target = path_of(&target).ok_or(NO_TARGET)?;
        let status = expected_status(status)?;
        Ok((seconds, Self { at: 0, method, target, headers, body, status }))
    }

    /// Returns the request without its time, by which those that are alike are found.
    #[must_use]
    pub fn without_time(&self) -> Self {
        Self { at: 0, ..self.clone() }
    }
}

/// Returns path and query of a target as a request line or a URL has it.
fn path_of(target: &str) -> Option<String> {
    let uri: Uri = target.parse().ok()?;
    uri.path_and_query().map(|path| path.as_str().to_owned()).filter(|path| path.starts_with('/'))
}

/// Returns the status that the server should have again, as far as that depends on the request alone.
fn expected_status(status: Option<u16>) -> Result<Option<u16>, &'static str> {
    match status {
        // The client had sent nonsense, was too slow or had gone.
        Some(0 | 400 | 408 | 499) => Err(NOT_ANSWERED),
        // The headers that made it so are not repeated.
        Some(304 | 429) | None => Ok(None),
        Some(status @ 300..500) => Ok(Some(status)),
        Some(_) => Ok(None),
    }
}

/// Returns true if a request of this method has no body, so that a log has all of it.
fn is_bodiless(method: &str) -> bool {
    ["GET", "OPTIONS", "DELETE"].contains(&method)
}

/// Returns the length of a recording with these times.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
pub fn seconds(times: &[Nanos]) -> f64 {
    times.last().copied().unwrap_or(0) as f64 / SECOND as f64
}

#[cfg(test)]
mod tests;
