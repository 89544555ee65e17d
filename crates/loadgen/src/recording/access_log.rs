//! Access logs: the common and the combined format, and JSON lines under the names that servers give their fields.

use serde_json::Value;

use super::{BODILESS, NOT_ANSWERED, Read, Record, RecordingError, is_bodiless, time};

const TIMES: &[&str] = &["time", "ts", "timestamp", "@timestamp", "time_iso8601", "msec", "StartUTC"];
const METHODS: &[&str] = &["method", "request_method", "RequestMethod"];
const TARGETS: &[&str] = &["target", "uri", "request_uri", "url", "path", "RequestPath"];
const BODIES: &[&str] = &["request_body", "body"];
const TYPES: &[&str] = &["content_type", "http_content_type"];
const STATUSES: &[&str] = &["status", "DownstreamStatus"];

/// Reads lines of the common or combined format. A line that has not is an error if it is the first.
pub(super) fn read_lines(text: &str) -> Result<Vec<Read>, RecordingError> {
    let mut records = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match parse_line(line) {
            Some(read) => records.push(read),
            None if records.is_empty() => return Err(RecordingError::Unknown),
            None => records.push(Err(NOT_ANSWERED)),
        }
    }
    Ok(records)
}

/// Parses `CLIENT - USER [TIME] "REQUEST LINE" STATUS …`. A request line that is none is a reason to skip it.
fn parse_line(line: &str) -> Option<Read> {
    let (_, rest) = line.split_once('[')?;
    let (time, rest) = rest.split_once("] \"")?;
    let seconds = time::parse_common(time)?;
    let (request, rest) = split_quoted(rest)?;
    let status = rest.split_whitespace().next()?.parse().ok();
    Some(from_request_line(&request, seconds, status).and_then(complete))
}

/// Splits at the end of a quoted text, in which a backslash stands before quotes and itself.
fn split_quoted(text: &str) -> Option<(String, &str)> {
    let (mut quoted, mut characters) = (String::new(), text.char_indices());
    loop {
        match characters.next()? {
            (end, '"') => return Some((quoted, &text[end + 1..])),
            (_, '\\') => match characters.next()?.1 {
                escaped @ ('"' | '\\') => quoted.push(escaped),
                // The bytes of a target that are not printable: such a target cannot be repeated.
                other => quoted.extend(['\\', other]),
            },
            (_, other) => quoted.push(other),
        }
    }
}

fn from_request_line(line: &str, seconds: f64, status: Option<u16>) -> Read {
    let mut words = line.split(' ');
    match (words.next(), words.next()) {
        (Some(method), Some(target)) if !method.is_empty() => {
            let (method, target) = (method.to_owned(), target.to_owned());
            Ok(Record { seconds, method, target, headers: Vec::new(), body: None, status })
        }
        _ => Err(NOT_ANSWERED),
    }
}

/// Returns the record of a request of which nothing is missing: a body, if its method has one.
fn complete(record: Record) -> Read {
    if record.body.is_none() && !is_bodiless(&record.method) { Err(BODILESS) } else { Ok(record) }
}

/// Reads an object on each line.
pub(super) fn read_json_lines(text: &str) -> Result<Vec<Read>, RecordingError> {
    let mut records = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let problem = |why| RecordingError::Line { line: index + 1, why };
        let object: Value = serde_json::from_str(line).map_err(|_| problem("it is no JSON object"))?;
        let seconds = field(&object, TIMES).and_then(seconds).ok_or_else(|| problem("it has no time that is known"))?;
        // Caddy has what is about the request in an object of its own, and nginx the whole request line in a text.
        let request = object.get("request").filter(|request| request.is_object()).unwrap_or(&object);
        let status = field(&object, STATUSES).and_then(status);
        let line = object.get("request").and_then(Value::as_str);
        let text = |names| field(request, names).and_then(Value::as_str);
        let record = match (text(METHODS), text(TARGETS), line) {
            (Some(method), Some(target), _) => from_request_line(&format!("{method} {target}"), seconds, status),
            (_, _, Some(line)) => from_request_line(line, seconds, status),
            _ => Err(NOT_ANSWERED),
        };
        let kind = text(TYPES).filter(|kind| !kind.is_empty()).map(|kind| format!("Content-Type: {kind}"));
        let body = text(BODIES).map(|body| body.as_bytes().to_vec());
        let with_body = |record: Record| match is_bodiless(&record.method) {
            // Servers log an empty body and type where there was none.
            true => record,
            false => Record { body, headers: kind.into_iter().collect(), ..record },
        };
        records.push(record.map(with_body).and_then(complete));
    }
    Ok(records)
}

fn field<'a>(object: &'a Value, names: &[&str]) -> Option<&'a Value> {
    names.iter().find_map(|name| object.get(name).filter(|value| !value.is_null()))
}

/// Reads seconds since 1970, milliseconds if there are too many of them, or a text.
fn seconds(value: &Value) -> Option<f64> {
    /// Year 5138 in seconds, and 1973 in milliseconds.
    const SECONDS_MAX: f64 = 1e11;
    let text = value.as_str();
    let number = value.as_f64().or_else(|| text.and_then(|text| text.parse().ok()));
    match number {
        Some(number) if number.abs() > SECONDS_MAX => Some(number / 1e3),
        Some(number) => Some(number),
        None => text.and_then(|text| time::parse_rfc3339(text).or_else(|| time::parse_common(text))),
    }
}

fn status(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|status| u16::try_from(status).ok()).or_else(|| value.as_str()?.parse().ok())
}
