//! HTTP archives (HAR 1.2), as browsers save them.

use serde::Deserialize;

use super::{NOT_ANSWERED, Read, Record, RecordingError, time};

const OTHER_HOST: &str = "to other hosts than the first";
const NOT_TEXT: &str = "with a body that the archive does not have";

/// Headers that the generator sets, or whose replies depend on what only the recorded client had.
const LEFT_OUT: &[&str] = &[
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

#[derive(Deserialize)]
struct Archive {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    started_date_time: String,
    request: Request,
    response: Option<Response>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<Header>,
    post_data: Option<PostData>,
    #[serde(default)]
    body_size: i64,
}

#[derive(Deserialize)]
struct Header {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct PostData {
    text: Option<String>,
    /// Fields of a form, instead of the text.
    #[serde(default)]
    params: Vec<Param>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Param {
    name: String,
    #[serde(default)]
    value: String,
    file_name: Option<String>,
}

impl PostData {
    /// Returns the body; `None` if the archive does not have it.
    fn body(self) -> Option<String> {
        // A form with files has a boundary between its parts that is not recorded.
        let is_form = !self.params.is_empty() && self.params.iter().all(|param| param.file_name.is_none());
        let fields = || self.params.iter().map(|it| format!("{}={}", form_encoded(&it.name), form_encoded(&it.value)));
        self.text
            .filter(|text| !text.is_empty() || !is_form)
            .or_else(|| is_form.then(|| fields().collect::<Vec<_>>().join("&")))
    }
}

/// Encodes a text as `application/x-www-form-urlencoded`.
fn form_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' ' => out.push('+'),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'*' | b'-' | b'.' | b'_' => out.push(byte.into()),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[derive(Deserialize)]
struct Response {
    status: u16,
}

/// Reads an archive; `None` if the text is none, but perhaps an object on each line.
pub(super) fn read(text: &str) -> Option<Result<Vec<Read>, RecordingError>> {
    // A log has one object after another, and an archive one in all.
    let is_whole = serde_json::from_str::<serde_json::Value>(text).is_ok_and(|whole| whole.get("log").is_some());
    is_whole.then(|| {
        let archive: Archive =
            serde_json::from_str(text).map_err(|error| RecordingError::Archive(error.to_string()))?;
        let entries = archive.log.entries;
        let host = entries.first().map(|entry| authority(&entry.request.url).to_owned()).unwrap_or_default();
        Ok(entries.into_iter().map(|entry| record(entry, &host)).collect())
    })
}

fn record(entry: Entry, host: &str) -> Read {
    let Entry { started_date_time, request, response } = entry;
    let seconds = time::parse_rfc3339(&started_date_time).ok_or(NOT_ANSWERED)?;
    if authority(&request.url) != host {
        return Err(OTHER_HOST);
    }
    let is_sent = |header: &Header| {
        let name = header.name.to_ascii_lowercase();
        // The fields of HTTP/2 that begin with a colon are the request line.
        !name.starts_with(':') && !LEFT_OUT.contains(&name.as_str())
    };
    let headers = request.headers.iter().filter(|header| is_sent(header));
    let headers = headers.map(|header| format!("{}: {}", header.name, header.value)).collect();
    let body = request.post_data.and_then(PostData::body);
    if body.is_none() && request.body_size > 0 {
        return Err(NOT_TEXT);
    }
    let status = response.map(|response| response.status);
    Ok(Record {
        seconds,
        method: request.method,
        target: request.url,
        headers,
        body: body.map(String::into_bytes),
        status,
    })
}

/// Returns scheme, host and port of a URL.
fn authority(url: &str) -> &str {
    let from = url.find("://").map_or(0, |at| at + 3);
    url[from..].find(['/', '?', '#']).map_or(url, |end| &url[..from + end])
}
